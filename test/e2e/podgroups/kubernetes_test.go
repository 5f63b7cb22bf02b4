// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// The entries of the table have the names of kube-scheduler's own cases, in
// test/integration/scheduler/podgroup/podgroup_test.go of Kubernetes 1.37. Those in which
// a gang preempts are in kubernetes_preemption_test.go.
var _ = Describe("The pods of a PodGroup of Kubernetes", Ordered, ContinueOnFailure, func() {
	inGroups()

	DescribeTable("are scheduled as by kube-scheduler",
		func(ctx context.Context, steps ...step) { play(ctx, steps...) },
		Entry("gang schedules when pod group and resources are available",
			node("n"), gang("pg1", 3, ""), pods("pg1", "1", "p1", "p2", "p3"),
			bound("p1", "p2", "p3"), condition("pg1", metav1.ConditionTrue, "Scheduled")),
		Entry("gang waits for quorum to start, then schedules",
			node("n"), gang("pg1", 3, ""), pods("pg1", "1", "p1", "p2"),
			gated("p1", "p2"),
			pods("pg1", "1", "p3"),
			bound("p1", "p2", "p3")),
		Entry("gang waits for pod group, then for resources, then schedules",
			node("n"), single("blocker", "2"), bound("blocker"), pods("pg1", "1", "p1", "p2", "p3"),
			gated("p1", "p2", "p3"),
			gang("pg1", 3, ""),
			unschedulable("p1", "p2", "p3"), condition("pg1", metav1.ConditionFalse, "Unschedulable"),
			deleted("blocker"),
			bound("p1", "p2", "p3"), condition("pg1", metav1.ConditionTrue, "Scheduled")),
		Entry("minCount is scheduled, but one pod from a gang remain unschedulable until the blocked resources are "+
			"released",
			node("n"), single("small-blocker", "1"), bound("small-blocker"),
			pods("pg1", "1", "p1", "p2", "p3", "p4"), gang("pg1", 3, ""),
			someBound(3, "p1", "p2", "p3", "p4"),
			deleted("small-blocker"),
			bound("p1", "p2", "p3", "p4")),
		Entry("two gangs competing for the same resources shouldn't deadlock, reversed order",
			node("n"), gang("pg1", 3, ""), gang("pg2", 3, ""),
			pods("pg2", "1", "other-p3"), pods("pg1", "1", "p3"), pods("pg2", "1", "other-p2"), pods("pg1", "1", "p2"),
			pods("pg2", "1", "other-p1"), pods("pg1", "1", "p1"),
			bound("other-p1", "other-p2", "other-p3"), unschedulable("p1", "p2", "p3")),
		Entry("two gangs competing for the same resources shouldn't deadlock",
			node("n"), gang("pg1", 3, ""), gang("pg2", 3, ""),
			pods("pg1", "1", "p1"), pods("pg2", "1", "other-p1"), pods("pg1", "1", "p2"), pods("pg2", "1", "other-p2"),
			pods("pg1", "1", "p3"), pods("pg2", "1", "other-p3"),
			bound("p1", "p2", "p3"), unschedulable("other-p1", "other-p2", "other-p3")),
		Entry("pod group interleaving with an individual pod shouldn't deadlock nor livelock, and the individual pod "+
			"gets scheduled",
			node("n"), gang("pg1", 3, ""), single("blocker", "2"), pods("pg1", "1", "p1", "p2", "p3"),
			bound("blocker"), unschedulable("p1", "p2", "p3")),
		Entry("basic group schedules when pod group and resources are available, without gang enforcement",
			node("n"), gang("pg1", 0, ""), pods("pg1", "1", "p1"),
			bound("p1"),
			pods("pg1", "1", "p2", "p3"),
			bound("p1", "p2", "p3")),
		Entry("basic group waits for pod group, part of it waits for resources, then schedules",
			node("n"), single("blocker", "2"), bound("blocker"), pods("pg1", "1", "p1", "p2", "p3"),
			gated("p1", "p2", "p3"),
			gang("pg1", 0, ""),
			someBound(2, "p1", "p2", "p3"), condition("pg1", metav1.ConditionTrue, "Scheduled"),
			deleted("blocker"),
			bound("p1", "p2", "p3")),
		// So does kube-scheduler's case "basic group schedules with workload-aware preemption".
		Entry("basic group schedules with preemption",
			node("n"), single("low-priority-blocker", "2"), bound("low-priority-blocker"),
			of(100).group("pg1", 0).pods("1", "p1", "p2", "p3", "p4"),
			bound("p1", "p2", "p3", "p4"), gone("low-priority-blocker")),
	)

	DescribeTable("are as many as minCount says when it has changed",
		func(ctx context.Context, steps ...step) {
			NeedsServer("1.37", "minCount cannot be changed")
			play(ctx, steps...)
		},
		Entry("gang pods are unschedulable due to lack of quorum, then scheduled when minCount is decreased",
			node("n"), gang("pg", 5, ""), pods("pg", "1", "p1", "p2", "p3", "p4"),
			gated("p1", "p2", "p3", "p4"),
			minCount("pg", 4),
			bound("p1", "p2", "p3", "p4")),
		Entry("gang pods are unschedulable due to lack of space, then scheduled when minCount is decreased",
			node("n"), gang("pg", 5, ""), pods("pg", "1", "p1", "p2", "p3", "p4", "p5"),
			unschedulable("p1", "p2", "p3", "p4", "p5"),
			minCount("pg", 4),
			bound("p1", "p2", "p3", "p4"), unschedulable("p5")),
		Entry("gang pods are unschedulable due to lack of quorum, and remain unschedulable without triggering "+
			"reschedule when minCount is increased",
			node("n"), gang("pg", 5, ""), pods("pg", "1", "p1", "p2", "p3", "p4"),
			gated("p1", "p2", "p3", "p4"),
			minCount("pg", 6), seen(1),
			gated("p1", "p2", "p3", "p4")),
	)

	It("are placed together by a profile that enables kube-scheduler's plugin for gangs", func(ctx context.Context) {
		play(ctx, node("n"), gang("pg1", 3, ""), podsOf("gangs", "pg1", "1", "p1", "p2"),
			gated("p1", "p2"),
			podsOf("gangs", "pg1", "1", "p3"),
			bound("p1", "p2", "p3"))
	})

	// The PodGroup is created again, as by a restore from a backup, when its pods have nodes.
	It("have what they need although one more pod does not fit", func(ctx context.Context) {
		play(ctx, differs("may write another condition"), node("n"), gang("pg1", 2, ""), pods("pg1", "1", "p1", "p2"),
			bound("p1", "p2"), withdrawn("pg1"), gang("pg1", 2, ""),
			pods("pg1", "8", "p3"),
			unschedulable("p3"), condition("pg1", metav1.ConditionTrue, "Scheduled"))
	})

	It("are not those of a PodGroup of scheduler-plugins with the same name", func(ctx context.Context) {
		play(ctx, differs("knows no PodGroups of scheduler-plugins"), node("n"), gang("pg1", 2, ""),
			pods("pg1", "1", "p1"), func(ctx context.Context, s *stage) {
				Create(ctx, PodGroup("pg1"+s.suffix, 2))
				s.pods["q1"] = CreatePod(ctx, "mine", "q1", MemberOf("pg1"+s.suffix))
			},
			gated("p1", "q1"),
			pods("pg1", "1", "p2"),
			bound("p1", "p2"), gated("q1"))
	})
})
