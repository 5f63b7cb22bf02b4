// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testcluster gives test suites a real API server and runs livesched's manager against it,
// in the test's own process. Tests observe the behavior of a real cluster, and the race detector
// and the goroutine count include the manager.
//
// Unless a suite requests more (StartWith), there is no kube-controller-manager and no kubelet: the
// test creates pods, and bound pods stay as they are.
package testcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/controlplane"
)

// Cluster is an API server with livesched's custom resources installed.
type Cluster struct {
	// Config is a configuration for clients with all rights.
	Config *rest.Config
	// Client reads and writes without a cache.
	Client client.Client

	controlPlane *controlplane.ControlPlane
}

// Start starts etcd and kube-apiserver and installs the custom resources.
func Start(ctx context.Context) (*Cluster, error) {
	return StartWith(ctx, controlplane.Options{Progress: os.Stderr})
}

// StartWith is Start with the control plane that the options describe.
func StartWith(ctx context.Context, o controlplane.Options) (*Cluster, error) {
	cp, err := controlplane.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Config: cp.Config(), controlPlane: cp}
	if err := c.install(ctx); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return c, nil
}

func (c *Cluster) install(ctx context.Context) error {
	if err := c.controlPlane.InstallCRDs(ctx, filepath.Join(Root(), "config", "crd", "bases")); err != nil {
		return err
	}
	scheme, err := app.NewScheme()
	if err != nil {
		return err
	}
	c.Client, err = client.New(c.Config, client.Options{Scheme: scheme})
	return err
}

// InstallPodGroups installs the custom resource PodGroup of scheduler-plugins.
func (c *Cluster) InstallPodGroups(ctx context.Context) error {
	return c.controlPlane.InstallCRDs(ctx, filepath.Join(Root(), "config", "podgroup"))
}

// Stop ends the control plane.
func (c *Cluster) Stop() error { return c.controlPlane.Stop() }

// Clear deletes the objects of a test: all profiles and policies with their revisions, which no
// garbage collector deletes, the pods of the namespace default, nodes, and leases.
func (c *Cluster) Clear(ctx context.Context) error {
	return errors.Join(
		c.Client.DeleteAllOf(ctx, &v1alpha1.SchedulerProfile{}),
		c.Client.DeleteAllOf(ctx, &v1alpha1.SchedulingPolicy{}),
		c.Client.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(metav1.NamespaceDefault),
			client.HasLabels{history.LabelKind}),
		c.ClearPlaces(ctx),
		c.Client.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(metav1.NamespaceDefault)),
	)
}

// ClearPlaces deletes all pods of the namespace default, and then the nodes.
func (c *Cluster) ClearPlaces(ctx context.Context) error {
	return errors.Join(
		c.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault),
			client.GracePeriodSeconds(0)),
		c.Client.DeleteAllOf(ctx, &corev1.Node{}),
	)
}

// Kubeconfig returns the path of a kubeconfig file with all rights.
func (c *Cluster) Kubeconfig() string { return c.controlPlane.Kubeconfig() }

// KubeconfigAs writes a kubeconfig file with the rights of another user; see
// controlplane.ControlPlane.
func (c *Cluster) KubeconfigAs(user string, groups ...string) (string, error) {
	return c.controlPlane.KubeconfigAs(user, groups...)
}

// Suspend keeps a component from running; see controlplane.ControlPlane.
func (c *Cluster) Suspend(name string) (resume func() error, err error) {
	return c.controlPlane.Suspend(name)
}

// End ends a component; see controlplane.ControlPlane.
func (c *Cluster) End(name string, kill bool) (restart func(context.Context) error, err error) {
	return c.controlPlane.End(name, kill)
}

// Root returns the directory of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Running is a manager that runs in this process.
type Running struct {
	*app.Manager
	cancel context.CancelFunc
	done   chan struct{} // closed when the manager has ended
	err    error         // its result; readable once done is closed
}

// Options returns the options of a manager that runs in a test: no ports, no leader election.
// LIVESCHED_TEST_FAST_PATH sets --fast-path, so that suites can be run on either path, or on both.
func Options() *app.Options {
	o := app.NewOptions()
	if mode := os.Getenv("LIVESCHED_TEST_FAST_PATH"); mode != "" {
		o.FastPath = mode
	}
	o.Secure.Port, o.MetricsBindAddress, o.HealthProbeBindAddress = 0, "0", "0"
	o.LeaderElect = false
	o.ExtenderAllowedHosts = []string{resolve.AllHosts} // those of tests are at http://127.0.0.1
	return o
}

// Run starts a manager with options, usually those of Options. It does not wait until the manager
// is ready.
func (c *Cluster) Run(ctx context.Context, logger klog.Logger, o *app.Options) (*Running, error) {
	return RunFor(ctx, logger, c.Config, o)
}

// RunFor is Run with another client configuration for the API server.
func RunFor(ctx context.Context, logger klog.Logger, config *rest.Config, o *app.Options) (*Running, error) {
	mgr, err := app.NewManager(config, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	r := &Running{Manager: mgr, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = mgr.Start(ctx)
	}()
	return r, nil
}

// Parts returns the parts of the scheduler. It panics before the scheduler is ready.
func (r *Running) Parts() *scheduler.Parts {
	p, err := r.Scheduler.Parts()
	if err != nil {
		panic(err)
	}
	return p
}

// Done returns a channel that is closed when the manager has ended, by itself or by Stop.
func (r *Running) Done() <-chan struct{} { return r.done }

// Stop ends the manager and returns its error. It may be called again.
func (r *Running) Stop(timeout time.Duration) error {
	r.cancel()
	select {
	case <-r.done:
		return r.err
	case <-time.After(timeout):
		return fmt.Errorf("the manager did not end within %v", timeout)
	}
}
