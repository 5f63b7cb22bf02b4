// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/suggest"
)

// maxEmptied limits the nodes on which it is tried whether the pod would fit without other pods.
const maxEmptied = 64

// withoutProfile explains a pod that livesched does not schedule. schedulerNames are the names of
// the profiles.
func withoutProfile(x *v1alpha1.PodExplanation, pod *corev1.Pod, schedulerNames []string) Explanation {
	x.Verdict = v1alpha1.VerdictNoProfile
	x.Message = noProfile(pod.Spec.SchedulerName, schedulerNames)
	if reason := x.Pending.Reason; reason != "" && reason != corev1.PodReasonSchedulingGated &&
		reason != v1alpha1.PodReasonPreEnqueueRejected {
		x.Verdict = v1alpha1.VerdictOtherScheduler
		x.Message += " Another scheduler has tried the pod: the condition PodScheduled is its own."
	}
	x.Pending.Gates = gatesOf(pod)
	return Explanation{PodExplanation: x}
}

// maxProfilesListed limits the scheduler names that are listed if none is like the pod's.
const maxProfilesListed = 5

// noProfile returns the message for a scheduler name without a profile. It suggests the names of
// profiles that are like it, or lists all if they are few.
func noProfile(name string, schedulerNames []string) string {
	text := fmt.Sprintf("No SchedulerProfile has the scheduler name %q", name)
	if meant := suggest.DidYouMean(name, schedulerNames); meant != "" {
		return text + meant
	}
	if len(schedulerNames) == 0 || len(schedulerNames) > maxProfilesListed {
		return text + "."
	}
	return text + ". Scheduler names of the profiles: " + enumerate(schedulerNames, "and") + "."
}

// binding explains a pod that is in its binding cycle.
func binding(x *v1alpha1.PodExplanation, node string, permitPlugins []string) Explanation {
	x.Verdict, x.Pending.NominatedNode = v1alpha1.VerdictBinding, node
	x.Message = "A node was chosen. The pod is being bound, which may have to wait for its volumes or devices."
	if len(permitPlugins) > 0 {
		x.Message = fmt.Sprintf("A node was chosen. The pod waits on Permit, for %s.",
			strings.Join(permitPlugins, ", "))
	}
	return Explanation{PodExplanation: x}
}

// isGated reports whether the pod is kept from being tried.
func isGated(in Pending) bool {
	return len(in.Pod.Spec.SchedulingGates) > 0 || in.Wait != nil && in.Wait.Place == queue.Gated
}

// gated explains a pod that is kept from being tried.
func gated(x *v1alpha1.PodExplanation, in Pending) Explanation {
	x.Verdict, x.Pending.Gates = v1alpha1.VerdictGated, gatesOf(in.Pod)
	switch gates, plugin := x.Pending.Gates, x.Pending.GatingPlugin; {
	case plugin == names.DefaultPreemption:
		x.Verdict, x.Message = v1alpha1.VerdictWaitingForVictims, messageOfVictims(x.Pending.Victims)
	case plugin == podgroup.Gate && in.Wait.Group != nil:
		x.Message = awaitedGroup(in.Wait.Group)
	case len(gates) > 0:
		x.Message = fmt.Sprintf("The pod has the scheduling gates %s. The component that set them must remove them.",
			strings.Join(gates, ", "))
	case in.Wait != nil && in.Wait.Error != "":
		x.Message = fmt.Sprintf("A PreEnqueue plugin failed: %s.", in.Wait.Error)
	default:
		x.Message = fmt.Sprintf("The PreEnqueue plugin %s holds the pod", plugin)
		if message := x.Pending.GatingMessage; message != "" {
			x.Message += ": " + message
		}
		x.Message += "."
	}
	return Explanation{PodExplanation: x}
}

// awaitedGroup describes what keeps a group from being tried.
func awaitedGroup(g *queue.GroupWait) string {
	if !g.Known {
		return fmt.Sprintf("The pod names the pod group %s, but there is no such PodGroup.", g.Key)
	}
	if g.TreeAwaits != "" {
		return fmt.Sprintf("The pod group %s has enough pods, but %s.", g.Key, g.TreeAwaits)
	}
	return fmt.Sprintf("The pod waits for other pods of the pod group %s: %d of the %d that must be placed together "+
		"are there and ready.",
		g.Key, g.Ready, g.Needed)
}

func gatesOf(pod *corev1.Pod) []string {
	var gates []string
	for _, gate := range pod.Spec.SchedulingGates {
		gates = append(gates, gate.Name)
	}
	return gates
}

// verdict returns the verdict about a pod that was decided, with the message. freeing means that it
// fits if pods leave some node, which was tried.
func (e *explainer) verdict(ctx context.Context, in Pending,
	freeing bool) (verdict v1alpha1.Verdict, message string, err error) {
	switch {
	case e.Nodes == 0:
		return v1alpha1.VerdictNeverFits, "There are no nodes.", nil
	case e.Feasible > 0 && e.podGroup.lacksRoom():
		return v1alpha1.VerdictGroupDoesNotFit, e.messageOfGroup(), nil
	case e.Feasible > 0:
		return v1alpha1.VerdictWaitingForTurn, e.messageOfTurn(in.Wait), nil
	case len(e.Pending.Victims) > 0:
		return v1alpha1.VerdictWaitingForVictims, messageOfVictims(e.Pending.Victims), nil
	case !freeing:
		if freeing, err = e.fitsOnEmptied(ctx); err != nil {
			return "", "", err
		}
	}
	switch {
	case freeing:
		return v1alpha1.VerdictFitsWhenFreed, e.messageOfFreed(), nil
	case len(e.everywhere) > 0:
		return v1alpha1.VerdictNeverFits,
			fmt.Sprintf("The pod cannot be scheduled on any node: %s.", e.whyNowhere()), nil
	}
	return v1alpha1.VerdictNeverFits, e.messageOfNever(), nil
}

// messageOfTurn is for a pod that fits now.
func (e *explainer) messageOfTurn(wait *queue.Wait) string {
	message := fmt.Sprintf("The pod fits on %d of %d nodes now.", e.Feasible, e.Nodes)
	if wait != nil && wait.Group != nil && wait.Group.Needed > 1 {
		message = fmt.Sprintf(
			"The pod by itself fits on %d of %d nodes now, but %d pods of the pod group %s must be placed together.",
			e.Feasible, e.Nodes, wait.Group.Needed, wait.Group.Key)
	}
	if e.extenders > 0 {
		message += " The extenders of the profile were not asked."
	}
	return message
}

// messageOfGroup describes how many pods of the group, or groups of a composite group, fit
// together.
func (e *explainer) messageOfGroup() string {
	fit, where := e.podGroup.fit, ""
	about, members := e.podGroup.best.WithKind(), "pods"
	if fit.Composite {
		members = "groups"
	}
	if len(fit.Tried) == 0 {
		return fmt.Sprintf("No node has the labels that the %s requires. %d of its %s must be placed together.",
			about, fit.Needed, members)
	}
	if len(e.podGroup.bestIn) > 0 {
		where = " in one domain"
	}
	return fmt.Sprintf("Of the %s, %d %s must be placed together, but only %d fit%s now. The pod by itself fits on "+
		"%d of %d nodes.", about, fit.Needed, members, fit.Fit, where, e.Feasible, e.Nodes)
}

// messageOfNever is for a pod that fits on no node. It describes which requests are too large.
func (e *explainer) messageOfNever() string {
	name := isForOneNode(e.pod)
	if name != "" && !slices.ContainsFunc(e.all, func(n fwk.NodeInfo) bool { return n.Node().Name == name }) {
		return fmt.Sprintf("The pod of a DaemonSet is for the node %s, which does not exist.", name)
	}
	if candidates, _ := e.partition(); len(candidates) > 0 &&
		!slices.ContainsFunc(candidates, func(n *refusedNode) bool { return !n.isExcluded() }) {
		return fmt.Sprintf("None of %d nodes matches %s, which the pod requires.", e.Nodes, selectorText(e.pod))
	}
	message := fmt.Sprintf("The pod would fit on none of %d nodes, even if no other pods were on them", e.Nodes)
	if text := e.tooLarge(); text != "" {
		message += ": " + text
	}
	return message + "."
}

// whyNowhere describes what refuses the pod itself.
func (e *explainer) whyNowhere() string {
	var texts []string
	for _, r := range e.Pending.PodRefusals {
		text := r.Detail
		if text == "" {
			text = strings.Join(r.Messages, ", ")
		}
		if text = cmp.Or(text, "the plugin "+r.Plugin+" refuses it"); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return enumerate(texts, "and")
}

// obstacles are what other pods take from a pod, in words.
var obstacles = map[v1alpha1.RefusalReason]string{
	v1alpha1.ReasonHostPortInUse:           "host ports in use",
	v1alpha1.ReasonTopologySpread:          "topology spread constraints",
	v1alpha1.ReasonPodAntiAffinity:         "the pod's anti-affinity",
	v1alpha1.ReasonAntiAffinityOfOtherPods: "the anti-affinity of other pods",
	v1alpha1.ReasonPodAffinityNotSatisfied: "the pod's affinity",
	v1alpha1.ReasonVolumeInUse:             "volumes in use",
	v1alpha1.ReasonTooManyVolumes:          "the limit of volumes",
	v1alpha1.ReasonDeviceNotAvailable:      "devices in use",
}

// messageOfFreed describes what other pods take on the nodes that the pod could be on.
func (e *explainer) messageOfFreed() string {
	possible, room, full := 0, false, true
	var others []string
	for i := range e.nodes {
		n := &e.nodes[i]
		if !n.mayBeFreed() {
			continue
		}
		possible++
		short := false
		for _, status := range n.refusals {
			reason := e.reasons.of(status)
			if reason == v1alpha1.ReasonInsufficientResource {
				short = true
				continue
			}
			if text := cmp.Or(obstacles[reason], "the plugin "+status.Plugin()); !slices.Contains(others, text) {
				others = append(others, text)
			}
		}
		room, full = room || short, full && short
	}
	if len(e.everywhere) > 0 {
		return fmt.Sprintf("The pod cannot be scheduled on any node now: %s. It would fit if other pods ended.",
			e.whyNowhere())
	}
	if name := isForOneNode(e.pod); name != "" {
		return fmt.Sprintf("The pod of a DaemonSet is for the node %s, which %s. It would fit if other pods ended.",
			name, e.whyNotOn(name, others))
	}
	slices.Sort(others)
	if room {
		others = append([]string{"too little room"}, others...)
	}
	var now string
	switch {
	case possible == 1 && e.Nodes > 1 && full:
		now = fmt.Sprintf("Only 1 of %d nodes could take the pod, and it has no room", e.Nodes)
	case possible == 1 && e.Nodes > 1:
		now = fmt.Sprintf("Only 1 of %d nodes could take the pod, but not now, because of %s", e.Nodes,
			enumerate(others, "and"))
	case possible < int(e.Nodes) && full:
		now = fmt.Sprintf("%d of %d nodes could take the pod, but none of them has room", possible, e.Nodes)
	case possible < int(e.Nodes):
		now = fmt.Sprintf("%d of %d nodes could take the pod, but not now, because of %s", possible, e.Nodes,
			enumerate(others, "and"))
	case full:
		now = fmt.Sprintf("None of %d nodes has room for the pod", e.Nodes)
	default:
		now = fmt.Sprintf("None of %d nodes takes the pod now, because of %s", e.Nodes, enumerate(others, "and"))
	}
	return now + ". It would fit if other pods ended."
}

// whyNotOn describes what the node of a pod lacks, or what else keeps the pod off it.
func (e *explainer) whyNotOn(name string, others []string) string {
	var reasons []string
	if i := slices.IndexFunc(e.nodes, func(n refusedNode) bool { return n.name() == name }); i >= 0 &&
		len(e.nodes[i].short) > 0 {
		reasons = append(reasons, "lacks "+e.nodes[i].short.String())
	}
	if len(others) > 0 || len(reasons) == 0 {
		reasons = append(reasons, "refuses it because of "+cmp.Or(enumerate(others, "and"), "nominated pods"))
	}
	return strings.Join(reasons, " and ")
}

// fitsOnEmptied reports whether the pod fits on some node that has no pods. It tries only
// nodes on which the pod might fit according to the plugins. First some are emptied one by one, as
// the pod may need those on other nodes, and then all at once, as it may be those that are in the
// way.
func (e *explainer) fitsOnEmptied(ctx context.Context) (bool, error) {
	all, some := e.mayFitOnEmptied()
	defer e.fork.SuspendNominations()()
	began := time.Now()
	for _, n := range some {
		if time.Since(began) > e.patience {
			break
		}
		if fits, err := e.fitsWithout(ctx, n.name(), n.pods()); err != nil || fits {
			return fits, err
		}
	}
	if len(all) == 0 {
		return false, nil
	}
	restore, err := e.fork.Empty()
	if err != nil {
		return false, err
	}
	defer restore()
	fit, err := e.fork.FirstFit(ctx, e.instance, e.pod, all...)
	return fit != "", err
}

// mayFitOnEmptied returns the nodes on which the pod might fit if they had no pods, and some of
// them, of each group. InterPodAffinity reports required affinity as unresolvable. A pod that
// matches its own affinity can still be placed if no other pod matches.
func (e *explainer) mayFitOnEmptied() (all []string, some []*refusedNode) {
	if slices.ContainsFunc(e.everywhere, isUnresolvable) {
		return nil, nil
	}
	seen := map[string]int{}
	for i := range e.nodes {
		n := &e.nodes[i]
		if !n.mayBeFreed() {
			continue
		}
		all = append(all, n.name())
		// Nodes of one row are likely to answer alike.
		if seen[n.key] < maxEmptied/4 && len(some) < maxEmptied {
			seen[n.key]++
			some = append(some, n)
		}
	}
	return all, some
}

// mayBeFreed reports whether the pod might fit on a node if other pods ended.
func (n *refusedNode) mayBeFreed() bool {
	return !slices.ContainsFunc(n.refusals,
		func(s *fwk.Status) bool { return !resolvable(s) && s.Plugin() != names.InterPodAffinity })
}
