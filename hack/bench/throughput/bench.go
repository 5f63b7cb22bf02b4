// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/controlplane"
	"github.com/livesched/livesched/internal/controlplane/binaries"
)

// schedulerName is the name that all pods ask for, whoever schedules them.
const schedulerName = "throughput"

// workers is how many requests at a time make and bind pods.
const workers = 16

// bench is a control plane with nodes and a watch on its pods.
type bench struct {
	options
	dir          string
	controlPlane *controlplane.ControlPlane
	config       *rest.Config
	client       kubernetes.Interface
	binaries     binaries.Set
	pods         *watchedPods
	stopWatch    context.CancelFunc
}

func newBench(ctx context.Context, o options) (_ *bench, err error) {
	if podOf(o.workload, 0) == nil {
		return nil, fmt.Errorf("workload %q: it must be basic, spread or anti", o.workload)
	}
	b := &bench{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "livesched-throughput-"); err != nil {
		return nil, err
	}
	if o.reloads == 0 {
		if b.binaries, err = binaries.Ensure(ctx, binaries.Config{Progress: os.Stderr}, binaries.Scheduler); err != nil {
			return nil, err
		}
	}
	if b.controlPlane, err = controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr}); err != nil {
		return nil, err
	}
	if err = b.controlPlane.InstallCRDs(ctx, filepath.Join("config", "crd", "bases")); err != nil {
		return nil, err
	}
	b.config = b.controlPlane.Config()
	b.config.ContentType = runtime.ContentTypeProtobuf
	b.config.QPS, b.config.Burst = 10000, 10000
	if b.client, err = kubernetes.NewForConfig(b.config); err != nil {
		return nil, err
	}
	if err = b.createNodes(ctx); err != nil {
		return nil, err
	}
	return b, b.watch(ctx)
}

// createNodes makes equal nodes of 8 CPUs and 32 GiB in three zones.
func (b *bench) createNodes(ctx context.Context) error {
	return b.each(ctx, b.nodes, func(ctx context.Context, i int) error {
		node := controlplane.Node(3 + i%3) // its middle size; name and hostname are our own
		node.Name = nodeName(i)
		node.Labels[corev1.LabelHostname] = node.Name
		_, err := b.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// each calls fn for 0..n-1, several at a time.
func (b *bench) each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() error { return fn(ctx, i) })
	}
	return group.Wait()
}

// createPods makes the backlog.
func (b *bench) createPods(ctx context.Context) error {
	return b.each(ctx, b.options.pods, func(ctx context.Context, i int) error {
		_, err := b.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, podOf(b.workload, i), metav1.CreateOptions{})
		return err
	})
}

// deletePods removes all pods at once.
func (b *bench) deletePods(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	for {
		// The API server gives one request a minute, which thousands of pods may need more of.
		err := b.client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, now, metav1.ListOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsTimeout(err) || ctx.Err() != nil {
			return err
		}
	}
	return b.pods.wait(ctx, func(p *watchedPods) bool { return p.known == 0 })
}

func (b *bench) close() error {
	if b.stopWatch != nil {
		b.stopWatch()
	}
	var errs []error
	if b.controlPlane != nil {
		errs = append(errs, b.controlPlane.Stop())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// watchedPods is what the watch has seen of the present backlog. Written by the informer's goroutine.
type watchedPods struct {
	mu          sync.Mutex // guards what follows
	changed     *sync.Cond
	known       int
	bound       int
	first, last time.Time
	perNode     map[string]int
}

// watch counts pods as they come, are bound and go.
func (b *bench) watch(ctx context.Context) error {
	p := &watchedPods{perNode: map[string]int{}}
	p.changed = sync.NewCond(&p.mu)
	b.pods = p
	factory := informers.NewSharedInformerFactory(b.client, 0)
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.update(1, nil, obj.(*corev1.Pod)) },
		UpdateFunc: func(o, n any) { p.update(0, o.(*corev1.Pod), n.(*corev1.Pod)) },
		DeleteFunc: func(any) { p.update(-1, nil, nil) },
	})
	if err != nil {
		return err
	}
	ctx, b.stopWatch = context.WithCancel(ctx)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

func (p *watchedPods) update(delta int, before, after *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known += delta
	if after != nil && after.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == "") {
		p.bound++
		p.last = time.Now()
		if p.bound == 1 {
			p.first = p.last
		}
		p.perNode[after.Spec.NodeName]++
	}
	p.changed.Broadcast()
}

// reset begins a new count of bound pods.
func (p *watchedPods) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound, p.first, p.last, p.perNode = 0, time.Time{}, time.Time{}, map[string]int{}
}

// wait blocks until done says so, or ctx ends.
func (p *watchedPods) wait(ctx context.Context, done func(*watchedPods) bool) error {
	stop := context.AfterFunc(ctx, p.changed.Broadcast)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !done(p) {
		if ctx.Err() != nil {
			return fmt.Errorf("%d pods known, %d bound: %w", p.known, p.bound, context.Cause(ctx))
		}
		p.changed.Wait()
	}
	return nil
}
