// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// suggestions returns the suggestions of some types as text.
func suggestions(x explain.Explanation, types ...v1alpha1.SuggestionType) []string {
	var out []string
	for _, s := range x.Pending.Suggestions {
		for _, kind := range types {
			if s.Type == kind {
				out = append(out, s.Description)
			}
		}
	}
	return out
}

func TestWhoseRoomIsFreed(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "small", "4", "8Gi")
	c.node("n2", "small", "4", "8Gi")
	for _, node := range []string{"n1", "n2"} {
		c.run(pod("agent-"+node, "500m", "1Gi", ownedBy("DaemonSet", "agent")), node)
		c.run(pod("web-"+node, "1500m", "1Gi", ownedBy("ReplicaSet", "web")), node)
		c.run(pod("db-"+node, "2", "1Gi", ownedBy("StatefulSet", "db"),
			func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](5) }), node)
	}
	x := c.explain(explain.Pending{Pod: pod("p", "3", "1Gi")})
	want := v1alpha1.Suggestion{
		Type: v1alpha1.SuggestionFree, Node: "n1", Nodes: 2, Pool: "small", Verified: true,
		Description: "Free 3 cpu on one of 2 nodes of the pool small. Scale down ReplicaSets and StatefulSets there: " +
			"pods that they create again may take the room.",
		Pods: []v1alpha1.PodReference{
			{Namespace: "default", Name: "web-n1", Controller: "ReplicaSet/web"},
			{Namespace: "default", Name: "db-n1", Controller: "StatefulSet/db"},
		},
	}
	if diff := cmp.Diff(want, x.Pending.Suggestions[0]); diff != "" {
		t.Error(diff)
	}
}

func TestWhatThePodCouldRequest(t *testing.T) {
	twoContainers := func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) }
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		want    []string
		verdict v1alpha1.Verdict
		message string
	}{
		{"less CPU", pod("p", "64", "1Gi"),
			[]string{"Request at most 15.8 cpu: so much is free on a node of the pool large."},
			v1alpha1.VerdictNeverFits,
			"The pod would fit on none of 3 nodes, even if no other pods were on them: it requests 64 cpu, and the " +
				"largest node that it may be on has 15.8 cpu beside DaemonSets and static pods (pool large)."},
		{"less of two resources", pod("p", "20", "100Gi"),
			[]string{"Request at most 15.8 cpu and 62Gi memory: so much is free on a node of the pool large."},
			v1alpha1.VerdictNeverFits,
			"it requests 20 cpu, and the largest node that it may be on has 15.8 cpu beside DaemonSets and static " +
				"pods (pool large) and it requests 100Gi memory, and the largest node that it may be on has 63Gi " +
				"memory beside DaemonSets and static pods (pool large)."},
		{"less than a tenth", pod("p", "640", "1Gi"), nil, v1alpha1.VerdictNeverFits, ""},
		{"a resource that no node has", pod("p", "1", "1Gi", usingGPUs("2")), nil, v1alpha1.VerdictNeverFits,
			"it requests 2 nvidia.com/gpu, and no node that it may be on has any."},
		{"two containers", pod("p", "20", "1Gi", twoContainers), nil, v1alpha1.VerdictNeverFits, "it requests 40 cpu"},
		{"what is free now", pod("p", "16", "1Gi", selecting(map[string]string{"size": "small"})),
			[]string{"Request at most 3 cpu: so much is free on a node of the pool small."},
			v1alpha1.VerdictNeverFits, "has 4 cpu beside DaemonSets and static pods (pool small)."},
		{"what is free where there would be room", pod("p", "4", "1Gi", selecting(map[string]string{"size": "small"})),
			[]string{"Request at most 3 cpu: so much is free on a node of the pool small."},
			v1alpha1.VerdictFitsWhenFreed,
			"2 of 3 nodes could take the pod, but none of them has room. It would fit if other pods ended."},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.node("large", "large", "16", "64Gi")
			c.run(pod("agent", "200m", "1Gi", ownedBy("DaemonSet", "agent")), "large")
			c.run(pod("other", "0", "512Mi"), "large")
			for _, name := range []string{"small-1", "small-2"} {
				c.node(name, "small", "4", "8Gi", func(n *corev1.Node) { n.Labels["size"] = "small" })
				c.run(pod("on-"+name, "1", "1Gi"), name)
			}
			x := c.explain(explain.Pending{Pod: test.pod})
			if diff := cmp.Diff(test.want, suggestions(x, v1alpha1.SuggestionReduceRequests)); diff != "" {
				t.Error(diff)
			}
			if x.Verdict != test.verdict || !strings.Contains(x.Message, test.message) {
				t.Errorf("got %s: %s", x.Verdict, x.Message)
			}
		})
	}
}

func TestMoreNodesAreLikeMostOfTheirPool(t *testing.T) {
	c := newCluster(t)
	withoutPool := func(n *corev1.Node) { delete(n.Labels, "karpenter.sh/nodepool") }
	for i := range 3 {
		c.node(fmt.Sprintf("a%d", i), "", "1", "8Gi", withoutPool)
		c.node(fmt.Sprintf("b%d", i), "", "4", "8Gi", withoutPool)
		c.run(pod(fmt.Sprintf("on-b%d", i), "4", "1Gi"), fmt.Sprintf("b%d", i))
	}
	c.node("b4", "", "4", "8Gi", withoutPool)
	c.run(pod("on-b4", "4", "1Gi"), "b4")
	c.node("broken", "broken", "64", "8Gi", tainted(corev1.TaintNodeNotReady))
	x := c.explain(explain.Pending{Pod: pod("p", "2", "1Gi")})
	if diff := cmp.Diff([]string{"Add a node with 4 cpu and 8Gi memory, like b0."},
		suggestions(x, v1alpha1.SuggestionAddNode)); diff != "" {
		t.Error(diff)
	}
	last := x.Pending.Suggestions[len(x.Pending.Suggestions)-1]
	if last.Node != "b0" || last.Count != 1 || last.Pool != "" {
		t.Errorf("got %+v", last)
	}
}

func TestNewNodesHaveStaticPods(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "small", "4", "8Gi")
	c.run(pod("proxy-n1", "1500m", "1Gi", ownedBy("Node", "n1"), static), "n1")
	c.run(pod("web", "2", "1Gi", ownedBy("ReplicaSet", "web")), "n1")
	x := c.explain(explain.Pending{Pod: pod("p", "3", "1Gi")})
	if got := suggestions(x, v1alpha1.SuggestionAddNode); got != nil {
		t.Errorf("a new node has 2.5 cpu beside its static pod, but got %v", got)
	}
	x = c.explain(explain.Pending{Pod: pod("p", "2500m", "1Gi")})
	if diff := cmp.Diff([]string{"Add a node like the nodes of the pool small."},
		suggestions(x, v1alpha1.SuggestionAddNode)); diff != "" {
		t.Error(diff)
	}
	x = c.explain(explain.Pending{Pod: pod("p", "16", "1Gi")})
	const largest = "the largest node that it may be on has 2.5 cpu beside DaemonSets and static pods (pool small)."
	if !strings.Contains(x.Message, largest) {
		t.Errorf("got %q", x.Message)
	}
}

func static(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}

func TestAPodOfADaemonSet(t *testing.T) {
	c := newCluster(t)
	c.node("full", "x", "4", "8Gi")
	c.node("free", "x", "4", "8Gi")
	c.run(pod("other", "3", "1Gi"), "full")
	x := c.explain(explain.Pending{Pod: pod("agent", "1500m", "1Gi", forNode("full"))})
	const want = "The pod of a DaemonSet is for the node full, which lacks 0.5 cpu. It would fit if other pods ended."
	if x.Verdict != v1alpha1.VerdictFitsWhenFreed || x.Message != want {
		t.Errorf("got %s: %s", x.Verdict, x.Message)
	}
	if got := suggestions(x, v1alpha1.SuggestionRelaxNodeAffinity, v1alpha1.SuggestionAddNode); got != nil {
		t.Errorf("got the suggestions %v", got)
	}
	x = c.explain(explain.Pending{Pod: pod("agent", "1500m", "1Gi", forNode("gone"))})
	if want := "The pod of a DaemonSet is for the node gone, which does not exist."; x.Verdict !=
		v1alpha1.VerdictNeverFits || x.Message != want {
		t.Errorf("got %s: %s", x.Verdict, x.Message)
	}
}

// preempted marks a pod as a victim.
func preempted(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: corev1.PodReasonPreemptionByScheduler}}
}

func TestVictimsAreNamed(t *testing.T) {
	c := newCluster(t)
	c.node("n", "x", "4", "8Gi")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	important := func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](10) }
	ending := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, ptr.To[int64](30)
		p.Finalizers = []string{"example.com/drain"}
	}
	c.run(pod("ends-by-itself", "0", "0", ending), "n")
	c.run(pod("victim", "2", "1Gi", ending, preempted, ownedBy("ReplicaSet", "web")), "n")
	c.run(pod("stays", "2", "1Gi"), "n")
	c.run(pod("more-important", "0", "0", ending, preempted, important), "n")
	want := []v1alpha1.PodReference{{
		Namespace: "default", Name: "victim", Controller: "ReplicaSet/web",
		TerminatingSince: metav1.NewTime(now.Add(-30 * time.Second)), Finalizers: []string{"example.com/drain"},
	}}
	for _, in := range []explain.Pending{
		{Pod: pod("p", "2", "1Gi", important), NominatedNode: "n"},
		{Pod: pod("p", "2", "1Gi", important), NominatedNode: "n",
			Wait: &queue.Wait{PodState: queue.PodState{Place: queue.Gated, GatingPlugin: "DefaultPreemption"}}},
	} {
		x := c.explain(in)
		if diff := cmp.Diff(want, x.Pending.Victims); diff != "" || x.Verdict != v1alpha1.VerdictWaitingForVictims ||
			x.Message != "A pod that is preempted for this pod has not ended." {
			t.Errorf("got %s: %s %s", x.Verdict, x.Message, diff)
		}
	}
}

func TestWhatKeepsThePodOffIsNotCalledRoom(t *testing.T) {
	c := newCluster(t)
	for _, zone := range []string{"a", "b", "c"} {
		c.node("n-"+zone, "x", "4", "8Gi", inZone(zone))
		c.run(pod("on-"+zone, "1", "1Gi", labelled("app", "ah")), "n-"+zone)
	}
	x := c.explain(explain.Pending{Pod: pod("p", "1", "1Gi", labelled("app", "ah"),
		awayFrom("ah", corev1.LabelTopologyZone))})
	if want := "None of 3 nodes takes the pod now, because of the pod's anti-affinity. It would fit if other pods " +
		"ended."; x.Verdict != v1alpha1.VerdictFitsWhenFreed || x.Message != want {
		t.Errorf("got %s: %s", x.Verdict, x.Message)
	}
	c.node("n-d", "x", "1", "8Gi", inZone("d"))
	c.run(pod("on-d", "1", "1Gi"), "n-d")
	x = c.explain(explain.Pending{Pod: pod("p", "1", "1Gi", labelled("app", "ah"),
		awayFrom("ah", corev1.LabelTopologyZone))})
	if want := "None of 4 nodes takes the pod now, because of too little room and the pod's anti-affinity. It would " +
		"fit if other pods ended."; x.Message != want {
		t.Errorf("got %s: %s", x.Verdict, x.Message)
	}
}

func TestHowManyPodsAChangeHelps(t *testing.T) {
	c := newCluster(t)
	c.node("full", "small", "4", "8Gi")
	c.run(pod("agent", "500m", "1Gi", ownedBy("DaemonSet", "agent")), "full")
	c.run(pod("web", "3", "1Gi", ownedBy("ReplicaSet", "web")), "full")
	c.node("cordoned", "large", "8", "16Gi", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	c.node("tainted", "gpu", "16", "32Gi", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	})
	fits := func(alike int, p *corev1.Pod) map[v1alpha1.SuggestionType]int32 {
		t.Helper()
		counted := map[v1alpha1.SuggestionType]int32{}
		for _, s := range c.explain(explain.Pending{Pod: p, Wait: &queue.Wait{Alike: alike}, SuggestFor: time.Minute}).
			Pending.Suggestions {
			if counted[s.Type] == 0 { // of each type, the first
				counted[s.Type] = s.Fits
			}
		}
		return counted
	}
	want := map[v1alpha1.SuggestionType]int32{
		v1alpha1.SuggestionFree: 2, v1alpha1.SuggestionUncordon: 5, v1alpha1.SuggestionRemoveTaint: 10,
		v1alpha1.SuggestionTolerate: 10, v1alpha1.SuggestionReduceRequests: 1, v1alpha1.SuggestionAddNode: 2,
	}
	p := pod("p", "1500m", "1Gi")
	if diff := cmp.Diff(want, fits(39, p)); diff != "" {
		t.Error(diff)
	}
	for kind, count := range want {
		want[kind] = min(count, 4)
	}
	if diff := cmp.Diff(want, fits(3, p)); diff != "" {
		t.Errorf("of four pods: %s", diff)
	}
	for name, counted := range map[string]map[v1alpha1.SuggestionType]int32{
		"no other pod waits": fits(0, p),
		"a copy would share the claim": fits(9, pod("claims", "1500m", "1Gi", func(p *corev1.Pod) {
			ephemeral := &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: ephemeral}}}
		})),
	} {
		for kind, count := range counted {
			if count != 0 {
				t.Errorf("%s: counts %d for %s", name, count, kind)
			}
		}
	}
}
