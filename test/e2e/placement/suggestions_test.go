// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// suggestionsVariable is the number of suggestions that are followed; the default is
// defaultSuggestions.
const (
	suggestionsVariable = "LIVESCHED_TEST_SUGGESTIONS"
	defaultSuggestions  = 8
)

var _ = Describe("What an explanation suggests", func() {
	It("lets the pod be bound when it is done", func(ctx context.Context) {
		want := defaultSuggestions
		if text := os.Getenv(suggestionsVariable); text != "" {
			var err error
			want, err = strconv.Atoi(text)
			Expect(err).NotTo(HaveOccurred(), suggestionsVariable)
		}
		Start()
		Create(ctx, QuickRetries())
		CreateProfile(ctx, "mine", "")
		f := &follower{Rand: rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0)),
			done: map[v1alpha1.SuggestionType]int{}}
		f.fill(ctx)
		for f.count() < want {
			f.followAll(ctx)
		}
		GinkgoWriter.Printf("%d pods were explained, %d suggestions followed: %v\n", f.pods, f.count(), f.done)
	})
})

// follower follows suggestions in a random cluster.
type follower struct {
	*rand.Rand
	pods int // explained so far
	done map[v1alpha1.SuggestionType]int
}

func (f *follower) count() (all int) {
	for n := range maps.Values(f.done) {
		all += n
	}
	return all
}

func (f *follower) chance(percent int) bool { return f.IntN(100) < percent }

// fill creates nodes and the pods that run on them.
func (f *follower) fill(ctx context.Context) {
	GinkgoHelper()
	for i := range 9 {
		zone, pool := fmt.Sprint("zone-", i%3), []string{"web", "batch"}[i%2]
		node := NodeOf(fmt.Sprint("n", i), corev1.LabelTopologyZone, zone, corev1.LabelInstanceTypeStable, pool)
		pods := 2 + f.IntN(2)
		switch i {
		case 6, 7:
			Tainted(node, "dedicated")
			pods = 1
		case 8:
			Cordoned(node)
			pods = 1
		}
		Create(ctx, node)
		for j := range pods {
			pod := PodOf("mine", fmt.Sprintf("runs-%d-%d", i, j), OnNode(node.Name), CPU("1"), Labelled("app", f.app()))
			Expect(K8s.Create(ctx, pod)).To(Succeed())
		}
	}
}

func (f *follower) app() string { return []string{"a", "b", "c"}[f.IntN(3)] }

// demands returns what a pod demands, which most often is more than the cluster has.
func (f *follower) demands() []func(*corev1.Pod) {
	all := []func(*corev1.Pod){Labelled("app", f.app())}
	if f.chance(70) {
		all = append(all, CPU(fmt.Sprint(2+f.IntN(3))))
	}
	switch f.IntN(7) {
	case 0:
		all = append(all, Selecting(corev1.LabelTopologyZone, fmt.Sprint("zone-", f.IntN(4)))) // there are three
	case 1:
		all = append(all, Selecting(corev1.LabelInstanceTypeStable, "gpu"))
	case 2:
		all = append(all, Near("app", "none"))
	case 3:
		all = append(all, AwayFrom("app", f.app()))
	case 4:
		all = append(all, Spreading("example.com/rack")) // no node has the label
	}
	if f.chance(30) {
		all = append(all, Tolerating("dedicated"))
	}
	return all
}

// followAll creates a random pod. If it fits nowhere, it follows each suggestion for it, with a pod
// of its own.
func (f *follower) followAll(ctx context.Context) {
	GinkgoHelper()
	f.pods++
	demands := f.demands()
	pod := CreatePod(ctx, "mine", fmt.Sprint("pending-", f.pods), demands...)
	var x explain.Explanation
	if !f.isBound(ctx, pod) {
		x = f.explain(ctx, pod)
	}
	Expect(K8s.Delete(ctx, pod)).To(Succeed()) // else it would take the room of those that follow
	if x.PodExplanation == nil {
		return
	}
	for i, suggestion := range x.Pending.Suggestions {
		By(fmt.Sprintf("pod %d: %s", f.pods, suggestion.Description))
		f.follow(ctx, PodOf("mine", fmt.Sprintf("follows-%d-%d", f.pods, i), demands...), x.Changes[i])
		f.done[suggestion.Type]++
	}
}

// isBound waits until livesched has bound a pod, or found no node for it.
func (f *follower) isBound(ctx context.Context, pod *corev1.Pod) bool {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
	return pod.Spec.NodeName != ""
}

func (f *follower) explain(ctx context.Context, pod *corev1.Pod) explain.Explanation {
	GinkgoHelper()
	k, err := Running.Parts().Answers.Forker.Fork(ctx)
	Expect(err).NotTo(HaveOccurred())
	defer k.Close()
	x, err := explain.Explain(ctx, k, explain.Pending{Pod: pod, Now: time.Now(), SuggestFor: time.Minute})
	Expect(err).NotTo(HaveOccurred())
	Expect(x.Verdict).To(BeElementOf(v1alpha1.VerdictNeverFits, v1alpha1.VerdictFitsWhenFreed))
	return x
}

// follow creates a pod that fits nowhere, makes a change, expects the pod to be bound, and undoes
// all.
func (f *follower) follow(ctx context.Context, pod *corev1.Pod, change explain.Change) {
	GinkgoHelper()
	Create(ctx, pod)
	Expect(f.isBound(ctx, pod)).To(BeFalse())
	for _, victim := range change.Removed {
		Expect(K8s.Delete(ctx, victim)).To(Succeed())
	}
	if change.Pod != nil {
		Expect(K8s.Delete(ctx, pod)).To(Succeed())
		pod.ObjectMeta = metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "-changed", Labels: pod.Labels}
		pod.Spec, pod.Status = change.Pod.Spec, corev1.PodStatus{}
		Create(ctx, pod)
	}
	undo := f.changeNode(ctx, change.Node)
	ExpectBound(ctx, pod)
	Expect(K8s.Delete(ctx, pod)).To(Succeed())
	for _, victim := range change.Removed {
		Expect(K8s.Create(ctx, asNew(victim))).To(Succeed())
	}
	undo()
}

// changeNode changes or creates a node. The function that it returns restores what was.
func (f *follower) changeNode(ctx context.Context, changed *corev1.Node) (undo func()) {
	GinkgoHelper()
	if changed == nil {
		return func() {}
	}
	node := &corev1.Node{}
	err := K8s.Get(ctx, client.ObjectKeyFromObject(changed), node)
	if client.IgnoreNotFound(err) == nil && err != nil {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: changed.Name, Labels: changed.Labels},
			Spec: changed.Spec, Status: changed.Status}
		Expect(K8s.Create(ctx, node)).To(Succeed())
		return func() {
			Expect(K8s.Delete(ctx, node)).To(Succeed())
			Eventually(func() any { return Running.Parts().Cache.Dump().Nodes[node.Name] }).WithContext(ctx).
				Should(BeNil())
		}
	}
	Expect(err).NotTo(HaveOccurred())
	original := node.DeepCopy()
	Update(ctx, node, func(n *corev1.Node) { n.Spec = changed.Spec })
	return func() {
		Update(ctx, node, func(n *corev1.Node) { n.Spec = original.Spec })
		Eventually(func(g Gomega) {
			known := Running.Parts().Cache.Dump().Nodes[node.Name].Node()
			g.Expect(known.Spec.Unschedulable).To(Equal(original.Spec.Unschedulable))
			g.Expect(slices.Equal(known.Spec.Taints, original.Spec.Taints)).To(BeTrue())
		}).WithContext(ctx).Should(Succeed())
	}
}

// asNew returns a pod to create as another one was.
func asNew(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels},
		Spec: *pod.Spec.DeepCopy()}
}
