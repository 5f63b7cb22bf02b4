// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	confinedStatus = "Name:\tlivesched\nUid:\t0\t0\t0\t0\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n" +
		"CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n"
	confinedUsers  = "     65532          0          1\n"
	confinedMounts = "tmpfs / tmpfs ro,nosuid,nodev,relatime 0 0\n/dev/sda1 /livesched ext4 ro,nosuid 0 0\n"
)

func TestAConfinedProcessIsTold(t *testing.T) {
	g := NewWithT(t)
	g.Expect(confinedBy(confinedStatus, confinedUsers, confinedMounts)).To(Succeed())

	g.Expect(confinedBy(strings.Replace(confinedStatus, "CapBnd:\t0000000000000000", "CapBnd:\t000001ffffffffff", 1),
		confinedUsers, confinedMounts)).
		To(MatchError(ContainSubstring("CapBnd")))
	g.Expect(confinedBy(strings.Replace(confinedStatus, "NoNewPrivs:\t1", "NoNewPrivs:\t0", 1), confinedUsers,
		confinedMounts)).
		To(MatchError(ContainSubstring("NoNewPrivs")))
	g.Expect(confinedBy(confinedStatus, "0 0 4294967295\n", confinedMounts)).To(MatchError(ContainSubstring("users")))
	g.Expect(confinedBy(confinedStatus, confinedUsers, "tmpfs / tmpfs rw,nosuid 0 0\n")).
		To(MatchError(ContainSubstring("read-only")))
	g.Expect(confinedBy(confinedStatus, confinedUsers, confinedMounts+"tmpfs / tmpfs rw 0 0\n")).
		To(MatchError(ContainSubstring("read-only")), "a later mount hides the first")
}
