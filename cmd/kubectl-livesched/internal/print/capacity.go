// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"io"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/words"
)

// CapacityLimits describes what answers to capacity leave out.
const CapacityLimits = "Not simulated: autoscalers, admission, preemption and the provisioning of volumes. " +
	KeptByPods

// Capacity prints the answer about a capacity for people.
func Capacity(w io.Writer, c *v1alpha1.Capacity, wide bool) error {
	s := &c.Status
	room := "Room for "
	if s.Limited {
		room = "Room for at least "
	}
	if size := groupSize(c); size > 0 {
		room += words.Many(s.PodGroups, "more group") + " of " + words.Many(size, "pod")
	} else {
		room += words.Many(s.Pods, "more pod")
	}
	Line(w, room+words.Grouped.Sprintf(", on %d of ", s.Nodes)+words.Many(s.ClusterNodes, "node")+
		fmt.Sprintf("; profile %s@%s.", s.Profile, s.Revision))
	if line := namedGroupLine(c); line != "" {
		Line(w, line)
	}
	if err := printPools(w, s.Pools, wide); err != nil {
		return err
	}
	if s.Next != nil {
		if err := printNext(w, s.Next, wide); err != nil {
			return err
		}
	}
	if s.ExtendersNotCalled {
		Line(w, "Extenders are not called.")
	}
	Line(w, CapacityLimits)
	return nil
}

// groupSize returns the number of pods of each group that was counted, 0 if single pods were.
func groupSize(c *v1alpha1.Capacity) int32 {
	switch {
	case c.Spec.PodGroup != nil:
		return c.Spec.PodGroup.MinMember
	case c.Status.PodGroup != nil && c.Status.PodGroup.Use == v1alpha1.PodGroupTogether:
		return c.Status.PodGroup.MinMember
	}
	return 0
}

// namedGroupLine describes the use of the PodGroup that the pod names, if it is not in the files.
func namedGroupLine(c *v1alpha1.Capacity) string {
	if c.Spec.PodGroup != nil {
		return ""
	}
	named := c.Status.PodGroup
	if named == nil {
		if key := podgroup.KeyOf(&c.Spec.Pod); key.Name != "" {
			return fmt.Sprintf("This livesched is older than the plugin, and has not looked for the PodGroup %s: "+
				"single pods were counted, as if they were in no group.", key.Name)
		}
		return ""
	}
	switch named.Use {
	case v1alpha1.PodGroupTogether:
		return fmt.Sprintf("The size of a group comes from the PodGroup %s in the cluster.", named.Name)
	case v1alpha1.PodGroupOneByOne:
		return fmt.Sprintf(
			"Single pods were counted: the PodGroup %s in the cluster has the policy to schedule them one by one.",
			named.Name)
	case v1alpha1.PodGroupLeftToPlugin:
		return fmt.Sprintf("Single pods were counted: a plugin of the profile places the pods of the PodGroup %s.",
			named.Name)
	case v1alpha1.PodGroupNotFound:
		return fmt.Sprintf("The PodGroup %s is neither in the cluster nor in a file: single pods were counted, as if "+
			"they were in no group. "+
			"In the cluster, they would wait for the PodGroup.", named.Name)
	case v1alpha1.PodGroupNotServed:
		return fmt.Sprintf("The API server does not serve PodGroups of %s: single pods were counted. livesched "+
			"ignores the name of the group, %s.",
			named.APIVersion, named.Name)
	}
	return fmt.Sprintf("PodGroup %s: %s.", named.Name, named.Use)
}

// maxPools limits the rows of the table of pools that is not wide.
const maxPools = 10

// printPools prints the pools with room, in the order of the answer: the most pods come first.
func printPools(w io.Writer, pools []v1alpha1.PoolCapacity, wide bool) error {
	if len(pools) == 0 {
		return nil
	}
	shown := pools
	if !wide {
		shown = pools[:min(len(pools), maxPools)]
	}
	var rows [][]string
	for _, p := range shown {
		rows = append(rows, []string{p.Pool, words.Grouped.Sprintf("%d", p.Pods), words.Grouped.Sprintf("%d", p.Nodes)})
	}
	if err := Table(w, []string{"POOL", "PODS", "NODES"}, rows); err != nil {
		return err
	}
	pods := int32(0)
	for _, p := range pools[len(shown):] {
		pods += p.Pods
	}
	if more := len(pools) - len(shown); more > 0 {
		Line(w, "... and "+words.Many(pods, "pod")+" in "+words.Many(more, "more pool")+": -o wide")
	}
	return nil
}

// printNext prints what keeps the next pod or group pending.
func printNext(w io.Writer, next *v1alpha1.NextPod, wide bool) error {
	if next.PodGroup != nil {
		line := "The next group does not fit."
		if next.Message != "" {
			line = "The next group does not fit: " + strings.TrimSuffix(next.Message, ".") + "."
		}
		Line(w, line)
		Line(w, words.PodGroup(next.PodGroup, true))
	} else {
		Line(w, fmt.Sprintf("The next one: %s. %s", next.Verdict, next.Message))
	}
	Suggestions(w, next.Suggestions, 0)
	return NodeGroups(w, next.Groups, wide)
}
