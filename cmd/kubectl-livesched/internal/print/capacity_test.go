// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

func TestPrintGroupsThatFit(t *testing.T) {
	c := &v1alpha1.Capacity{
		Spec: v1alpha1.CapacitySpec{PodGroup: &v1alpha1.CapacityPodGroup{MinMember: 64}},
		Status: v1alpha1.CapacityStatus{
			Pods: 192, PodGroups: 3, Nodes: 48, ClusterNodes: 64, Profile: "gpu", Revision: "5d9c7b6f84",
			Pools: []v1alpha1.PoolCapacity{{Pool: "a100", Pods: 192, Nodes: 48}},
			Next: &v1alpha1.NextPod{
				Verdict:  v1alpha1.VerdictWaitingForTurn,
				Message:  "pod group ml/train: 64 pods must be placed together.",
				PodGroup: &v1alpha1.PodGroupFit{Name: "train", Needed: 64, Ready: 64, Fit: 40, Domain: "rack=r4"},
			},
		},
	}
	var out bytes.Buffer
	if err := Capacity(terminal.Plain(&out, 100), c, false); err != nil {
		t.Fatal(err)
	}
	want := `Room for 3 more groups of 64 pods, on 48 of 64 nodes; profile gpu@5d9c7b6f84.
POOL   PODS   NODES
a100   192    48
The next group does not fit: pod group ml/train: 64 pods must be placed together.
Pod group train: 64 pods must be placed together, and 40 fit now in rack=r4; 64 are ready.
` + CapacityLimits + "\n"
	// The limits are wrapped.
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(out.String())); diff != "" {
		t.Error(diff)
	}
	c.Status.Limited, c.Status.PodGroups, c.Spec.PodGroup.MinMember = true, 1, 1
	out.Reset()
	if err := Capacity(terminal.Plain(&out, 100), c, false); err != nil ||
		!strings.HasPrefix(out.String(), "Room for at least 1 more group of 1 pod, on ") {
		t.Error(err, out.String())
	}
}

func TestPrintTheGroupThatThePodNames(t *testing.T) {
	for _, test := range []struct {
		named *v1alpha1.NamedPodGroup
		want  []string
	}{
		{&v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupTogether, MinMember: 64},
			[]string{"Room for 2 more groups of 64 pods", "comes from the PodGroup train in the cluster."}},
		{&v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupOneByOne},
			[]string{"Room for 9 more pods", "schedule them one by one"}},
		{&v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupLeftToPlugin},
			[]string{"Room for 9 more pods", "a plugin of the profile"}},
		{&v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupNotFound},
			[]string{"Room for 9 more pods", "neither in the cluster nor in a file", "as if they were in no group"}},
		{&v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupNotServed},
			[]string{"Room for 9 more pods", "does not serve PodGroups of scheduling.x-k8s.io/v1alpha1"}},
		{nil, []string{"Room for 9 more pods", "older than the plugin"}},
	} {
		c := &v1alpha1.Capacity{Status: v1alpha1.CapacityStatus{Pods: 9, PodGroups: 2, PodGroup: test.named,
			Limited: false}}
		c.Spec.Pod.Labels = map[string]string{podgroup.Label: "train"}
		if test.named != nil {
			test.named.Name, test.named.APIVersion = "train", podgroup.Kind.GroupVersion().String()
		}
		var out bytes.Buffer
		if err := Capacity(terminal.Plain(&out, 100), c, false); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
	}
}

func TestPrintManyPools(t *testing.T) {
	c := &v1alpha1.Capacity{}
	for range 12 {
		c.Status.Pools = append(c.Status.Pools, v1alpha1.PoolCapacity{Pool: "pool", Pods: 3, Nodes: 1})
	}
	for wide, rows := range map[bool]int{false: 10, true: 12} {
		var out bytes.Buffer
		if err := Capacity(terminal.Plain(&out, 100), c, wide); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "\npool "); got != rows ||
			wide == strings.Contains(out.String(), "... and 6 pods in 2 more pools: -o wide\n") {
			t.Errorf("wide %t: %s", wide, &out)
		}
	}
}
