// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// podWorkers is the number of requests at a time that create pods.
	podWorkers = 30
	// pollInterval is the time between the checks of a barrier.
	pollInterval = time.Second
)

func (o *createPods) run(ctx context.Context, e *executor, index int) error {
	namespace := namespaceOf(o.Namespace, index)
	if err := e.namespace(ctx, namespace); err != nil {
		return err
	}
	if o.CollectMetrics {
		if err := e.collect(namespace, []string{namespace}, nil); err != nil {
			return err
		}
	}
	create, err := o.maker(e, namespace)
	if err != nil {
		return err
	}
	if o.SteadyState {
		err = o.steadily(ctx, e, namespace, create)
	} else {
		err = o.rapidly(ctx, e, namespace, create)
	}
	if err != nil || !o.CollectMetrics {
		return err
	}
	return e.stopCollecting()
}

func (o *createPodSets) run(ctx context.Context, e *executor, index int) error {
	for _, pods := range unroll(o) {
		if err := pods.run(ctx, e, index); err != nil {
			return err
		}
	}
	return nil
}

// rapidly creates all pods, and waits until they are scheduled unless the operation does not.
func (o *createPods) rapidly(ctx context.Context, e *executor, namespace string, create maker) error {
	if err := create(ctx, o.Count); err != nil {
		return err
	}
	if o.SkipWaitToCompletion {
		e.expected[namespace] += o.Count
		return nil
	}
	return e.await(ctx, namespace, o.Count, nil, scheduled)
}

// steadily keeps a number of pods waiting for a while: it deletes each pod that is scheduled, and
// creates another.
func (o *createPods) steadily(ctx context.Context, e *executor, namespace string, create maker) error {
	bound := newQueue[string]()
	handle, err := e.onBound(func(pod *corev1.Pod) {
		if pod.Namespace == namespace {
			bound.add(pod.Name)
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = e.pods.RemoveEventHandler(handle) }()
	during, cancel := context.WithTimeout(ctx, o.Duration.Duration)
	defer cancel()
	if err := create(ctx, o.Count); err != nil {
		return err
	}
	for n := 0; ; n++ {
		name, err := bound.take(during)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil { // the time is over
			if n == 0 {
				return errors.New("no pod was scheduled")
			}
			return nil
		}
		background := metav1.DeletePropagationBackground
		now := int64(0)
		err = e.client.CoreV1().Pods(namespace).Delete(ctx, name,
			metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background})
		if err == nil {
			err = create(ctx, 1)
		}
		if err != nil {
			return err
		}
	}
}

// maker creates a number of pods.
type maker func(ctx context.Context, n int) error

// maker returns a function that creates pods of the operation, with their volumes.
func (o *createPods) maker(e *executor, namespace string) (maker, error) {
	volumes, err := o.volumes(e)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, n int) error {
		group, running := errgroup.WithContext(ctx)
		group.SetLimit(podWorkers)
		for i := range n {
			if running.Err() != nil {
				break
			}
			group.Go(func() error {
				pod, err := o.pod(e, i, n)
				if err != nil {
					return err
				}
				if volumes != nil {
					if err := volumes.create(running, e, namespace, i, pod); err != nil {
						return err
					}
				}
				return retry(running, func() error {
					_, err := e.client.CoreV1().Pods(namespace).Create(running, pod.DeepCopy(), metav1.CreateOptions{})
					return err
				})
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		return context.Cause(ctx)
	}, nil
}

// template returns the path of the pods' template, or "" for the standard pod.
func (o *createPods) template(of *testCase) string {
	switch {
	case o.PodTemplatePath != nil:
		return *o.PodTemplatePath
	case of.DefaultPodTemplatePath != nil:
		return *of.DefaultPodTemplatePath
	}
	return ""
}

// pod returns the i-th of n pods.
func (o *createPods) pod(e *executor, i, n int) (*corev1.Pod, error) {
	path := o.template(e.of)
	if path == "" {
		return standardPod(), nil
	}
	pod := &corev1.Pod{}
	if err := e.templates.render(path, o.TemplateParams, i, n, pod); err != nil {
		return nil, err
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["signature"] = fmt.Sprintf("signature-label-%d", i/o.SignatureBatchSize)
	return pod, nil
}

func (o *deletePods) run(ctx context.Context, e *executor, _ int) error {
	selector := labels.SelectorFromValidatedSet(o.LabelSelector)
	var names []string
	for _, pod := range e.podsOf([]string{o.Namespace}, o.LabelSelector) {
		names = append(names, pod.Name)
	}
	remove := func() error {
		if o.DeletePodsPerSecond == 0 {
			return e.client.CoreV1().Pods(o.Namespace).
				DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector.String()})
		}
		return atRate(ctx, o.DeletePodsPerSecond, len(names), func(i int) error {
			err := e.client.CoreV1().Pods(o.Namespace).Delete(ctx, names[i], metav1.DeleteOptions{})
			return client.IgnoreNotFound(err)
		})
	}
	if o.SkipWaitToCompletion {
		e.behind(ctx, remove)
		return nil
	}
	return remove()
}

func (o *barrier) run(ctx context.Context, e *executor, _ int) error {
	namespaces := o.Namespaces
	if len(namespaces) == 0 {
		namespaces = slices.Collect(maps.Keys(e.expected))
	}
	stage := o.StageRequirement
	if stage == "" {
		stage = scheduled
	}
	for _, namespace := range namespaces {
		count, ok := e.expected[namespace]
		if !ok {
			return fmt.Errorf("there is no namespace %s", namespace)
		}
		if err := e.await(ctx, namespace, count, o.LabelSelector, stage); err != nil {
			return err
		}
		if stage == scheduled {
			delete(e.expected, namespace) // none of its pods waits
		}
	}
	return nil
}

func (o *sleep) run(ctx context.Context, _ *executor, _ int) error {
	pause(ctx, o.Duration.Duration)
	return nil
}

// await waits until a number of pods of a namespace has reached a stage.
func (e *executor) await(ctx context.Context, namespace string, count int, selector map[string]string,
	stage string) error {
	reached := 0
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		reached = 0
		for _, pod := range e.podsOf([]string{namespace}, selector) {
			if pod.Spec.NodeName != "" || stage == attempted && wasAttempted(pod) {
				reached++
			}
		}
		return reached >= count, e.failed()
	})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%d of %d pods in namespace %s are %s: %w", reached, count, namespace, stage, err)
	}
	return nil
}

// wasAttempted reports whether a scheduler, or the API server for a gated pod, has written that the
// pod is not scheduled.
func wasAttempted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// podsOf returns the pods of namespaces that have the labels of a selector.
func (e *executor) podsOf(namespaces []string, selector map[string]string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, namespace := range namespaces {
		found, _ := e.pods.GetIndexer().ByIndex(cache.NamespaceIndex, namespace) // the index exists
		for _, obj := range found {
			if pod := obj.(*corev1.Pod); hasLabels(pod, selector) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

func hasLabels(pod *corev1.Pod, selector map[string]string) bool {
	for key, value := range selector {
		if own, ok := pod.Labels[key]; !ok || own != value {
			return false
		}
	}
	return true
}

// onBound calls a function with each pod that gets a node, or that has one already when the watch
// first sees it.
func (e *executor) onBound(call func(*corev1.Pod)) (cache.ResourceEventHandlerRegistration, error) {
	return e.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod := obj.(*corev1.Pod); pod.Spec.NodeName != "" {
				call(pod)
			}
		},
		UpdateFunc: func(before, after any) {
			if pod := after.(*corev1.Pod); pod.Spec.NodeName != "" && before.(*corev1.Pod).Spec.NodeName == "" {
				call(pod)
			}
		},
	})
}
