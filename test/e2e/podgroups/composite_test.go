// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
)

// The entries have the names of kube-scheduler's own cases, in
// test/integration/scheduler/podgroup/cpg_test.go.
var _ = Describe("A tree of groups", Ordered, func() {
	inTrees()

	DescribeTable("is scheduled as by kube-scheduler",
		func(ctx context.Context, steps ...step) { play(ctx, steps...) },
		Entry("TestCPGHierarchicalScheduling",
			sized("n", "20"),
			composite("root", "", 2, ""), composite("sub1", "root", 2, ""), composite("sub2", "root", 0, ""),
			composite("sub3", "root", 2, ""),
			child("pg1", "sub1", 3, ""), child("pg2", "sub1", 3, ""), child("pg3", "sub1", 3, ""),
			child("pg4", "sub2", 0, ""), child("pg5", "sub2", 3, ""),
			child("pg6", "sub3", 3, ""), child("pg7", "sub3", 3, ""),
			of(100).member("pg1", "1", "p11", "p12", "p13"), of(100).member("pg2", "1", "p21", "p22", "p23"),
			of(100).member("pg3", "100", "p31", "p32", "p33"), of(100).member("pg4", "1", "p41", "p42", "p43"),
			of(100).member("pg5", "1", "p51", "p52", "p53"), of(100).member("pg6", "1", "p61", "p62", "p63"),
			of(100).member("pg7", "100", "p71", "p72", "p73"),
			bound("p11", "p12", "p13", "p21", "p22", "p23", "p41", "p42", "p43", "p51", "p52", "p53"),
			unschedulable("p31", "p32", "p33", "p61", "p62", "p63", "p71", "p72", "p73")),
		Entry("TestCPGMinGroupCount",
			sized("n", "20"), composite("root", "", 2, ""),
			child("pg1", "root", 3, ""), child("pg2", "root", 3, ""), child("pg3", "root", 3, ""),
			of(100).member("pg1", "1", "p11", "p12", "p13"), of(100).member("pg2", "1", "p21", "p22", "p23"),
			of(100).member("pg3", "100", "p31"), of(100).member("pg3", "1", "p32", "p33"),
			bound("p11", "p12", "p13", "p21", "p22", "p23"), unschedulable("p31", "p32", "p33")),
		Entry("TestCPGBasicWithGangChildren",
			sized("n", "20"), composite("root", "", 0, ""),
			child("pg1", "root", 3, ""), child("pg2", "root", 3, ""),
			of(100).member("pg1", "1", "p11", "p12", "p13"),
			of(100).member("pg2", "100", "p21"), of(100).member("pg2", "1", "p22", "p23"),
			bound("p11", "p12", "p13"), unschedulable("p21", "p22", "p23")),
		Entry("TestCPGBasicWithBasicChildren",
			sized("n", "20"), composite("root", "", 0, ""), child("pg1", "root", 0, ""), child("pg2", "root", 0, ""),
			of(100).member("pg1", "1", "p11", "p12"), of(100).member("pg2", "1", "p21", "p22"),
			bound("p11", "p12", "p21", "p22")),
		Entry("TestCPGGangWithBasicChildren",
			sized("n", "8"), composite("root", "", 2, ""),
			child("pg1", "root", 0, ""), child("pg2", "root", 0, ""), child("pg3", "root", 0, ""),
			of(100).member("pg1", "1", "p11", "p12", "p13"), of(100).member("pg2", "1", "p21", "p22", "p23"),
			of(100).member("pg3", "10", "p31", "p32", "p33"),
			bound("p11", "p12", "p13", "p21", "p22", "p23"), unschedulable("p31", "p32", "p33")),
		Entry("TestCPGBasicWithUnschedulableBasicChildren",
			sized("n", "20"), composite("root", "", 0, ""), child("pg1", "root", 0, ""), child("pg2", "root", 0, ""),
			of(100).member("pg1", "50", "p11", "p12"), of(100).member("pg2", "50", "p21", "p22"),
			unschedulable("p11", "p12", "p21", "p22")),
		// The pods whose composite group lacks a child are gated: nothing was tried for them.
		Entry("TestCPGDynamicChildAddition",
			sized("n", "20"), composite("root", "", 0, ""),
			child("pg1", "root", 0, ""), of(100).member("pg1", "1", "p11", "p12"), bound("p11", "p12"),
			child("pg2", "root", 0, ""), of(100).member("pg2", "1", "p21", "p22"), bound("p21", "p22"),
			composite("sub", "root", 2, ""),
			child("sub-pg1", "sub", 0, ""), of(100).member("sub-pg1", "1", "p31", "p32"), gated("p31", "p32"),
			child("sub-pg2", "sub", 0, ""), of(100).member("sub-pg2", "1", "p41", "p42"),
			bound("p31", "p32", "p41", "p42")),
	)
})
