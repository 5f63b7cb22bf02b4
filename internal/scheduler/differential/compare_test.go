// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/livesched/livesched/test/sidebyside"
)

// decision is everything that one side reports about a pod.
type decision struct {
	sidebyside.Decision
	// fit are the nodes that were scored. It is empty if there was no choice.
	fit []fwk.NodeInfo
}

func names(nodes []fwk.NodeInfo) []string {
	var out []string
	for _, node := range nodes {
		out = append(out, node.Node().Name)
	}
	slices.Sort(out)
	return out
}

// decide makes both sides decide about the pod and fails the test where they differ. It returns the
// node for the pod, if there is one, and otherwise the node that preemption nominated.
func (c *contest) decide(pod *corev1.Pod) (got decision) {
	c.t.Helper()
	for _, w := range []*witness{c.theirs.preemption, c.ours.preemption} {
		if w != nil {
			w.reset()
		}
	}
	c.refresh()
	want := c.theirs.decide(pod)
	got = c.ours.decide(pod)
	c.count["decisions"]++
	switch {
	case c.awaitsVictims(got):
		// kube-scheduler preempts again, since it does not know that its victims are terminating.
		// From here on the two see different clusters.
		c.count["awaited"]++
		c.parted = true
	case want.Err != nil || got.Err != nil:
		c.compareFailures(pod, want, got)
	default:
		c.compareChoices(pod, want, got)
	}
	return got
}

// awaitsVictims reports whether livesched waits for the victims of an earlier preemption of the pod
// (docs/compare/kube-scheduler.md). That is never the first decision on a pod, and never ends in a
// nomination.
func (c *contest) awaitsVictims(got decision) bool {
	return got.Err != nil && got.Nominating == nil && c.ours.preemption != nil && c.ours.preemption.potential == 0 &&
		c.theirs.preemption.potential > 0 &&
		strings.HasSuffix(got.Err.Error(), "preemption: not eligible due to a terminating pod on the nominated node.")
}

func (c *contest) compareChoices(pod *corev1.Pod, want, got decision) {
	c.t.Helper()
	c.count["placed"]++
	c.count["nodeVerdicts"] += want.Evaluated
	c.compareVerdicts(pod, want, got)
	c.equal("nodes that fit", names(want.fit), names(got.fit))
	c.equal("evaluated and feasible nodes", []int{want.Evaluated, want.Feasible}, []int{got.Evaluated, got.Feasible})
	if len(got.fit) == 0 {
		c.equal("the choice", want.Host, got.Host)
		return
	}
	best := c.compareScores(pod, want, got)
	if !slices.Contains(best, want.Host) || !slices.Contains(best, got.Host) {
		c.fatalf("kube-scheduler chose %s, livesched %s, the best are %v", want.Host, got.Host, best)
	}
	if len(best) > 1 {
		c.count["ties"]++
	}
}

// compareVerdicts filters every node again, each side with its own state of the decision. Neither
// side reports why it rejected nodes for a pod that fits elsewhere.
func (c *contest) compareVerdicts(pod *corev1.Pod, want, got decision) {
	c.t.Helper()
	if len(c.nodes) > 150 && !c.chance(20) {
		return // large clusters take long
	}
	theirs, err := c.theirs.Framework.SnapshotSharedLister().NodeInfos().List()
	c.must(err)
	for _, node := range theirs {
		mine, err := c.ours.Snapshot.Get(node.Node().Name)
		c.must(err)
		verdict := describe(c.theirs.Framework.RunFilterPluginsWithNominatedPods(c.ctx, want.State, pod, node))
		c.equal("verdict on "+node.Node().Name, verdict,
			describe(c.ours.Profile.Framework.RunFilterPluginsWithNominatedPods(c.ctx, got.State, pod, mine)))
		if verdict != describe(nil) {
			c.count["refusals"]++
		}
	}
}

// compareScores scores the nodes again, each side with its own state of the decision, and returns
// those with the highest total.
func (c *contest) compareScores(pod *corev1.Pod, want, got decision) (best []string) {
	c.t.Helper()
	theirs, status := c.theirs.Framework.RunScorePlugins(c.ctx, want.State, pod, inOrder(want.fit))
	c.mustStatus(status)
	mine, status := c.ours.Profile.Framework.RunScorePlugins(c.ctx, got.State, pod, inOrder(got.fit))
	c.mustStatus(status)
	c.equal("scores", theirs, mine)
	highest := int64(-1)
	for _, node := range theirs {
		c.count["scores"] += len(node.Scores)
		if node.TotalScore > highest {
			highest, best = node.TotalScore, nil
		}
		if node.TotalScore == highest {
			best = append(best, node.Name)
		}
	}
	return best
}

func inOrder(nodes []fwk.NodeInfo) []fwk.NodeInfo {
	return slices.SortedFunc(slices.Values(nodes),
		func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
}

// preempting is the part of a message that names the chosen node. Which of the equally good nodes
// that is depends on their order.
var preempting = regexp.MustCompile(`on node \S+, preempting \d+ victims`)

func withoutChoice(message string) string {
	return preempting.ReplaceAllString(message, "on some node")
}

// compareFailures expects the same explanation from both sides: word for word for the user, and
// status by status for preemption and the queue.
func (c *contest) compareFailures(pod *corev1.Pod, want, got decision) {
	c.t.Helper()
	c.comparePreemption(want, got)
	c.equal("message", withoutChoice(fmt.Sprint(want.Err)), withoutChoice(fmt.Sprint(got.Err)))
	c.equal("status", withoutChoice(describe(want.Status)), withoutChoice(describe(got.Status)))
	c.count["unplaced"]++
	var theirs, mine *schedframework.FitError
	if !errors.As(want.Err, &theirs) || !errors.As(got.Err, &mine) {
		c.count["errors"]++
		return
	}
	if theirs.Diagnosis.PreFilterMsg != "" {
		c.count["refusedByPreFilter"]++
	}
	c.count["refusals"] += theirs.Diagnosis.NodeToStatus.Len()
	c.count["nodeVerdicts"] += theirs.Diagnosis.NodeToStatus.Len()
	for _, diagnosis := range []*schedframework.Diagnosis{&theirs.Diagnosis, &mine.Diagnosis} {
		diagnosis.PostFilterMsg = withoutChoice(diagnosis.PostFilterMsg)
	}
	c.equal("diagnosis", theirs.Diagnosis, mine.Diagnosis)
	c.compareNominations(want, got)
	c.compareRehearsals(pod, want, got)
}

// compareFutile checks a preemption that livesched has answered without a dry run: there must have
// been no pod to preempt. The answers are compared with the decision.
func (c *contest) compareFutile(theirs *witness) {
	c.t.Helper()
	none := describe(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod"))
	for node, came := range theirs.dryRuns {
		c.equal("dry run on "+node, came, none)
	}
	c.count["preemptions in vain"]++
}

// comparePreemption waits for the evictions of both sides and compares everything that led to them.
func (c *contest) comparePreemption(want, got decision) {
	c.t.Helper()
	theirs, mine := c.theirs.preemption, c.ours.preemption
	if theirs == nil || mine == nil {
		if theirs != mine {
			c.fatalf("preemption of kube-scheduler: %v, of livesched: %v", theirs != nil, mine != nil)
		}
		return
	}
	c.theirs.awaitEvictions(c, want)
	c.ours.awaitEvictions(c, got)
	if theirs.potential > 0 && mine.potential == 0 {
		c.compareFutile(theirs)
		return
	}
	c.equal("potential nodes and wanted candidates", []int32{theirs.potential, theirs.wanted},
		[]int32{mine.potential, mine.wanted})
	if theirs.potential == 0 {
		return
	}
	c.count["preemptions"]++
	if theirs.wanted >= theirs.potential {
		c.equal("nodes of dry runs", theirs.dryRunNodes(), mine.dryRunNodes())
	}
	for node, verdict := range theirs.dryRuns {
		if own, ok := mine.dryRuns[node]; ok {
			c.count["dryRuns"]++
			c.equal("dry run on "+node, verdict, own)
		}
	}
}

// compareRehearsals makes both sides search for victims again, on the same nodes in the same order.
func (c *contest) compareRehearsals(pod *corev1.Pod, want, got decision) {
	c.t.Helper()
	theirs, mine := c.theirs.preemption, c.ours.preemption
	if theirs == nil || theirs.potential == 0 || len(c.groups) > 0 {
		return // the evaluator of livesched's witness knows no groups
	}
	budgets, err := theirs.evaluator.PdbLister.List(labels.Everything())
	c.must(err)
	var theirError, ourError *schedframework.FitError
	errors.As(want.Err, &theirError)
	errors.As(got.Err, &ourError)
	expected, err := theirs.rehearse(c.ctx, want.State, pod, theirError, budgets)
	c.must(err)
	own, err := mine.rehearse(c.ctx, got.State, pod, ourError, budgets)
	c.must(err)
	c.equal("errors of dry runs", fmt.Sprint(expected.err), fmt.Sprint(own.err))
	if !c.ordered {
		if theirs.wanted < theirs.potential {
			return // several workers choose any of the nodes
		}
		byName := func(a, b candidate) int { return strings.Compare(a.node, b.node) }
		slices.SortFunc(expected.candidates, byName)
		slices.SortFunc(own.candidates, byName)
	}
	c.equal("candidates", fmt.Sprint(expected.candidates), fmt.Sprint(own.candidates))
	c.equal("statuses of dry runs", expected.statuses, own.statuses)
	c.count["candidates"] += len(expected.candidates)
	for _, candidate := range expected.candidates {
		c.count["victims"] += len(candidate.Pods)
		c.count["violations"] += int(candidate.NumPDBViolations)
	}
	if len(expected.candidates) > 0 {
		c.equal("the chosen candidate's worth", expected.chosen.worth(), own.chosen.worth())
	}
}

// endsVainNomination reports whether livesched ends the nomination of a pod that preempts no
// others, which kube-scheduler leaves (docs/compare/kube-scheduler.md).
func endsVainNomination(got decision) bool {
	return got.Err != nil && got.Nominating != nil && got.Nominating.NominatedNodeName == "" &&
		strings.HasSuffix(got.Err.Error(), "preemption: not eligible due to preemptionPolicy=Never.")
}

// compareNominations compares the nodes where room was made, and the requests to the API server. Of
// equally good candidates each side takes any.
func (c *contest) compareNominations(want, got decision) {
	c.t.Helper()
	theirWrites, ourWrites := c.theirs.Requests.Take(), c.ours.Requests.Take()
	if want.Nominating == nil && endsVainNomination(got) {
		c.count["ended in livesched only"]++
		c.equal("requests", theirWrites, ourWrites)
		return
	}
	c.equal("nomination", want.Nominating == nil, got.Nominating == nil)
	if want.Nominating == nil {
		c.equal("requests", theirWrites, ourWrites)
		return
	}
	c.countGroups(got)
	c.equal("nomination mode", want.Nominating.Mode(), got.Nominating.Mode())
	theirs, mine := want.Nominating.NominatedNodeName, got.Nominating.NominatedNodeName
	if (theirs == "") != (mine == "") {
		c.fatalf("kube-scheduler nominates %q, livesched %q", theirs, mine)
	}
	if theirs == "" {
		c.count["cleared"]++
	} else {
		c.count["nominated"]++
	}
	if theirs == mine {
		c.equal("requests", theirWrites, ourWrites)
		c.count["writes"] += len(theirWrites)
		return
	}
	if c.theirs.preemption.wanted < c.theirs.preemption.potential {
		return // they have searched different nodes
	}
	c.count["preemptionTies"]++
	a, b := c.theirs.preemption.candidate(theirs), c.ours.preemption.candidate(mine)
	c.equal("the candidates' worth", a.worth(), b.worth())
}

func (p *preempted) candidate(node string) candidate {
	i := slices.IndexFunc(p.candidates, func(c candidate) bool { return c.node == node })
	return p.candidates[i]
}

// worth returns the criteria by which kube-scheduler chooses a candidate, in this order
// (pickOneNodeForPreemption).
func (c candidate) worth() []int64 {
	sum := int64(0)
	for _, pod := range c.Pods {
		sum += int64(corev1helpers.PodPriority(pod))
	}
	return []int64{
		c.NumPDBViolations, int64(corev1helpers.PodPriority(c.Pods[0])), sum, int64(len(c.Pods)),
		schedutil.GetEarliestPodStartTime(c.Victims).UnixNano(),
	}
}

// awaitEvictions waits until the victims on the nominated node are deleted.
func (u *upstream) awaitEvictions(c *contest, d decision) { c.await(u.preemption, u.Requests, d) }

func (o *ours) awaitEvictions(c *contest, d decision) { c.await(o.preemption, o.Requests, d) }

func (c *contest) await(w *witness, requests *sidebyside.Requests, d decision) {
	c.t.Helper()
	if d.Nominating == nil || d.Nominating.NominatedNodeName == "" {
		return
	}
	expected := w.running(d.Nominating.NominatedNodeName)
	c.eventually("evictions", func() bool { return requests.Deleted() >= expected })
}

func (c *contest) equal(what string, want, got any) {
	c.t.Helper()
	if reflect.DeepEqual(want, got) {
		return // the usual case, a hundred times faster
	}
	if diff := cmp.Diff(want, got, statuses, cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(fwk.NodePluginScores{}, "Randomizer", "RawScores")); diff != "" {
		c.fatalf("%s (-kube-scheduler +livesched):\n%s", what, diff)
	}
}

var statuses = cmp.Transformer("statuses", func(m *schedframework.NodeToStatus) map[string]string {
	out := map[string]string{"absent": describe(m.AbsentNodesStatus())}
	m.ForEachExplicitNode(func(node string, status *fwk.Status) { out[node] = describe(status) })
	return out
})
