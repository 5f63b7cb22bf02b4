// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// lines returns the groups and suggestions as text.
func lines(x explain.Explanation) []string {
	var out []string
	for _, g := range x.Pending.Groups {
		line := fmt.Sprintf("%d %s", g.Nodes, strings.Join(g.Pools, ","))
		for _, r := range g.Refusals {
			line += " " + r.Plugin + "/" + string(r.Reason)
			for _, s := range r.ShortBy {
				line += fmt.Sprintf(" (%s %s on %d, %s)", s.Quantity.String(), s.Resource, s.Nodes, s.Node)
			}
		}
		out = append(out, line)
	}
	for _, s := range x.Pending.Suggestions {
		out = append(out, string(s.Type)+": "+s.Description)
	}
	return out
}

func TestAPodThatFitsWhenPodsEnd(t *testing.T) {
	c := newCluster(t)
	for i := range 3 {
		name := fmt.Sprintf("gpu-%d", i)
		c.node(name, "a100", "16", "64Gi", gpus("8"))
		used := "8"
		if i == 2 {
			used = "5" // lacks 1 of the 4, but its CPU is taken, too
			c.run(pod("cpu", "15", "1Gi"), name)
		}
		c.run(pod("on-"+name, "1", "1Gi", usingGPUs(used)), name)
	}
	for i := range 4 {
		c.node(fmt.Sprintf("web-%d", i), "web", "8", "32Gi", tainted("web"))
	}
	x := c.explain(explain.Pending{Pod: pod("train", "2", "4Gi", usingGPUs("4"))})
	want := []string{
		"2 a100 NodeResourcesFit/InsufficientResource (4 nvidia.com/gpu on 2, gpu-0)",
		"1 a100 NodeResourcesFit/InsufficientResource (2 cpu on 1, gpu-2) (1 nvidia.com/gpu on 1, gpu-2)",
		"4 web TaintToleration/UntoleratedTaint NodeResourcesFit/InsufficientResource (4 nvidia.com/gpu on 4, web-0)",
		"Free: Free 4 nvidia.com/gpu on one of 2 nodes of the pool a100.",
		"Free: Free 2 cpu and 1 nvidia.com/gpu on one node of the pool a100.",
		"AddNode: Add a node like the nodes of the pool a100.",
	}
	if diff := cmp.Diff(want, lines(x)); diff != "" {
		t.Error(diff)
	}
	if x.Verdict != v1alpha1.VerdictFitsWhenFreed || x.Nodes != 7 || x.Feasible != 0 || x.Profile != "mine" ||
		x.Revision == "" {
		t.Errorf("got %+v", x.PodExplanation)
	}
}

func TestVerdicts(t *testing.T) {
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}} }
	of := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.SchedulerName = name } }
	tried := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable}}
	}
	selecting := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }
	claiming := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}}}}
	}
	important := func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](10) }
	for _, test := range []struct {
		name    string
		in      explain.Pending
		verdict v1alpha1.Verdict
		message string
	}{
		{"it fits", explain.Pending{Pod: pod("p", "1", "1Gi")}, v1alpha1.VerdictWaitingForTurn,
			"fits on 1 of 2 nodes now"},
		{"no node is as large", explain.Pending{Pod: pod("p", "100", "1Gi")}, v1alpha1.VerdictNeverFits,
			"even if no other pods were on them"},
		{"no node has the label", explain.Pending{Pod: pod("p", "1", "1Gi", selecting)}, v1alpha1.VerdictNeverFits,
			"None of 2 nodes matches disk=ssd, which the pod requires."},
		{"its claim is missing", explain.Pending{Pod: pod("p", "1", "1Gi", claiming)}, v1alpha1.VerdictNeverFits,
			"The pod cannot be scheduled on any node: the PersistentVolumeClaim missing does not exist."},
		{"pods are in the way", explain.Pending{Pod: pod("p", "7", "1Gi")}, v1alpha1.VerdictFitsWhenFreed,
			"would fit if other pods ended"},
		{"its victims are ending", explain.Pending{Pod: pod("p", "7", "1Gi", important), NominatedNode: "full"},
			v1alpha1.VerdictWaitingForVictims, "A pod that is preempted for this pod has not ended."},
		{"it has gates", explain.Pending{Pod: pod("p", "1", "1Gi", gated)}, v1alpha1.VerdictGated, "example.com/quota"},
		{"a plugin does not admit it",
			explain.Pending{Pod: pod("p", "1", "1Gi"),
				Wait: &queue.Wait{PodState: queue.PodState{Place: queue.Gated, GatingPlugin: "Quota",
					GatingMessage: "no room"}}}, v1alpha1.VerdictGated,
			"PreEnqueue plugin Quota holds the pod: no room."},
		{"its group is not complete", explain.Pending{Pod: pod("p", "1", "1Gi"), Wait: waitOfGroup(true)},
			v1alpha1.VerdictGated, "ml/train: 2 of the 4 that must be placed together"},
		{"its group does not exist", explain.Pending{Pod: pod("p", "1", "1Gi"), Wait: waitOfGroup(false)},
			v1alpha1.VerdictGated, "there is no such PodGroup"},
		{"its victims are being evicted",
			explain.Pending{Pod: pod("p", "1", "1Gi"),
				Wait: &queue.Wait{PodState: queue.PodState{Place: queue.Gated, GatingPlugin: "DefaultPreemption"}}},
			v1alpha1.VerdictWaitingForVictims, "have not ended"},
		{"no profile has its name", explain.Pending{Pod: pod("p", "1", "1Gi", of("theirs"))}, v1alpha1.VerdictNoProfile,
			`No SchedulerProfile has the scheduler name "theirs"`},
		{"another scheduler tries it", explain.Pending{Pod: pod("p", "1", "1Gi", of("theirs"), tried)},
			v1alpha1.VerdictOtherScheduler, "Another scheduler has tried the pod"},
		{"it waits on Permit", explain.Pending{Pod: pod("assumed", "1", "1Gi"), PermitPlugins: []string{"Gang"}},
			v1alpha1.VerdictBinding, "waits on Permit, for Gang"},
		{"it is being bound", explain.Pending{Pod: pod("assumed", "1", "1Gi")}, v1alpha1.VerdictBinding,
			"volumes or devices"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.node("free", "-", "4", "8Gi")
			c.node("full", "-", "8", "8Gi")
			c.run(pod("ending", "8", "1Gi", preempted,
				func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), "full")
			assumed := pod("assumed", "1", "1Gi")
			assumed.Spec.NodeName = "free"
			info, err := schedframework.NewPodInfo(assumed)
			c.must(err)
			c.must(c.Cache.AssumePod(logr.Discard(), info))
			x := c.explain(test.in)
			if x.Verdict != test.verdict || !strings.Contains(x.Message, test.message) {
				t.Errorf("got %s: %s", x.Verdict, x.Message)
			}
		})
	}
}

func TestASuggestionForEachObstacle(t *testing.T) {
	near := &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:   corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nowhere"}},
		}}}}
	spread := []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
	}}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	notReady := tainted(corev1.TaintNodeNotReady)
	for _, test := range []struct {
		name string
		node func(*corev1.Node)
		pod  func(*corev1.Pod)
		want []string
	}{
		{"cordoned", cordoned, nil, []string{"Uncordon: Make a cordoned node of the pool x schedulable."}},
		{"tainted", tainted("gpu"), nil, []string{
			"RemoveTaint: Remove the taint gpu:NoSchedule from one node of the pool x.",
			"Tolerate: Let the pod tolerate the taint gpu:NoSchedule of one node of the pool x.",
		}},
		{"not ready", notReady, nil, nil},
		{"selects another node", nil, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
			[]string{"RelaxNodeAffinity: Relax the node selector or the required node affinity of the pod."}},
		{"wants to be near a pod", nil, func(p *corev1.Pod) { p.Spec.Affinity = near },
			[]string{"RelaxPodAffinity: Relax the required pod affinity or anti-affinity of the pod."}},
		{"wants to spread", nil, func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = spread },
			[]string{"RelaxTopologySpread: Let the pod be placed although its topology spread constraints are not " +
				"satisfied (ScheduleAnyway)."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			if test.node == nil {
				test.node = func(*corev1.Node) {}
			}
			c.node("n", "x", "4", "8Gi", test.node)
			p := pod("p", "1", "1Gi")
			if test.pod != nil {
				test.pod(p)
			}
			x := c.explain(explain.Pending{Pod: p})
			if diff := cmp.Diff(test.want, lines(x)[1:]); diff != "" && len(test.want)+len(lines(x)[1:]) > 0 {
				t.Error(diff)
			}
		})
	}
}

func TestWhatTheQueueKnowsIsPassedOn(t *testing.T) {
	c := newCluster(t)
	next := time.Date(2026, 1, 2, 3, 9, 5, 0, time.UTC)
	x := c.explain(explain.Pending{Pod: pod("p", "1", "1Gi"), Wait: &queue.Wait{
		PodState: queue.PodState{Place: queue.Unschedulable, Attempts: 6}, NextTry: next, Alike: 312,
		Events: []queue.AwaitedEvent{
			{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown},
				Plugins: []string{"NodeResourcesFit"}},
			{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, Plugins: []string{"NodePorts"}},
			{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Update},
				Plugins: []string{"NodeAffinity"}},
		},
	}})
	p := x.Pending
	if p.Place != "Unschedulable" || p.Attempts != 6 || !p.NextTry.Time.Equal(next) || p.Alike != 312 {
		t.Errorf("got %+v", p)
	}
	want := []v1alpha1.EventAwaited{
		{Event: "Node/Add", Plugins: []string{"NodeAffinity"}},
		{Event: "Node/Update", Plugins: []string{"NodeAffinity"}},
		{Event: "Pod/Delete", Plugins: []string{"NodePorts", "NodeResourcesFit"}},
		{Event: "Pod/UpdatePodScaleDown", Plugins: []string{"NodeResourcesFit"}},
	}
	if diff := cmp.Diff(want, p.WaitsFor); diff != "" {
		t.Error(diff)
	}
	if x.Verdict != v1alpha1.VerdictNeverFits || x.Message != "There are no nodes." {
		t.Errorf("got %s: %s", x.Verdict, x.Message)
	}
}

// waitOfGroup is the wait of a pod whose group is not complete, or does not exist.
func waitOfGroup(known bool) *queue.Wait {
	return &queue.Wait{
		PodState: queue.PodState{Place: queue.Gated, GatingPlugin: podgroup.Gate},
		Group: &queue.GroupWait{Key: podgroup.Key{Namespace: "ml", Name: "train"}, Known: known, Needed: 4,
			Ready: 2},
	}
}

func TestNominatedPodsAreOtherPods(t *testing.T) {
	c := newCluster(t)
	c.node("n", "-", "4", "8Gi")
	c.run(pod("running", "4", "1Gi"), "n")
	preemptor := pod("preemptor", "3", "1Gi", func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](10) })
	info, err := schedframework.NewPodInfo(preemptor)
	c.must(err)
	c.must(c.objects.Put(preemptor))
	c.Queue.Nominator().AddNominatedPod(logr.Discard(), info,
		&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n"})
	for range 2 { // the nominations of the scheduler stay
		x := c.explain(explain.Pending{Pod: pod("p", "4", "1Gi")})
		if x.Verdict != v1alpha1.VerdictFitsWhenFreed {
			t.Errorf("got %s: %s", x.Verdict, x.Message)
		}
	}
	c.must(c.Cache.RemovePod(logr.Discard(), pod("running", "4", "1Gi")))
	x := c.explain(explain.Pending{Pod: pod("p", "4", "1Gi")})
	if diff := cmp.Diff([]string{"1 InsufficientResource: reserved for pods nominated to the node"},
		detailsOf(x)); diff != "" {
		t.Error(diff)
	}
	if x.Verdict != v1alpha1.VerdictFitsWhenFreed {
		t.Errorf("got %s: %s", x.Verdict, x.Message)
	}
}
