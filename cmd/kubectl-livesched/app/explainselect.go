// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

const (
	// podsPerPage limits the pods that the API server sends at once.
	podsPerPage = 500
	// maxOwners limits how far the owners of a pod are followed: CronJob, Job, pod are two.
	maxOwners = 5
)

// explainPending prints a line for each kind of pending pod.
func (o *explainOptions) explainPending(ctx context.Context) error {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	namespace, where := o.namespace, "in namespace "+o.namespace
	if o.allNamespaces {
		namespace, where = "", "in all namespaces"
	}
	if o.selector != "" {
		where = "with " + o.selector + " " + where
	}
	kinds := podKinds{}
	if err := eachPending(ctx, c, namespace, selector,
		func(pod *corev1.Pod) error { kinds.add(pod); return nil }); err != nil {
		return err
	}
	return o.explainEach(ctx, kinds, maxSummarized, where, func(x *print.Kinds) error {
		return print.Summary(o.Out, x, where, time.Now(), o.allNamespaces, o.output == print.Wide)
	})
}

// explainOwner explains the pending pods of an object, one of each kind.
func (o *explainOptions) explainOwner(ctx context.Context, target objectName) error {
	owner, err := o.liveObject(target, o.namespace,
		"explain takes pods, PodGroups, and objects that own or select pods, such as deployments and jobs",
		"explain takes pods, PodGroups, and objects in a namespace that own or select pods")
	if err != nil {
		return err
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	selector, selects, err := selectorOf(owner)
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	kinds := podKinds{}
	owners := &owners{client: c, target: owner.GetUID(), known: map[types.UID]bool{}}
	err = eachPending(ctx, c, o.namespace, selector, func(pod *corev1.Pod) error {
		owned := selects
		if !selects {
			var err error
			if owned, err = owners.has(ctx, pod.Namespace, pod.OwnerReferences, maxOwners); err != nil {
				return err
			}
		}
		if owned {
			kinds.add(pod)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return o.explainEach(ctx, kinds, maxKinds, fmt.Sprintf("of %s in namespace %s", target,
		o.namespace), func(x *print.Kinds) error {
		return print.Explanations(o.Out, x, time.Now(), o.output == print.Wide)
	})
}

// explainEach explains kinds of pods, up to a limit, as data or as text. The text where is the
// place of the pods.
func (o *explainOptions) explainEach(ctx context.Context, kinds podKinds, limit int, where string,
	text func(*print.Kinds) error) error {
	x, answers, err := o.explainKinds(ctx, kinds.sorted(), limit)
	switch {
	case err != nil:
		return err
	case print.IsData(o.output):
		return print.As(o.Out, o.output, print.List(answers))
	case len(kinds) == 0:
		_, _ = fmt.Fprintf(o.ErrOut, "No pending pods %s.\n", where)
		return nil
	}
	return text(x)
}

// selectorOf returns the pod selector of an object, and whether it has one.
func selectorOf(object *unstructured.Unstructured) (selector labels.Selector, found bool, err error) {
	fields, found, err := unstructured.NestedMap(object.Object, "spec", "selector")
	if err != nil || !found || len(fields) == 0 {
		return labels.Everything(), false, nil // the field is something else
	}
	if object.GetKind() == "Service" || object.GetKind() == "ReplicationController" {
		simple, _, err := unstructured.NestedStringMap(object.Object, "spec", "selector")
		return labels.SelectorFromSet(simple), true, err
	}
	var parsed metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &parsed); err != nil {
		return nil, false, fmt.Errorf("spec.selector: %w", err)
	}
	if len(parsed.MatchLabels)+len(parsed.MatchExpressions) == 0 {
		return labels.Everything(), false, nil
	}
	selector, err = metav1.LabelSelectorAsSelector(&parsed)
	return selector, true, err
}

// owners finds out which objects a certain object owns.
type owners struct {
	client client.Client
	target types.UID
	known  map[types.UID]bool // whether the target owns an object with this UID
}

// has reports whether one of the references leads to the target.
func (o *owners) has(ctx context.Context, namespace string, references []metav1.OwnerReference,
	levels int) (bool, error) {
	for _, r := range references {
		owned, known := o.known[r.UID]
		switch {
		case r.UID == o.target:
			return true, nil
		case !known && levels > 1:
			var err error
			if owned, err = o.ownedBy(ctx, namespace, r, levels-1); err != nil {
				return false, err
			}
			o.known[r.UID] = owned
		}
		if owned {
			return true, nil
		}
	}
	return false, nil
}

// ownedBy reports whether the target owns the owner of something. An owner that is gone, or that
// the user may not read, counts as not owned.
func (o *owners) ownedBy(ctx context.Context, namespace string, r metav1.OwnerReference, levels int) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	err := o.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Name}, object)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return o.has(ctx, namespace, object.OwnerReferences, levels)
}

// eachPending visits the pods that are on no node and have not ended.
func eachPending(ctx context.Context, c client.Client, namespace string, selector labels.Selector,
	visit func(*corev1.Pod) error) error {
	return eachPod(ctx, c, func(pod *corev1.Pod) error {
		if podutil.IsPodTerminal(pod) {
			return nil
		}
		return visit(pod)
	}, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector},
		client.MatchingFields{"spec.nodeName": ""})
}

// eachPod visits pods, page by page.
func eachPod(ctx context.Context, c client.Client, visit func(*corev1.Pod) error, which ...client.ListOption) error {
	next := ""
	for {
		var page corev1.PodList
		if err := c.List(ctx, &page, append(which, client.Limit(podsPerPage), client.Continue(next))...); err != nil {
			return err
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}
