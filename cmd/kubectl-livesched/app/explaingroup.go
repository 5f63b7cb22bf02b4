// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// maxKinds limits the kinds of pods of a group that are explained.
const maxKinds = 5

// explainGroup explains why pods of a PodGroup are pending, one of each kind.
func (o *explainOptions) explainGroup(ctx context.Context, name string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	pods, kinds := podsOfGroup(list.Items, name)
	if pods.Total == 0 {
		return fmt.Errorf("no pod of the namespace %s is in a PodGroup %q: pods name it in the label %s or in spec.schedulingGroup", o.namespace, name, podgroup.Label)
	}
	x, answers := &print.Kinds{}, []json.RawMessage{}
	for i, kind := range kinds {
		if i >= maxKinds {
			x.Left += kind.Pods
			continue
		}
		answer, explanation, err := o.ask(ctx, o.namespace, kind.Name)
		if err != nil {
			return err
		}
		kind.Explanation = explanation
		x.Explained, answers = append(x.Explained, &kind.Kind), append(answers, answer)
	}
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, print.List(answers))
	}
	return print.Group(o.Out, name, pods, x, time.Now(), o.output == print.Wide)
}

// podsOfGroup counts the pods of a group among the pods of its namespace, and returns the kinds of
// those that are pending, with the most pods first.
func podsOfGroup(pods []corev1.Pod, name string) (counts print.GroupPods, all []*podKind) {
	kinds := podKinds{}
	for i := range pods {
		pod := &pods[i]
		if podgroup.KeyOf(pod).Name != name {
			continue
		}
		counts.Total++
		switch {
		case podutil.IsPodTerminal(pod):
			counts.Ended++
		case pod.Spec.NodeName != "":
			counts.OnNodes++
		default:
			counts.Pending++
			kinds.addAs(kindOf(pod), pod)
		}
	}
	return counts, kinds.sorted()
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
