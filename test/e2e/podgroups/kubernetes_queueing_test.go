// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// The entries have the names of kube-scheduler's own cases, in
// test/integration/scheduler/podgroup/queueing/queueing_test.go. Those that call single attempts of
// kube-scheduler have no counterpart. A case under the basic policy that has the steps of one for
// gangs is missing if livesched treats the pods alike.
var _ = Describe("The pods of a PodGroup of Kubernetes that is in the queue", Ordered, func() {
	inGroups()

	DescribeTable("are queued as by kube-scheduler",
		func(ctx context.Context, steps ...step) { play(ctx, append([]step{sized("n", "2")}, steps...)...) },
		Entry("Gang scheduling pod group queueing when new member pods are added",
			gang("pg", 2, ""), pods("pg", "2", "p1", "p2"),
			unschedulable("p1", "p2"),
			pods("pg", "2", "p3"),
			unschedulable("p1", "p2", "p3"),
			sized("n2", "6"),
			bound("p1", "p2", "p3"),
			pods("pg", "2", "p4"),
			bound("p4")),
		Entry("Basic policy pod group queueing when new member pods are added",
			gang("pg", 0, ""), pods("pg", "2", "p1"),
			bound("p1"),
			pods("pg", "2", "p2"),
			unschedulable("p2"),
			pods("pg", "2", "p3"),
			unschedulable("p2", "p3"),
			sized("n2", "6"),
			bound("p2", "p3")),
		Entry("gang is scheduled, then pod group is deleted, and new enqueued pods belong to it end up in "+
			"incompletePodGroupPods",
			gang("pg", 2, ""), pods("pg", "1", "p1", "p2"),
			bound("p1", "p2"),
			withdrawn("pg"), pods("pg", "2", "p3"), seen(1),
			gated("p3")),
		Entry("gang is partially scheduled, then pod group is deleted, unschedulable pods end up in "+
			"incompletePodGroupPods",
			gang("pg", 2, ""), pods("pg", "1", "p1", "p2"), bound("p1", "p2"), pods("pg", "2", "p3"),
			unschedulable("p3"),
			withdrawn("pg"), sized("n2", "6"), seen(2),
			unbound("p3"),
			gang("pg", 2, ""),
			bound("p3")),
		Entry("basic group is partially scheduled, then pod group is deleted, unschedulable pods end up in "+
			"incompletePodGroupPods",
			gang("pg", 0, ""), pods("pg", "1", "p1", "p2"), bound("p1", "p2"), pods("pg", "2", "p3"),
			unschedulable("p3"),
			withdrawn("pg"), sized("n2", "6"), seen(2),
			unbound("p3"),
			gang("pg", 0, ""),
			bound("p3")),
		Entry("gang is unschedulable, then pod group is deleted, unschedulable pods end up in incompletePodGroupPods",
			gang("pg", 3, ""), pods("pg", "1", "p1", "p2"), pods("pg", "2", "p3"),
			unschedulable("p1", "p2", "p3"),
			withdrawn("pg"), sized("n2", "6"), seen(2),
			unbound("p1", "p2", "p3"),
			gang("pg", 3, ""),
			bound("p1", "p2", "p3")),
	)

	const waitsForGates = "waits for the gated pod"
	// With kube-scheduler, a single pod with a scheduling gate holds back its whole group: see its
	// cases "Single gated pod blocks gang group", "Single gated pod blocks basic group", and those
	// in which a group in the active queue becomes gated. Here a gang is tried as soon as minCount
	// pods are ready.
	DescribeTable("do not wait for one that has a scheduling gate",
		func(ctx context.Context, steps ...step) { play(ctx, append([]step{sized("n", "2")}, steps...)...) },
		Entry("under the gang policy, if enough are ready", differs(waitsForGates),
			gang("pg", 2, ""), member("pg", "p1", "2", Gated), pods("pg", "2", "p2"),
			unbound("p1", "p2"),
			pods("pg", "2", "p3"),
			unschedulable("p2", "p3"),
			member("pg", "p4", "2", Gated), sized("n2", "6"),
			bound("p2", "p3"), unbound("p1", "p4"),
			ungated("p1", "p4"),
			bound("p1", "p4")),
		Entry("under the basic policy", differs(waitsForGates),
			gang("pg", 0, ""), member("pg", "p1", "2", Gated), pods("pg", "2", "p2"),
			bound("p2"),
			pods("pg", "2", "p3"),
			unschedulable("p3"),
			member("pg", "p4", "2", Gated), sized("n2", "6"),
			bound("p3"), unbound("p1", "p4"),
			ungated("p1", "p4"),
			bound("p1", "p4")),
	)
})

// The entries have the names of kube-scheduler's own cases in the same file.
var _ = Describe("The pods of a PodGroup of Kubernetes with a plugin", Ordered, func() {
	var script *Script
	BeforeAll(func() { NeedsServer("1.37", "the cases are of 1.37") })
	script = PluginStage(map[string]string{"mine": "plugins: {multiPoint: {enabled: [{name: Alpha}]}}"})
	AfterEach(func(ctx context.Context) {
		script.Content()
		Expect(K8s.DeleteAllOf(ctx, &schedulingv1beta1.PodGroup{}, client.InNamespace(corev1.NamespaceDefault))).
			To(Succeed())
	})
	// With these pods, two CPUs are left of the eight of the stage's nodes.
	small := []step{taken("taken1", "n1", "2"), taken("taken2", "n2", "4")}

	DescribeTable("are tried again when PreBind failed for one of them",
		func(ctx context.Context, steps ...step) {
			var failed atomic.Bool
			script.Only(Alpha, "PreBind", "p1", func() *fwk.Status {
				if failed.Swap(true) {
					return nil
				}
				return fwk.NewStatus(fwk.Error, "once")
			})
			play(ctx, steps...)
			Expect(failed.Load()).To(BeTrue())
		},
		Entry("Gang scheduling pod group member pod fails PreBind, is correctly retried and scheduled",
			gang("pg", 2, ""), pods("pg", "2", "p1", "p2"), bound("p1", "p2")),
		Entry("Basic policy pod group member pod fails PreBind, is correctly retried and scheduled",
			gang("pg", 0, ""), pods("pg", "2", "p1", "p2"), bound("p1", "p2")),
		Entry("Single member gang pod group fails PreBind, is correctly retried and scheduled",
			gang("pg", 1, ""), pods("pg", "2", "p1"), bound("p1")),
		Entry("Gang scheduling pod group member pod fails PreBind while other is unschedulable, is correctly retried "+
			"and scheduled",
			small[0], small[1], pods("pg", "2", "p1"), pods("pg", "4", "p2"),
			gated("p1", "p2"),
			gang("pg", 1, ""),
			bound("p1"), unschedulable("p2"),
			sized("n3", "6"),
			bound("p2")),
		Entry("Basic policy pod group member pod fails PreBind while other is unschedulable, is correctly retried and "+
			"scheduled",
			small[0], small[1], gang("pg", 0, ""), pods("pg", "2", "p1"), pods("pg", "4", "p2"),
			bound("p1"), unschedulable("p2"),
			sized("n3", "6"),
			bound("p2")),
	)

	DescribeTable("are joined by one that is created while they are tried",
		func(ctx context.Context, watched string, steps ...step) {
			joining := joins(ctx, script, watched)
			play(ctx, append([]step{joining}, steps...)...)
		},
		Entry("Gang scheduling pod group member pod added mid-cycle is correctly buffered and retried after "+
			"unschedulable attempt", "p1",
			small[0], small[1], gang("pg", 2, ""), pods("pg", "2", "p1"), member("pg", "p2", "2", onlyOn("n3")),
			unschedulable("p1", "p2", "p3"),
			sized("n3", "6"),
			bound("p1", "p2", "p3")),
		Entry("Gang scheduling pod group member pod added mid-cycle is correctly buffered and retried after "+
			"schedulable attempt", "p1",
			gang("pg", 2, ""), pods("pg", "2", "p1", "p2"),
			bound("p1", "p2", "p3")),
		Entry("Basic policy pod group member pod added mid-cycle is correctly buffered and retried after "+
			"unschedulable attempt", "p2",
			small[0], small[1], gang("pg", 0, ""), pods("pg", "2", "p1"),
			bound("p1"),
			pods("pg", "2", "p2"),
			unschedulable("p2", "p3"),
			sized("n3", "6"),
			bound("p2", "p3")),
		Entry("Basic policy pod group member pod added mid-cycle is correctly buffered and retried after "+
			"schedulable attempt", "p2",
			gang("pg", 0, ""), pods("pg", "2", "p1", "p2"),
			bound("p1", "p2", "p3")),
	)
})

// joins creates the pod p3 of the group "pg" when a plugin is called for another one, and waits
// there until livesched has got it.
func joins(ctx context.Context, script *Script, watched string) step {
	return func(_ context.Context, s *stage) {
		p3 := PodOf("mine", "p3", InGroup("pg"+s.suffix), CPU("2"))
		s.pods["p3"] = p3
		var joined atomic.Bool
		script.Only(Alpha, "PreFilter", watched, func() *fwk.Status {
			if !joined.Swap(true) {
				defer GinkgoRecover()
				Expect(K8s.Create(ctx, p3)).To(Succeed())
				ExpectCached(ctx, p3)
			}
			return nil
		})
	}
}
