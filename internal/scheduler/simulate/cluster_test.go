// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// cluster is a scheduler with nodes and pods.
type cluster struct {
	testing.TB
	objects sidebyside.Objects
	*sidebyside.Livesched
}

func newCluster(t testing.TB, path sidebyside.Path) *cluster {
	t.Helper()
	return newClusterOf(t, path, sidebyside.NewObjects())
}

func newClusterOf(t testing.TB, path sidebyside.Path, stores sidebyside.Objects) *cluster {
	t.Helper()
	c := &cluster{TB: t, objects: stores}
	var err error
	c.Livesched, err = sidebyside.NewLivesched(t.Context(), c.objects, &sidebyside.Configuration{
		Profile: configv1.KubeSchedulerProfile{SchedulerName: ptr.To("mine")}, Parallelism: 4,
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
func (c *cluster) node(name, zone, pool string) {
	c.Helper()
	node := objects.Node(name, "8", "16Gi", map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: zone, "karpenter.sh/nodepool": pool,
	})
	c.must(c.objects.Put(node))
	c.Cache.AddNode(logr.Discard(), node)
}

// pod returns a pod of a Deployment. Pods are created one second after the other.
func pod(app string, number int, cpu, memory string) *corev1.Pod {
	p := objects.Pod("default", fmt.Sprintf("%s-abc-%d", app, number), "mine", cpu, memory)
	p.UID = types.UID(p.Name)
	p.CreationTimestamp = metav1.Unix(int64(1700000000+number), 0)
	p.Labels = map[string]string{"app": app, appsv1.DefaultDeploymentUniqueLabelKey: "abc"}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app + "-abc", UID: types.UID(app),
		Controller: ptr.To(true)}}
	return p
}

// run puts a pod on a node.
func (c *cluster) run(p *corev1.Pod, node string) *corev1.Pod {
	c.Helper()
	p = p.DeepCopy()
	p.Spec.NodeName = node
	c.must(c.objects.Put(p))
	c.must(c.Cache.AddPod(logr.Discard(), p))
	return p
}

// fork returns a fork, which ends with the test.
func (c *cluster) fork() *fork.Fork {
	c.Helper()
	k, err := c.Forker.Fork(c.Context())
	c.must(err)
	c.Cleanup(k.Close)
	return k
}

// all selects all pods.
func all() simulate.Selection {
	return simulate.Selection{Type: v1alpha1.PodsAll, Limit: simulate.MaxPods, Labels: labels.Everything()}
}

// simulate makes a simulation.
func (c *cluster) simulate(r simulate.Request) *v1alpha1.SimulationStatus {
	c.Helper()
	status, err := simulate.Run(c.Context(), c.fork(), r)
	c.must(err)
	return status
}

// resolve returns the profile "mine" with a spec.
func resolved(t testing.TB, spec string) *resolve.Profile {
	t.Helper()
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	resolution := resolve.Objects(resolve.Input{
		Profiles: []v1alpha1.SchedulerProfile{*objects.Profile("mine", spec)}, Registered: sets.KeySet(registry),
	})
	if result := resolution.ProfileResults["mine"]; !result.Accepted {
		t.Fatal(result.Message)
	}
	return resolution.Profiles["mine"]
}

// binpack prefers nodes that are full.
const binpack = `{"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]}},
  "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}`

// fill adds nodes in three zones, and random pods that the scheduler places. It returns those that
// fit nowhere.
func (c *cluster) fill(random *rand.Rand, nodes, pods int) (pending []*corev1.Pod) {
	c.Helper()
	for i := range nodes {
		c.node(fmt.Sprintf("n%03d", i), fmt.Sprintf("z%d", i%3), fmt.Sprintf("pool-%d", i%2))
	}
	for i := range pods {
		p := randomPod(random, i)
		if d := c.Decide(p); d.Host != "" {
			c.run(p, d.Host)
			continue
		}
		c.must(c.objects.Put(p))
		pending = append(pending, p)
	}
	return pending
}

// randomPod returns a pod of one of some Deployments, which spread, repel or attract each other.
func randomPod(random *rand.Rand, number int) *corev1.Pod {
	app := fmt.Sprintf("app-%d", random.IntN(6))
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	p := pod(app, number, []string{"100m", "500m", "2"}[random.IntN(3)], []string{"100Mi", "1Gi"}[random.IntN(2)])
	switch app {
	case "app-1":
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: selector,
		}}
	case "app-2":
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: selector}},
		}}
	case "app-3":
		p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": "pool-1"}
	case "app-4":
		p.Spec.Priority = ptr.To(int32(random.IntN(3)))
	}
	return p
}
