// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster provides the cluster for benchmarks: a control plane on this machine, nodes
// without kubelets, and a watch on the pods.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/controlplane/binaries"
	"github.com/livesched/livesched/test/workload"
)

// SchedulerName is the scheduler name of all pods.
const SchedulerName = "bench"

// QPS is the QPS and burst of all clients. With the schedulers' default of 50, the benchmark would
// measure only that limit.
const QPS = 10000

// workers is the number of concurrent requests that create and delete pods, and bind them without a
// scheduler.
const workers = 16

// Cluster is a control plane with nodes and a watch on its pods.
type Cluster struct {
	*controlplane.ControlPlane
	// Config is the configuration of the benchmark's clients, and Client is one. Both use protobuf.
	Config *rest.Config
	Client kubernetes.Interface
	// Pods is the state that the watch observes.
	Pods *Pods
	// Nodes is the number of nodes.
	Nodes int

	podGroups bool
	stopWatch context.CancelFunc
}

// Start starts a control plane with livesched's custom resources and a number of nodes. The working
// directory must be the root of the repository.
func Start(ctx context.Context, nodes int) (*Cluster, error) {
	return start(ctx, &Cluster{Nodes: nodes})
}

// StartWithPodGroups is Start with an API server that serves the PodGroups of Kubernetes. The nodes
// are those of kube-scheduler's benchmarks of PodGroups: they have 4 CPUs, and the label LabelRack.
func StartWithPodGroups(ctx context.Context, nodes int) (*Cluster, error) {
	return start(ctx, &Cluster{Nodes: nodes, podGroups: true})
}

const (
	// LabelRack is the label of nodes that names their rack.
	LabelRack = "topology.kubernetes.io/rack"
	// NodesPerRack is the number of nodes of a rack.
	NodesPerRack = 100
)

func start(ctx context.Context, c *Cluster) (_ *Cluster, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		Processors: goruntime.GOMAXPROCS(0), WithPodGroups: c.podGroups, Progress: os.Stderr,
	}); err != nil {
		return nil, err
	}
	if err = c.InstallCRDs(ctx, filepath.Join("config", "crd", "bases")); err != nil {
		return nil, err
	}
	c.Config = c.ControlPlane.Config()
	c.Config.ContentType = runtime.ContentTypeProtobuf
	c.Config.QPS, c.Config.Burst = QPS, QPS
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return nil, err
	}
	if err = c.createObjects(ctx); err != nil {
		return nil, err
	}
	return c, c.watch(ctx)
}

func (c *Cluster) createObjects(ctx context.Context) error {
	if _, err := c.Client.CoreV1().Services(workload.Namespace).
		Create(ctx, workload.Service(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the service: %w", err)
	}
	err := Each(ctx, c.Nodes, func(ctx context.Context, i int) error {
		_, err := c.Client.CoreV1().Nodes().Create(ctx, c.node(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating nodes: %w", err)
	}
	return nil
}

// node returns the i-th node.
func (c *Cluster) node(i int) *corev1.Node {
	node := workload.Node(i)
	if c.podGroups {
		node.Labels[LabelRack] = RackOf(i)
		for _, room := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			room[corev1.ResourceCPU] = resource.MustParse("4")
		}
	}
	return node
}

// RackOf returns the rack of the i-th node of a cluster with PodGroups.
func RackOf(i int) string { return fmt.Sprintf("rack-%d", i/NodesPerRack) }

// Close ends the watch and the control plane.
func (c *Cluster) Close() error {
	if c.stopWatch != nil {
		c.stopWatch()
	}
	if c.ControlPlane == nil {
		return nil
	}
	return c.Stop()
}

// Create creates a pod.
func (c *Cluster) Create(ctx context.Context, pod *corev1.Pod) error {
	_, err := c.Client.CoreV1().Pods(workload.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// Bind binds a pod to a node.
func (c *Cluster) Bind(ctx context.Context, pod *corev1.Pod, node string) error {
	return c.Client.CoreV1().Pods(workload.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: workload.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// Delete deletes a pod without a grace period, because there is no kubelet to terminate it.
func (c *Cluster) Delete(ctx context.Context, name string) error {
	return c.Client.CoreV1().Pods(workload.Namespace).Delete(ctx, name, atOnce)
}

// DeletePods deletes all pods and waits until the watch has seen that.
func (c *Cluster) DeletePods(ctx context.Context) error {
	// The API server limits a request to one minute, which thousands of pods may exceed. Then it
	// returns an error or ends the stream.
	for tries := 1; ; tries++ {
		err := c.Client.CoreV1().Pods(workload.Namespace).DeleteCollection(ctx, atOnce, metav1.ListOptions{})
		if err == nil {
			break
		}
		var refused apierrors.APIStatus
		if errors.As(err, &refused) && !apierrors.IsTimeout(err) || ctx.Err() != nil || tries == maxDeleteTries {
			return fmt.Errorf("deleting the pods: %w", err)
		}
	}
	return c.Pods.Wait(ctx, func(p *Pods) bool { return p.Known == 0 })
}

// maxDeleteTries is enough for a million pods.
const maxDeleteTries = 20

var atOnce = metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}

// CPU returns the CPU time that etcd and the API server have used so far.
func (c *Cluster) CPU() (time.Duration, error) {
	var sum time.Duration
	for _, name := range []string{binaries.Etcd, binaries.APIServer} {
		pid, err := c.PID(name)
		if err != nil {
			return sum, err
		}
		usage, err := UsageOf(pid)
		if err != nil {
			return sum, err
		}
		sum += usage.CPU
	}
	return sum, nil
}

// Each calls fn for 0..n-1, with several concurrent calls, until one fails.
func Each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		if running.Err() != nil {
			break // a call has failed, or ctx has ended
		}
		group.Go(func() error { return fn(running, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
