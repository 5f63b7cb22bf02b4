// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"fmt"
	"math"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// strict makes the API server refuse fields that it does not know.
const strict = metav1.FieldValidationStrict

func (o *createAny) run(ctx context.Context, e *executor, _ int) error {
	if err := e.namespace(ctx, o.Namespace); err != nil {
		return err
	}
	return e.each(ctx, *o.Count, func(ctx context.Context, i int) error {
		obj := &unstructured.Unstructured{}
		if err := e.templates.render(o.TemplatePath, o.TemplateParams, i, *o.Count, &obj.Object); err != nil {
			return err
		}
		return retry(ctx, func() error { return e.create(ctx, obj, o.Namespace) })
	})
}

func (e *executor) create(ctx context.Context, obj *unstructured.Unstructured, namespace string) error {
	of, err := e.resource(obj, namespace)
	if err != nil {
		return err
	}
	_, err = of.Create(ctx, obj, metav1.CreateOptions{FieldValidation: strict})
	return err
}

func (o *updateAny) run(ctx context.Context, e *executor, _ int) error {
	if err := e.namespace(ctx, o.Namespace); err != nil {
		return err
	}
	return atRate(ctx, o.UpdatePerSecond, *o.Count, func(i int) error {
		obj := &unstructured.Unstructured{}
		if err := e.templates.render(o.TemplatePath, nil, i, *o.Count, &obj.Object); err != nil {
			return err
		}
		of, err := e.resource(obj, o.Namespace)
		if err != nil {
			return err
		}
		options := metav1.UpdateOptions{FieldValidation: strict}
		if _, err := of.Update(ctx, obj, options, o.Subresources...); err != nil {
			return fmt.Errorf("updating %s: %w", obj.GetName(), err)
		}
		if _, err := of.UpdateStatus(ctx, obj, options); err != nil {
			return fmt.Errorf("updating the status of %s: %w", obj.GetName(), err)
		}
		return nil
	})
}

func (o *createPodGroups) run(ctx context.Context, e *executor, _ int) error {
	if err := e.namespace(ctx, o.Namespace); err != nil {
		return err
	}
	return e.each(ctx, o.Count, func(ctx context.Context, i int) error {
		group := &schedulingv1beta1.PodGroup{}
		if err := e.templates.render(o.TemplatePath, o.TemplateParams, i, o.Count, group); err != nil {
			return err
		}
		return retry(ctx, func() error {
			_, err := e.client.SchedulingV1beta1().PodGroups(o.Namespace).
				Create(ctx, group, metav1.CreateOptions{FieldValidation: strict})
			return err
		})
	})
}

func (o *createResourceClaims) run(ctx context.Context, e *executor, _ int) error {
	if err := e.namespace(ctx, o.Namespace); err != nil {
		return err
	}
	claim := &resourcev1.ResourceClaim{}
	if err := e.templates.plain(o.TemplatePath, claim); err != nil {
		return err
	}
	return e.each(ctx, o.Count, func(ctx context.Context, _ int) error {
		_, err := e.client.ResourceV1().ResourceClaims(o.Namespace).
			Create(ctx, claim.DeepCopy(), metav1.CreateOptions{})
		return err
	})
}

// standardChurn is the interval of churn without one.
const standardChurn = 500 * time.Millisecond

func (o *churn) run(ctx context.Context, e *executor, index int) error {
	namespace := namespaceOf(o.Namespace, index)
	if err := e.namespace(ctx, namespace); err != nil {
		return err
	}
	if o.Namespace == nil {
		delete(e.expected, namespace) // no barrier waits for these pods
	}
	objects := make([]*unstructured.Unstructured, len(o.TemplatePaths))
	for i, path := range o.TemplatePaths {
		objects[i] = &unstructured.Unstructured{}
		if err := e.templates.plain(path, &objects[i].Object); err != nil {
			return err
		}
		if _, err := e.churned(objects[i], namespace); err != nil {
			return err
		}
	}
	interval := time.Duration(o.IntervalMilliseconds) * time.Millisecond
	if interval == 0 {
		interval = standardChurn
	}
	e.behind(ctx, func() error { return o.loop(ctx, e, namespace, interval, objects) })
	return nil
}

// loop creates the objects at each interval. In mode recreate, it deletes them after as many rounds
// as the operation says, and so on.
func (o *churn) loop(ctx context.Context, e *executor, namespace string, interval time.Duration,
	objects []*unstructured.Unstructured) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	rounds := math.MaxInt
	names := make([][]string, len(objects)) // of the last rounds; "" means that there is none
	switch {
	case o.Mode == churnRecreate:
		for i := range names {
			names[i] = make([]string, o.Number)
		}
	case o.Number > 0:
		rounds = o.Number
	}
	for round := range rounds {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for i, obj := range objects {
			last := ""
			if o.Mode == churnRecreate {
				last = names[i][round%o.Number]
			}
			name, err := e.churnOnce(ctx, obj, namespace, last)
			if err != nil {
				return err
			}
			if o.Mode == churnRecreate {
				names[i][round%o.Number] = name
			}
		}
	}
	return nil
}

// churnOnce deletes the object with a name, or creates one if the name is empty. It returns the
// name of the new object. As upstream, it ignores that an object cannot be created.
func (e *executor) churnOnce(ctx context.Context, obj *unstructured.Unstructured, namespace, name string) (string,
	error) {
	of, err := e.churned(obj, namespace)
	if err != nil {
		return "", err
	}
	if name != "" {
		return "", client.IgnoreNotFound(of.Delete(ctx, name, metav1.DeleteOptions{})) // it may have been evicted
	}
	created, err := of.Create(ctx, obj.DeepCopy(), metav1.CreateOptions{})
	if err != nil {
		return "", nil //nolint:nilerr // see above
	}
	return created.GetName(), nil
}

// churned returns the client for an object of churn. Its namespace counts only if the kind has
// namespaces.
func (e *executor) churned(obj *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	if of, err := e.resource(obj, namespace); err == nil {
		return of, nil
	}
	return e.resource(obj, "")
}
