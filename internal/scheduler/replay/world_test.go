// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/capture/collect"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/replay"
	"github.com/livesched/livesched/internal/scheduler/replay/report"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// world is a cluster whose decisions are recorded as the scheduling loop does.
type world struct {
	testing.TB
	*sidebyside.Livesched
	random  *rand.Rand
	objects sidebyside.Objects
	log     *decisionlog.Log
	now     time.Time
	created int
	// path is how decisions are made.
	path sidebyside.Path
	// nodes, running, assumed and pending are what there is.
	nodes            []*corev1.Node
	running, assumed []*corev1.Pod
	pending          []*corev1.Pod
	// profile is the configuration, and object the SchedulerProfile with it.
	profile configv1.KubeSchedulerProfile
	object  v1alpha1.SchedulerProfile
	policy  v1alpha1.SchedulingPolicy
	// undisturbed counts the decisions since something else changed, and all those ever made.
	undisturbed, all int
}

// newWorld returns a world with a profile called mine, which may be changed first.
func newWorld(t testing.TB, seed uint64, path sidebyside.Path, change func(*configv1.KubeSchedulerProfile)) *world {
	t.Helper()
	w := &world{
		TB: t, random: rand.New(rand.NewPCG(seed, 0)), objects: sidebyside.NewObjects(), log: decisionlog.New(1000),
		path: path,
		now:  time.Unix(1700000000, 0), profile: configv1.KubeSchedulerProfile{SchedulerName: ptr.To("mine")},
	}
	if change != nil {
		change(&w.profile)
	}
	c := &sidebyside.Configuration{Profile: w.profile, Parallelism: 2}
	var err error
	w.object, w.policy, err = c.Objects()
	w.must(err)
	w.Livesched, err = sidebyside.NewLivesched(t.Context(), w.objects, c, path, nil)
	w.must(err)
	t.Cleanup(w.Livesched.Close)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) put(objects ...runtime.Object) {
	w.Helper()
	w.must(w.objects.Put(objects...))
}

// name returns a new name.
func (w *world) name(prefix string) string {
	w.created++
	return fmt.Sprintf("%s-%d", prefix, w.created)
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// addNode adds a random node, with changes.
func (w *world) addNode(changes ...func(*corev1.Node)) {
	w.Helper()
	name := w.name("node")
	node := objects.Node(name, pick(w.random, "4", "8"), "16Gi", map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: pick(w.random, "zone-1", "zone-2", "zone-3"),
		rack:               pick(w.random, "rack-1", "rack-2", "rack-3", "rack-4"),
		"example.com/pool": pick(w.random, "red", "blue"), "generation": pick(w.random, "3", "10", "20"),
	})
	node.UID = types.UID(name)
	if w.random.IntN(4) == 0 {
		node.Spec.Taints = []corev1.Taint{
			{Key: "example.com/dedicated", Value: "gpu",
				Effect: pick(w.random, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)}}
	}
	if w.random.IntN(3) == 0 {
		node.Status.Allocatable["example.com/gpu"] = resource.MustParse("4")
	}
	if w.random.IntN(2) == 0 {
		node.Status.Images = []corev1.ContainerImage{
			{Names: []string{"registry.example.com/app:latest", "registry.example.com/app@sha256:1234"},
				SizeBytes: 800 << 20},
		}
	}
	for _, change := range changes {
		change(node)
	}
	w.put(node)
	w.Cache.AddNode(logr.Discard(), node)
	w.nodes = append(w.nodes, node)
	w.undisturbed = 0
}

// newPod returns a random pod of one of a few applications.
func (w *world) newPod() *corev1.Pod {
	app := fmt.Sprintf("app-%d", w.random.IntN(8))
	p := objects.Pod(pick(w.random, "default", "team"), w.name(app), "mine", pick(w.random, "100m", "500m", "2"),
		pick(w.random, "100Mi", "1Gi"))
	p.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", w.created))
	p.CreationTimestamp = metav1.NewTime(w.now)
	p.Labels = map[string]string{"app": app}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	required := func(r ...corev1.NodeSelectorRequirement) *corev1.Affinity {
		return &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: r}},
			}}}
	}
	switch app {
	case "app-0":
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: selector,
		}}
	case "app-1":
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: selector,
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "shared"}},
			}},
		}}
	case "app-2":
		p.Spec.NodeSelector = map[string]string{"example.com/pool": "red"}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/dedicated", Operator: corev1.TolerationOpExists}}
	case "app-3":
		p.Spec.Affinity = required(corev1.NodeSelectorRequirement{Key: "generation", Operator: corev1.NodeSelectorOpGt,
			Values: []string{"9"}})
	case "app-4":
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 7, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone,
					LabelSelector: selector},
			}},
		}}
	case "app-5":
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	case "app-6":
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{
			{HostPort: 8080, ContainerPort: 8080, Protocol: corev1.ProtocolTCP, HostIP: pick(w.random, "", "10.1.2.3")}}
	case "app-7":
		p.Spec.Containers[0].Image = pick(w.random, "registry.example.com/app", "registry.example.com/other:1")
	}
	return p
}

// plainPod returns a pod that asks for nothing.
func (w *world) plainPod() *corev1.Pod {
	pod := w.newPod()
	pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints, pod.Spec.NodeSelector = nil, nil, nil
	pod.Spec.Containers[0].Resources, pod.Spec.Containers[0].Ports = corev1.ResourceRequirements{}, nil
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	w.put(pod)
	return pod
}

// decide decides a pod, and records the decision. It returns the pod on its node if the pod is
// assumed there.
func (w *world) decide(pod *corev1.Pod, result decisionlog.Result) *corev1.Pod {
	w.Helper()
	assumed, _ := w.decideWithin(nil, pod, result)
	if assumed == nil {
		return nil
	}
	if result == decisionlog.Unschedulable {
		return nil
	}
	w.must(w.Cache.AssumePod(logr.Discard(), infoOf(w, assumed)))
	if result != decisionlog.Binding {
		w.must(w.Cache.ForgetPod(logr.Discard(), assumed))
		return nil
	}
	return assumed
}

func infoOf(t testing.TB, pod *corev1.Pod) *schedframework.PodInfo {
	t.Helper()
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// decideWithin decides a pod on the nodes of a domain, and does not assume it. It returns the pod
// on its node, nil if it has none, and the number of the decision.
func (w *world) decideWithin(domain podgroup.Domain, pod *corev1.Pod,
	result decisionlog.Result) (*corev1.Pod, decisionlog.Number) {
	w.Helper()
	w.now = w.now.Add(time.Second)
	got := w.Decide(domain.Restrict(pod))
	d := decisionlog.Decision{
		Pod: pod.UID, Time: w.now, Attempt: 1, Profile: "mine", Revision: w.Profile.Config.Revision,
		Changes: w.Snapshot.Changes(), Placed: w.Snapshot.Placed(),
		Nominated: !w.Queue.Nominator().Empty(), Nodes: w.Snapshot.NumNodes(), Evaluated: w.Result.EvaluatedNodes,
		Feasible: w.Result.FeasibleNodes, Node: w.Result.SuggestedHost, Total: w.Result.Total, Tied: w.Result.TiedNodes,
		Result: result, Domain: domain,
	}
	w.all, w.undisturbed = w.all+1, w.undisturbed+1
	var unfit *schedframework.FitError
	if errors.As(got.Err, &unfit) {
		d.Result = decisionlog.Unschedulable
		return nil, w.log.Append(&d)
	}
	w.must(got.Err)
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = d.Node
	return assumed, w.log.Append(&d)
}

// confirm reports a pod as the API server does that binds it.
func (w *world) confirm(assumed *corev1.Pod) {
	w.Helper()
	bound := assumed.DeepCopy()
	for _, node := range w.nodes {
		if node.Name == bound.Spec.NodeName {
			bound.Labels[corev1.LabelTopologyZone] = node.Labels[corev1.LabelTopologyZone]
		}
	}
	w.put(bound)
	w.must(w.Cache.AddPod(logr.Discard(), bound))
	w.running = append(w.running, bound)
}

// snapshot writes a snapshot and reads it.
func (w *world) snapshot(redacted bool) *capture.Snapshot {
	w.Helper()
	text := w.write(redacted)
	snapshot, err := capture.Read(bytes.NewReader(text), capture.DefaultLimits)
	w.must(err)
	return snapshot
}

func (w *world) write(redacted bool) []byte {
	w.Helper()
	in, err := collect.Input(logr.Discard(), collect.Source{
		Cache: w.Cache, Nominator: w.Queue.Nominator(), Informers: w.Informers, Decisions: w.log,
		Profiles: profile.NewMap(map[string]*profile.Instance{"mine": w.Profile}, "mine"),
	}, 1000)
	w.must(err)
	profiles, policies := []v1alpha1.SchedulerProfile{w.object}, []v1alpha1.SchedulingPolicy{w.policy}
	in.SetObjects(profiles, policies,
		resolve.Objects(resolve.Input{Profiles: profiles, Policies: policies, Registered: w.registered()}))
	in.Header.Time = w.now
	if w.path == sidebyside.ScalarPath {
		in.Header.FastPath = "off"
	}
	var out bytes.Buffer
	w.must(capture.Write(w.Context(), &out, in, redacted))
	return out.Bytes()
}

func (w *world) registered() sets.Set[string] {
	w.Helper()
	registry, err := plugins.NewRegistry(nil)
	w.must(err)
	return sets.KeySet(registry)
}

// state returns the state of a snapshot, which ends with the test.
func (w *world) state(snapshot *capture.Snapshot) *replay.State {
	w.Helper()
	registry, err := plugins.NewRegistry(nil)
	w.must(err)
	s, err := replay.New(w.Context(), snapshot, registry)
	w.must(err)
	w.Cleanup(s.Close)
	return s
}

// replay makes the decisions of a snapshot again.
func (w *world) replay(snapshot *capture.Snapshot) *report.Report {
	w.Helper()
	result, err := w.state(snapshot).Decide(w.Context())
	w.must(err)
	return result
}
