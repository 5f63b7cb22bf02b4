// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"

	. "github.com/onsi/ginkgo/v2"

	. "github.com/livesched/livesched/test/objects"
)

// The entries have the names of kube-scheduler's own cases, in podgroup/podgrouppreemption_test.go
// and preemption_test.go of test/integration/scheduler/preemption. Cases whose groups have a
// preemption policy are missing, because the API server of the tests has the feature gate
// PodGroupPreemptionPolicy off: TestPreemptionPolicyOfATree has them. "Reserve plugins are called
// during preemption simulation, so second pod fails" is missing, too: it needs a plugin of its own.
var _ = Describe("Preemption with trees of groups", Ordered, func() {
	inTrees()

	full := []step{sized("n", "3"), of(10).single("1", "low-1", "low-2", "low-3")}
	two := []step{sized("n1", "2"), sized("n2", "2")}
	// after prepends steps.
	after := func(first []step, then ...step) []step { return append(append([]step{}, first...), then...) }

	// Pods of two groups are on two nodes, and a pod needs all of the first node.
	members := []step{of(10).memberOn("pg1", "n1", "low-1"), of(10).memberOn("pg1", "n2", "low-2"),
		of(10).memberOn("pg2", "n2", "low-3"), of(100).selecting("n1", "2", "high-1"), bound("high-1")}
	acrossNodes := func(groups ...step) []step { return after(after(two, groups...), members...) }

	DescribeTable("evicts those that kube-scheduler does",
		func(ctx context.Context, steps []step) { play(ctx, steps...) },
		Entry("CPG Partial Preemption",
			after(two, of(10).on("n1", "2", "low-1"), of(10).on("n2", "1", "low-2"),
				composite("cpg1", "", 0, ""), child("pg1", "cpg1", 3, ""),
				of(100).member("pg1", "1", "high-1", "high-2", "high-3"),
				bound("high-1", "high-2", "high-3"), gone("low-1"), bound("low-2"))),
		Entry("CPG Victim Across Multiple Nodes, CPG DisruptionModeAll",
			after(acrossNodes(of(10).composite("cpg1", "", 0, "", evictedWhole), of(10).child("pg1", "cpg1", 2, ""),
				of(10).child("pg2", "cpg1", 1, "")),
				gone("low-1", "low-2", "low-3"))),
		Entry("CPG Victim Across Multiple Nodes, CPG DisruptionModeSingle",
			after(acrossNodes(of(10).composite("cpg1", "", 0, ""), of(10).child("pg1", "cpg1", 2, ""),
				of(10).child("pg2", "cpg1", 1, "")),
				gone("low-1"), bound("low-2", "low-3"))),
		Entry("CPG Preemption aborted if victim yields insufficient resources",
			after(two[:1], of(10).composite("cpg-victim", "", 0, ""), of(10).child("pg-victim", "cpg-victim", 1, ""),
				of(10).memberOn("pg-victim", "n1", "low-1"),
				of(100).pending("3", "high-1"), unschedulable("high-1"), bound("low-1"))),
		Entry("CPG Tie-Breaking: PodGroup chosen over CompositePodGroup",
			after(two[:1], of(10).composite("cpg-victim", "", 0, "", evictedWhole),
				of(10).group("pg-victim", 1).alone(), of(10).child("pg-child", "cpg-victim", 1, ""),
				of(10).memberOn("pg-victim", "n1", "low-pg"), of(10).memberOn("pg-child", "n1", "low-cpg"),
				of(100).group("pg-preemptor", 1).pods("1", "high-1"),
				bound("high-1"), gone("low-pg"), bound("low-cpg"))),
		Entry("Scheduler targets lower-priority CPG over higher-priority CPG",
			after(full[:1], of(10).composite("cpg-lower", "", 0, ""), of(20).composite("cpg-higher", "", 0, ""),
				of(10).child("pg-lower", "cpg-lower", 1, ""), of(20).child("pg-higher", "cpg-higher", 1, ""),
				of(10).memberOn("pg-lower", "n", "lower-1"), of(20).memberOn("pg-higher", "n", "higher-1"),
				of(100).pending("2", "high-1"), bound("high-1"), gone("lower-1"), bound("higher-1"))),
		Entry("PDB Violation reprieves the entire CPG victim (DisruptionModeAll)",
			after(full[:1], protected("foo"), of(10).composite("cpg-pdb", "", 0, "", evictedWhole),
				of(10).composite("cpg-no-pdb", "", 0, "", evictedWhole),
				of(10).child("pg-pdb", "cpg-pdb", 2, ""), of(10).child("pg-no-pdb", "cpg-no-pdb", 1, ""),
				of(10).memberOn("pg-pdb", "n", "foo-1", "foo-2"), of(10).memberOn("pg-no-pdb", "n", "low-1"),
				of(100).pending("1", "high-1"), bound("high-1"), gone("low-1"), bound("foo-1", "foo-2"))),
		Entry("PDB Violation reprieves only the child PG (DisruptionModeSingle)",
			after(full[:1], protected("foo"), of(10).composite("cpg-single", "", 0, ""),
				of(10).child("pg-pdb", "cpg-single", 2, ""), of(10).child("pg-no-pdb", "cpg-single", 1, ""),
				of(10).memberOn("pg-pdb", "n", "foo-1", "foo-2"), of(10).memberOn("pg-no-pdb", "n", "low-1"),
				of(100).pending("1", "high-1"), bound("high-1"), gone("low-1"), bound("foo-1", "foo-2"))),
		Entry("3-Level Nested CPG resolves DisruptionMode up to the grandparent",
			after(acrossNodes(of(10).composite("grandparent", "", 0, "", evictedWhole),
				of(10).composite("parent", "grandparent", 0, ""),
				of(10).child("pg1", "parent", 2, ""), of(10).child("pg2", "parent", 1, "")),
				gone("low-1", "low-2", "low-3"))),
		Entry("Hierarchical DisruptionMode - Grandparent Single, Parent All",
			after(acrossNodes(of(10).composite("grandparent", "", 0, ""),
				of(10).composite("parent", "grandparent", 0, "", evictedWhole),
				of(10).child("pg1", "parent", 2, ""), of(10).child("pg2", "grandparent", 1, "")),
				gone("low-1", "low-2"), bound("low-3"))),
		// Without the gate, too, the default policy lets a tree preempt.
		Entry("CPG with default preemption policy performs preemption, with PodGroupPreemptionPolicy enabled",
			after(full, composite("cpg1", "", 0, ""), child("pg1", "cpg1", 3, ""),
				of(100).member("pg1", "1", "high-1", "high-2", "high-3"),
				bound("high-1", "high-2", "high-3"), gone("low-1", "low-2", "low-3"))),
		Entry("CPG with PreemptNever preemption policy in all pods does not perform preemption, with "+
			"PodGroupPreemptionPolicy disabled",
			after(full, composite("cpg1", "", 0, ""), child("pg1", "cpg1", 3, ""),
				peaceful("pg1", 100, "high-1", "high-2", "high-3"),
				unschedulable("high-1", "high-2", "high-3"), bound("low-1", "low-2", "low-3"))),
		Entry("CPG Gang scheduling: preemption with pod anti-affinity constraints",
			after(two, of(10).on("n1", "250m", "initial-1"), composite("cpg1", "", 0, ""), child("pg1", "cpg1", 2, ""),
				of(100).changed("pg1", "1500m", "p-1", AwayFrom("app", "initial")),
				of(100).changed("pg1", "1500m", "p-2", AwayFrom("app", "initial")),
				bound("p-1", "p-2"), gone("initial-1"))),
		Entry("CPG Gang scheduling: preemption with pod node port",
			after(two, of(10).changedOn("n1", "250m", "initial-1", HostPort(8080)),
				composite("cpg1", "", 0, ""), child("pg1", "cpg1", 2, ""),
				of(100).changed("pg1", "1500m", "p-1", HostPort(8080)),
				of(100).changed("pg1", "1500m", "p-2", HostPort(8080)),
				bound("p-1", "p-2"), gone("initial-1"))),
		Entry("Binding first before preemption for gang policy", // the pods are there before their groups
			after(two, of(10).composite("cpg-victim", "", 1, ""), of(10).child("pg-victim", "cpg-victim", 4, ""),
				of(10).memberOn("pg-victim", "n1", "low-1"), of(10).memberOn("pg-victim", "n2", "low-2"),
				of(100).member("pg1", "1", "high-1", "high-2", "high-3", "high-4"),
				gated("high-1", "high-2", "high-3", "high-4"),
				composite("cpg1", "", 1, ""), child("pg1", "cpg1", 4, ""),
				bound("high-1", "high-2", "high-3", "high-4"), gone("low-1", "low-2"))),
		Entry("Binding first before preemption for CPG",
			after(two, of(10).composite("cpg-victim", "", 0, ""), of(10).child("pg-victim", "cpg-victim", 4, ""),
				of(10).memberOn("pg-victim", "n1", "low-1"), of(10).memberOn("pg-victim", "n2", "low-2"),
				composite("cpg1", "", 0, ""), child("pg1", "cpg1", 4, ""),
				of(100).member("pg1", "1", "high-1", "high-2", "high-3", "high-4"),
				bound("high-1", "high-2", "high-3", "high-4"), gone("low-1", "low-2"))),
		Entry("CPG Missing Parent Reference Fallback",
			after(two[:1], of(10).composite("cpg-victim", "", 0, ""), of(10).child("pg-victim", "cpg-victim", 2, ""),
				of(10).memberOn("pg-victim", "n1", "low-1", "low-2"), withdrawnComposite("cpg-victim"),
				composite("cpg1", "", 0, ""), child("pg1", "cpg1", 2, ""),
				of(100).member("pg1", "1", "high-1", "high-2"),
				bound("high-1", "high-2"), gone("low-1", "low-2"))),

		Entry("CPG victim across multiple nodes, pod-group-as-victim enabled",
			after(two, of(10).composite("cpg1", "", 0, "", evictedWhole), of(10).child("pg1", "cpg1", 0, ""),
				of(10).memberOn("pg1", "n1", "low-1"), of(10).memberOn("pg1", "n2", "low-2"),
				of(100).selecting("n1", "2", "high-1"), bound("high-1"), gone("low-1", "low-2"))),
		Entry("CPG occupying a single node, pod-group-as-victim enabled",
			[]step{sized("n1", "2500m"),
				of(10).composite("cpg1", "", 0, "", evictedWhole), of(10).child("pg1", "cpg1", 0, ""),
				of(10).memberOn("pg1", "n1", "low-1", "low-2"),
				of(100).selecting("n1", "1500m", "high-1"), bound("high-1"), gone("low-1", "low-2")}),
		Entry("multiple victim CPGs, only subset selected for preemption",
			[]step{sized("n1", "2500m"), sized("n2", "2500m"),
				of(10).composite("cpg-low", "", 0, "", evictedWhole), of(10).child("pg-low", "cpg-low", 0, ""),
				of(20).composite("cpg-mid", "", 0, "", evictedWhole), of(20).child("pg-mid", "cpg-mid", 0, ""),
				of(10).memberOn("pg-low", "n1", "low-1"), of(10).memberOn("pg-low", "n2", "low-2"),
				of(20).memberOn("pg-mid", "n1", "mid-1"), of(20).memberOn("pg-mid", "n2", "mid-2"),
				of(100).selecting("n1", "1500m", "high-1"),
				bound("high-1"), gone("low-1", "low-2"), bound("mid-1", "mid-2")}),
		Entry("unsuccessful CPG preemption when freeing lower priority group is insufficient",
			after(two[:1], sized("n2", "10"),
				of(10).composite("cpg1", "", 0, "", evictedWhole), of(10).child("pg1", "cpg1", 0, ""),
				of(100).on("n2", "5", "top-1"), of(10).memberOn("pg1", "n2", "low-1", "low-2"),
				of(100).selecting("n2", "6", "high-1"),
				unschedulable("high-1"), bound("top-1", "low-1", "low-2"))),
		Entry("CPG victim across multiple nodes, DisruptionModeSingle enabled",
			after(two, of(10).composite("cpg1", "", 0, ""), of(10).child("pg1", "cpg1", 0, ""),
				of(10).memberOn("pg1", "n1", "low-1"), of(10).memberOn("pg1", "n2", "low-2"),
				of(100).selecting("n1", "2", "high-1"), bound("high-1"), gone("low-1"), bound("low-2"))),
	)
})

// withdrawnComposite is withdrawn for a CompositePodGroup.
func withdrawnComposite(name string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		withdraw(ctx, CompositePodGroup(name+s.suffix, 0, ""))
	}
}
