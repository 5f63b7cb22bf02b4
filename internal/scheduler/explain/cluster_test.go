// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// cluster is a scheduler with nodes and pods.
type cluster struct {
	testing.TB
	objects sidebyside.Objects
	*sidebyside.Livesched
}

func newCluster(t testing.TB) *cluster { return newClusterOn(t, sidebyside.ScalarPath) }

func newClusterOn(t testing.TB, path sidebyside.Path) *cluster {
	t.Helper()
	c := &cluster{TB: t, objects: sidebyside.NewObjects()}
	var err error
	c.Livesched, err = sidebyside.NewLivesched(t.Context(), c.objects, &sidebyside.Configuration{
		Profile: configv1.KubeSchedulerProfile{SchedulerName: ptr.To("mine")}, Parallelism: 16,
	}, path, nil)
	c.must(err)
	t.Cleanup(c.Livesched.Close)
	return c
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// node adds a node of a pool.
func (c *cluster) node(name, pool, cpu, memory string, changes ...func(*corev1.Node)) *corev1.Node {
	c.Helper()
	node := objects.Node(name, cpu, memory,
		map[string]string{corev1.LabelHostname: name, "karpenter.sh/nodepool": pool})
	for _, change := range changes {
		change(node)
	}
	c.must(c.objects.Put(node))
	c.Cache.AddNode(logr.Discard(), node)
	return node
}

func gpus(n string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Capacity["nvidia.com/gpu"], node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(n),
			resource.MustParse(n)
	}
}

func tainted(key string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func pod(name, cpu, memory string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := objects.Pod("default", name, "mine", cpu, memory)
	p.UID = types.UID(name)
	for _, change := range changes {
		change(p)
	}
	return p
}

func usingGPUs(n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse(n)
	}
}

// run puts a pod on a node.
func (c *cluster) run(p *corev1.Pod, node string) *corev1.Pod {
	c.Helper()
	p.Spec.NodeName = node
	c.must(c.objects.Put(p))
	c.must(c.Cache.AddPod(logr.Discard(), p))
	return p
}

// explain explains a pod.
func (c *cluster) explain(in explain.Pending) explain.Explanation {
	c.Helper()
	k, err := c.Forker.Fork(c.Context())
	c.must(err)
	defer k.Close()
	if in.Now.IsZero() {
		in.Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	in.SuggestFor = time.Minute
	x, err := explain.Explain(c.Context(), k, in)
	c.must(err)
	return x
}
