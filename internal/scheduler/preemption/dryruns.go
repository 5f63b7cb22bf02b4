// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"hash/fnv"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// dryRuns remembers the results of preemption dry runs. When many pods of a class fit nowhere,
// kube-scheduler does a dry run on a tenth of the nodes for each of them; here only the nodes that
// have changed since need one.
//
// Only pods with a class (framework.Refusals) are looked up: for these, only the node matters. A
// dry run then depends on the node and its pods (cache.Snapshot.Version), the pods that are
// nominated to it (framework.Nominator), the disruption budgets, the preemptor's class and
// priority, and how groups are evicted. If a group with a pod on the node is evicted as a whole,
// the result is not reused.
//
// The results only decide on which node upstream's evaluator does its own dry run, which finds the
// victims. If they leave no node, the evaluator is not called.
type dryRuns struct {
	// classes holds the dry runs of the last preemptors' classes, the most recent first, at most
	// maxDryRunClasses.
	classes []*classDryRuns
}

const maxDryRunClasses = 4

// classDryRuns are the dry runs for pods of one class and priority.
type classDryRuns struct {
	class    uint64
	priority int32
	// budgets is the sum of the disruption budgets; see budgetsSum. groups is the version of the
	// groups.
	budgets, groups uint64
	byNode          map[string]dryRun
	// potential holds the nodes on which preemption may help, by the statuses of this version
	// (framework.Refusals).
	potential []string
	version   uint64
	// message is upstream's message if there is no candidate, empty if it is not known.
	message string
}

// dryRun is the result of a dry run.
type dryRun struct {
	// version and nominated are the numbers of the node at the time.
	version, nominated uint64
	// spans means that it depends on pods on other nodes, too, so that it must not be reused.
	spans bool
	// victims is nil if preemption does not help on the node. status then has the reason.
	victims *extenderv1.Victims
	status  *fwk.Status
}

// of returns the dry runs for a class and priority, without results that other budgets or groups
// gave. There are none for a pod without a class.
func (d *dryRuns) of(class uint64, priority int32, budgets, groups uint64) *classDryRuns {
	found := &classDryRuns{class: class, priority: priority, budgets: budgets, groups: groups,
		byNode: map[string]dryRun{}}
	if class == 0 {
		return found
	}
	i := slices.IndexFunc(d.classes, func(c *classDryRuns) bool { return c.class == class && c.priority == priority })
	if i >= 0 {
		found = d.classes[i]
		d.classes = slices.Delete(d.classes, i, i+1)
	}
	d.classes = slices.Insert(d.classes, 0, found)
	// Delete also clears the references.
	d.classes = slices.Delete(d.classes, min(len(d.classes), maxDryRunClasses), len(d.classes))
	if found.budgets != budgets || found.groups != groups {
		found.budgets, found.groups = budgets, groups
		clear(found.byNode)
	}
	return found
}

// budgetsSum returns a number that changes with any budget and its status. The order of budgets
// does not matter.
func budgetsSum(budgets []*policyv1.PodDisruptionBudget) (sum uint64) {
	for _, budget := range budgets {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(string(budget.UID) + "/" + budget.ResourceVersion))
		sum += hash.Sum64()
	}
	return sum
}

// findPotential finds the nodes on which preemption may help, unless it knows them for this version
// of the statuses.
func (c *classDryRuns) findPotential(version uint64, statuses fwk.NodeToStatusReader, nodes fwk.NodeInfoLister) error {
	if c.version == version && version != 0 {
		return nil
	}
	potential, err := statuses.NodesForStatusCode(nodes, fwk.Unschedulable)
	if err != nil {
		return err
	}
	c.version, c.potential, c.message = version, c.potential[:0], ""
	for _, node := range potential {
		c.potential = append(c.potential, node.Node().Name)
	}
	if len(c.byNode) > 2*len(potential) { // most are about nodes that are gone
		clear(c.byNode)
	}
	return nil
}

// set stores the result of a dry run.
func (c *classDryRuns) set(node string, result dryRun) {
	c.byNode[node] = result
	c.message = ""
}

// noCandidateMessage returns upstream's message about the pod of a search that found no candidate.
func (c *classDryRuns) noCandidateMessage(s *search) string {
	if c.message == "" {
		statuses := make(map[string]*fwk.Status, len(c.potential))
		for _, name := range c.potential {
			statuses[name] = c.byNode[name].status
		}
		c.message = noCandidateMessage(s.pod, statuses, s.snapshot.NumNodes())
	}
	return c.message
}
