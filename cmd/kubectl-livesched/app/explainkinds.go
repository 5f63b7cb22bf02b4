// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/podkind"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// maxSummarized limits the kinds of pods that the command asks about.
const maxSummarized = 20

// podKind are pending pods of one owner that are alike. The first of them is explained for all.
type podKind struct {
	print.Kind
	scheduler string
}

// podKinds collects pending pods by their kind.
type podKinds map[string]*podKind

// add adds a pod to its kind.
func (k podKinds) add(pod *corev1.Pod) {
	k.addAs(podkind.Key(pod), pod)
}

// addAs adds a pod to the kind of a key.
func (k podKinds) addAs(key string, pod *corev1.Pod) {
	owner, created := podkind.Owner(pod), pod.CreationTimestamp.Time
	kind := k[key]
	if kind == nil {
		kind = &podKind{print.Kind{Namespace: pod.Namespace, Name: pod.Name, Owner: owner, Since: created},
			pod.Spec.SchedulerName}
		k[key] = kind
	}
	kind.Pods++
	if podkind.CompareNames(pod.Name, kind.Name) < 0 {
		kind.Name, kind.Owner = pod.Name, owner
	}
	if created.Before(kind.Since) {
		kind.Since = created
	}
}

// sorted returns the kinds in the order of their numbers of pods, the largest first.
func (k podKinds) sorted() []*podKind {
	return slices.SortedFunc(maps.Values(k), func(a, b *podKind) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Namespace, b.Namespace),
			podkind.CompareNames(a.Name, b.Name))
	})
}

// explainKinds asks for one pod of each kind. Pods that are gone or on nodes by now are left out.
// It returns the answers as they are, too.
func (o *explainOptions) explainKinds(ctx context.Context, kinds []*podKind,
	limit int) (*print.Kinds, []json.RawMessage, error) {
	x, answers := &print.Kinds{}, []json.RawMessage{}
	for _, kind := range kinds {
		switch {
		case slices.Contains(x.Schedulers, kind.scheduler):
			x.Others += kind.Pods
			continue
		case len(x.Explained) == limit:
			x.Left += kind.Pods
			x.LeftKinds++
			continue
		}
		answer, explanation, err := o.ask(ctx, kind.Namespace, kind.Name)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, nil, err
		case explanation.Bound != nil:
			continue
		case explanation.Verdict == v1alpha1.VerdictOtherScheduler:
			x.Others += kind.Pods
			x.Schedulers = append(x.Schedulers, kind.scheduler)
			continue
		}
		kind.Explanation = explanation
		x.Explained, answers = append(x.Explained, &kind.Kind), append(answers, answer)
	}
	return x, answers, nil
}

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
		return fmt.Errorf(
			"no pod of the namespace %s is in a PodGroup %q: pods name it in the label %s or in spec.schedulingGroup",
			o.namespace, name, podgroup.Label)
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
			kinds.addAs(podkind.Alike(pod), pod)
		}
	}
	return counts, kinds.sorted()
}
