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

// example returns the profile "binpack" in a file.
func example(t *testing.T, file string) *v1alpha1.SchedulerProfile {
	t.Helper()
	page, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if strings.HasSuffix(file, ".md") {
		for _, block := range strings.Split(text, "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if strings.Contains(block, "kind: SchedulerProfile") && strings.Contains(block, "name: binpack") {
				text = block
				break
			}
		}
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

// nodesUsed places the pods of a Deployment one after the other, on a dozen empty nodes in three
// zones, and returns the number of nodes that they are on.
func nodesUsed(t *testing.T, profile *v1alpha1.SchedulerProfile, pods int) int {
	t.Helper()
	configuration := &sidebyside.Configuration{Parallelism: 1}
	if err := json.Unmarshal([]byte(asJSON(t, profile.Spec)), &configuration.Profile); err != nil {
		t.Fatal(err)
	}
	configuration.Profile.SchedulerName = &profile.Name
	labels := map[string]string{"app": "batch"}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "batch", UID: "set"},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	stored := sidebyside.NewObjects()
	if err := stored.Put(set); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	defer cancel()
	l, err := sidebyside.NewLivesched(ctx, stored, configuration, sidebyside.FastPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 12 {
		name := fmt.Sprintf("node-%d", i)
		l.Cache.AddNode(logr.Discard(), objects.Node(name, "4", "16Gi", map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3),
		}))
	}
	used := sets.New[string]()
	for i := range pods {
		pod := objects.Pod("default", fmt.Sprintf("batch-%d", i), profile.Name, "500m", "1Gi")
		pod.UID, pod.Labels = types.UID(pod.Name), labels
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}
		decision := l.Decide(pod)
		if decision.Err != nil {
			t.Fatal(decision.Err)
		}
		pod.Spec.NodeName = decision.Host
		if err := l.Cache.AddPod(logr.Discard(), pod); err != nil {
			t.Fatal(err)
		}
		used.Insert(decision.Host)
	}
	return used.Len()
}
