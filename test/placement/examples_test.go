// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// TestTheExampleOfBinPackingPacksADeployment takes the example from every page that shows it. The
// pods of a Deployment spread by default, more strongly than the utilization of nodes counts.
func TestTheExampleOfBinPackingPacksADeployment(t *testing.T) {
	const sample = "config/samples/livesched_v1alpha1_schedulerprofile_binpack.yaml"
	want := example(t, sample)
	for _, page := range []string{sample, "README.md", "docs/configure.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			got := example(t, page)
			if asJSON(t, got.Spec) != asJSON(t, want.Spec) {
				t.Errorf("the spec differs from that of %s:\n%s\n%s", sample, asJSON(t, got.Spec), asJSON(t, want.Spec))
			}
			// Eight pods fit on a node.
			if used := nodesUsed(t, got, 24); used != 3 {
				t.Errorf("24 pods are on %d nodes, want 3", used)
			}
		})
	}
}

// TestTheTutorialOfGPUsShowsWhatItSays places its pods with both of its profiles: eight pods with
// one GPU each, and then one that needs all GPUs of a node.
func TestTheTutorialOfGPUsShowsWhatItSays(t *testing.T) {
	const page = "docs/tutorials/gpu-bin-packing.md"
	content, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, has string
		nodes     int // that the small pods are on
		large     bool
	}{
		{"the default profile spreads", "spec: {}", 4, false},
		{"the profile packs", "type: MostAllocated", 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			profile := profileIn(t, string(content), test.has)
			large := objects.Pod("default", "train", profile.Name, "8", "64Gi")
			large.UID = "train"
			pods := append(replicas(profile, 8, "2", "8Gi"), large)
			for i, pod := range pods {
				gpus := "1"
				if i == 8 {
					gpus = "8"
				}
				pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse(gpus)
			}
			var nodes []*corev1.Node
			for i := range 10 {
				name := fmt.Sprintf("node-%d", i)
				node := objects.Node(name, "32", "256Gi",
					map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-a"})
				if i < 4 {
					node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
				}
				nodes = append(nodes, node)
			}
			hosts := place(t, profile, nodes, pods)
			if used := sets.New(hosts[:8]...).Len(); used != test.nodes {
				t.Errorf("eight pods are on %d nodes (%v), want %d", used, hosts, test.nodes)
			}
			if got := hosts[8] != ""; got != test.large {
				t.Errorf("the large pod fits: %v, want %v (%v)", got, test.large, hosts)
			}
		})
	}
}

// profileIn returns the profile of a page that has a given text.
func profileIn(t *testing.T, page, has string) *v1alpha1.SchedulerProfile {
	t.Helper()
	for _, block := range strings.Split(page, "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "kind: SchedulerProfile") || !strings.Contains(block, has) {
			continue
		}
		profile := &v1alpha1.SchedulerProfile{}
		if err := yaml.UnmarshalStrict([]byte(block), profile); err != nil {
			t.Fatal(err)
		}
		return profile
	}
	t.Fatalf("no profile has %q", has)
	return nil
}

// example returns the profile "binpack" in a file.
func example(t *testing.T, file string) *v1alpha1.SchedulerProfile {
	t.Helper()
	page, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if strings.HasSuffix(file, ".md") {
		return profileIn(t, text, "name: binpack")
	}
	profile := &v1alpha1.SchedulerProfile{}
	if err := yaml.UnmarshalStrict([]byte(text), profile); err != nil || profile.Name != "binpack" {
		t.Fatalf("%s: profile %q: %v", file, profile.Name, err)
	}
	return profile
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nodesUsed places the pods of a Deployment on a dozen empty nodes in three zones, and returns the
// number of nodes that they are on.
func nodesUsed(t *testing.T, profile *v1alpha1.SchedulerProfile, pods int) int {
	t.Helper()
	var nodes []*corev1.Node
	for i := range 12 {
		name := fmt.Sprintf("node-%d", i)
		nodes = append(nodes, objects.Node(name, "4", "16Gi", map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3),
		}))
	}
	return sets.New(place(t, profile, nodes, replicas(profile, pods, "500m", "1Gi"))...).Len()
}

// owner is the ReplicaSet of all pods that replicas returns.
var owner = &appsv1.ReplicaSet{
	ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "batch", UID: "set"},
	Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "batch"}}},
}

func replicas(profile *v1alpha1.SchedulerProfile, count int, cpu, memory string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range count {
		pod := objects.Pod(owner.Namespace, fmt.Sprintf("batch-%d", i), profile.Name, cpu, memory)
		pod.UID, pod.Labels = types.UID(pod.Name), owner.Spec.Selector.MatchLabels
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner.Name,
			UID: owner.UID, Controller: ptr.To(true)}}
		pods = append(pods, pod)
	}
	return pods
}

// place places pods one after the other, and returns their nodes; "" for a pod that fits nowhere.
func place(t *testing.T, profile *v1alpha1.SchedulerProfile, nodes []*corev1.Node, pods []*corev1.Pod) []string {
	t.Helper()
	configuration := &sidebyside.Configuration{Parallelism: 1}
	if err := json.Unmarshal([]byte(asJSON(t, profile.Spec)), &configuration.Profile); err != nil {
		t.Fatal(err)
	}
	configuration.Profile.SchedulerName = &profile.Name
	stored := sidebyside.NewObjects()
	if err := stored.Put(owner); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	defer cancel()
	l, err := sidebyside.NewLivesched(ctx, stored, configuration, sidebyside.FastPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, node := range nodes {
		l.Cache.AddNode(logr.Discard(), node)
	}
	var hosts []string
	for _, pod := range pods {
		decision := l.Decide(pod)
		hosts = append(hosts, decision.Host)
		if decision.Host == "" {
			continue
		}
		pod.Spec.NodeName = decision.Host
		if err := l.Cache.AddPod(logr.Discard(), pod); err != nil {
			t.Fatal(err)
		}
	}
	return hosts
}
