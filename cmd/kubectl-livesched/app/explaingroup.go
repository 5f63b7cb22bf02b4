// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// maxKinds limits the kinds of pods of a group that are explained.
const maxKinds = 5

// groupPods are the pods of a PodGroup.
type groupPods struct {
	total, onNodes, ended, pending int
	// kinds are the pending pods, those together that are alike, the most first. Each is explained
	// by its first pod.
	kinds [][]string
}

// explainGroup explains why pods of a PodGroup are pending, one of each kind.
func (o *explainOptions) explainGroup(ctx context.Context, name string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	group := podsOfGroup(pods.Items, name)
	if group.total == 0 {
		return fmt.Errorf("no pod of the namespace %s is in a PodGroup %q: pods name it in the label %s or in spec.schedulingGroup", o.namespace, name, podgroup.Label)
	}
	explained := group.kinds[:min(len(group.kinds), maxKinds)]
	answers := make([]json.RawMessage, len(explained))
	for i, kind := range explained {
		if answers[i], err = o.ask(ctx, o.namespace, kind[0], nil); err != nil {
			return err
		}
	}
	if isData(o.output) {
		return writeAs(o.Out, o.output, map[string]any{"apiVersion": "v1", "kind": "List", "items": answers})
	}
	return printGroup(o.Out, name, group, answers, time.Now(), o.output == formatWide)
}

// podsOfGroup returns the pods of a group among those of its namespace.
func podsOfGroup(pods []corev1.Pod, name string) *groupPods {
	group := &groupPods{}
	kinds := map[string][]string{}
	for i := range pods {
		pod := &pods[i]
		if podgroup.KeyOf(pod).Name != name {
			continue
		}
		group.total++
		switch {
		case podutil.IsPodTerminal(pod):
			group.ended++
		case pod.Spec.NodeName != "":
			group.onNodes++
		default:
			group.pending++
			kind := kindOf(pod)
			kinds[kind] = append(kinds[kind], pod.Name)
		}
	}
	for _, names := range kinds {
		slices.SortFunc(names, comparePodNames)
		group.kinds = append(group.kinds, names)
	}
	slices.SortFunc(group.kinds, func(a, b []string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), comparePodNames(a[0], b[0]))
	})
	return group
}

// comparePodNames orders names by their length first, so that worker-2 is before worker-10.
func comparePodNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// kindOf returns a text that is equal for pods that are alike to a scheduler, as far as the command
// looks at them.
func kindOf(pod *corev1.Pod) string {
	spec := pod.Spec
	var requests []any
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			requests = append(requests, containers[i].Resources, containers[i].Ports)
		}
	}
	text, _ := json.Marshal([]any{ // it never fails for these types
		requests, spec.Resources, spec.Overhead, spec.NodeSelector, spec.Affinity, spec.Tolerations, spec.TopologySpreadConstraints,
		spec.SchedulerName, spec.Priority, spec.ResourceClaims, spec.SchedulingGates,
	})
	return string(text)
}

// printGroup prints the explanations of the kinds of pods for people.
func printGroup(w io.Writer, name string, group *groupPods, answers []json.RawMessage, now time.Time, wide bool) error {
	states := []string{fmt.Sprintf("%d on nodes", group.onNodes), fmt.Sprintf("%d pending", group.pending)}
	if group.ended > 0 {
		states = append(states, fmt.Sprintf("%d ended", group.ended))
	}
	writeLine(w, fmt.Sprintf("Pod group %s has %s: %s.", name, plural(group.total, "pod"), strings.Join(states, ", ")))
	for i, answer := range answers {
		var explanation v1alpha1.PodExplanation
		if err := json.Unmarshal(answer, &explanation); err != nil {
			return fmt.Errorf("reading the answer of livesched: %w", err)
		}
		_, _ = fmt.Fprintln(w)
		if more := len(group.kinds[i]) - 1; more > 0 {
			writeLine(w, fmt.Sprintf("%s, and %s like it:", group.kinds[i][0], print.Many(int32(more), "pod")))
		}
		if err := print.Explanation(w, &explanation, now, wide); err != nil {
			return err
		}
	}
	if more := len(group.kinds) - len(answers); more > 0 {
		_, _ = fmt.Fprintln(w)
		writeLine(w, fmt.Sprintf("Not explained: %s of other kinds.", plural(countPods(group.kinds[len(answers):]), "pod")))
	}
	return nil
}

func countPods(kinds [][]string) (pods int) {
	for _, names := range kinds {
		pods += len(names)
	}
	return pods
}
