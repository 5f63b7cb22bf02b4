// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/livesched/livesched/test/objects"
)

// newFramework builds kube-scheduler's plugins that read NodeInfos and lists, on a snapshot.
func newFramework(t *testing.T, snapshot *Snapshot) schedframework.Framework {
	t.Helper()
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := defaults.Profiles[0]
	profile.Plugins = &schedconfig.Plugins{}
	for _, name := range []string{
		names.PrioritySort, names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
		names.VolumeRestrictions,
		names.PodTopologySpread, names.InterPodAffinity, names.NodeResourcesBalancedAllocation, names.ImageLocality,
		names.DefaultBinder,
	} {
		profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled,
			schedconfig.Plugin{Name: name, Weight: 1})
	}
	client := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}},
		},
	)
	factory := informers.NewSharedInformerFactory(client, 0)
	framework, err := frameworkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return framework
}

// TestConcurrency runs informers that report, binding cycles that confirm and forget, and a
// debugger that reads, while a scheduling loop runs real plugins on the snapshot from several
// goroutines. The race detector finds conflicting accesses; the final contents of the cache show
// whether anything was lost.
func TestConcurrency(t *testing.T) {
	c := &cluster{T: t, Cache: New(), snapshot: NewSnapshot(), bound: make(chan *corev1.Pod, 1000),
		stop: make(chan struct{})}
	for i := range 30 {
		c.AddNode(quiet, c.node(rand.New(rand.NewPCG(0, 0)), i))
	}
	framework := newFramework(t, c.snapshot)
	for _, work := range []func(){c.reportNodes, c.reportPods, c.look} {
		c.workers.Go(work)
	}
	for i := range 300 {
		c.schedule(framework, i)
		if i%3 == 0 {
			c.scheduleGroup(i)
		}
	}
	c.bindings.Wait()
	close(c.stop)
	c.workers.Wait()

	if err := c.UpdateSnapshot(quiet, c.snapshot); err != nil {
		t.Fatal(err)
	}
	fresh := NewSnapshot()
	if err := c.UpdateSnapshot(quiet, fresh); err != nil {
		t.Fatal(err)
	}
	if diff := diffSnapshots(fresh, c.snapshot); diff != "" {
		t.Errorf("the snapshot is not what one made now is:\n%s", diff)
	}
	if c.Size().Pods != len(c.reported) || len(c.Dump().AssumedPods) != 0 {
		t.Errorf("%d pods, %d of them assumed, are in the cache; want the %d that were reported", c.Size().Pods,
			len(c.Dump().AssumedPods), len(c.reported))
	}
	if c.placed == 0 {
		t.Error("no pod was placed")
	}
}

type cluster struct {
	*testing.T
	*Cache
	snapshot *Snapshot
	placed   int
	// bound are the pods on their way to the pod informer.
	bound             chan *corev1.Pod
	stop              chan struct{}
	workers, bindings sync.WaitGroup
	// reported belongs to reportPods until it has ended.
	reported []*corev1.Pod
}

func (c *cluster) node(random *rand.Rand, i int) *corev1.Node {
	return newNode(fmt.Sprintf("n%d", i), fmt.Sprintf("z%d",
		random.IntN(3)), withImages([]string{"i", "j"}[:random.IntN(3)]...), func(n *corev1.Node) {
		if random.IntN(10) == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Message: fmt.Sprint(random.Int())}}
	})
}

// reportNodes is the node informer.
func (c *cluster) reportNodes() {
	random := rand.New(rand.NewPCG(1, 1))
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		node := c.node(random, random.IntN(30))
		if random.IntN(20) > 0 {
			c.UpdateNode(quiet, node, node)
			continue
		}
		if err := c.RemoveNode(quiet, node); err != nil {
			c.Error(err)
		}
		c.AddNode(quiet, node)
	}
}

// reportPods is the pod informer: it reports the bound pods, and changes them.
func (c *cluster) reportPods() {
	random := rand.New(rand.NewPCG(2, 2))
	must := func(err error) {
		if err != nil {
			c.Error(err)
		}
	}
	for {
		select {
		case pod := <-c.bound:
			must(c.AddPod(quiet, pod))
			c.reported = append(c.reported, pod)
			continue
		case <-c.stop:
			for len(c.bound) > 0 {
				pod := <-c.bound
				must(c.AddPod(quiet, pod))
				c.reported = append(c.reported, pod)
			}
			return
		default:
		}
		if len(c.reported) == 0 {
			continue
		}
		i := random.IntN(len(c.reported))
		if random.IntN(200) == 0 {
			must(c.RemovePod(quiet, c.reported[i]))
			c.reported = append(c.reported[:i], c.reported[i+1:]...)
			continue
		}
		edits := []func(*corev1.Pod){running, reported, labelled("a"), labelled("b"), terminating}
		updated := objects.Edited(c.reported[i], edits[random.IntN(len(edits))])
		updated.Status.Conditions = updated.Status.Conditions[:min(1, len(updated.Status.Conditions))]
		must(c.UpdatePod(quiet, c.reported[i], updated))
		c.reported[i] = updated
	}
}

// look is a debugger, and the event handlers that read pods.
func (c *cluster) look() {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		for _, info := range c.Dump().Nodes {
			if len(info.Pods) > 0 {
				if _, err := c.IsAssumedPod(info.Pods[0].GetPod()); err != nil {
					c.Error(err)
				}
			}
		}
		c.recordSize()
	}
}

// schedule is a scheduling cycle with its binding cycle.
func (c *cluster) schedule(framework schedframework.Framework, i int) {
	pod := newPod(fmt.Sprintf("p%d", i), "", labelled([]string{"a", "b"}[i%2]))
	if i%11 == 0 {
		claiming("data")(pod)
	}
	switch i % 5 {
	case 1:
		withAffinity(pod)
	case 2:
		withRequiredAntiAffinity(pod)
	case 3:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}
	}
	if err := c.UpdateSnapshot(quiet, c.snapshot); err != nil {
		c.Fatal(err)
	}
	node := c.decide(framework, pod)
	if node == "" {
		return
	}
	c.placed++
	assumed := *pod
	assumed.Spec.NodeName = node
	if err := c.AssumePod(quiet, infoOf(&assumed)); err != nil {
		c.Fatal(err)
	}
	c.bind(&assumed, i%7 > 0)
}

// bind is a binding cycle, which succeeds or not.
func (c *cluster) bind(assumed *corev1.Pod, succeeds bool) {
	c.bindings.Go(func() {
		if !succeeds {
			if err := c.ForgetPod(quiet, assumed); err != nil {
				c.Error(err)
			}
			return
		}
		c.bound <- objects.Edited(assumed)
	})
}

// scheduleGroup is an attempt at a group of pods, and at a pod that is on a node already. Half of
// the attempts are taken back, and every other pod of the others.
func (c *cluster) scheduleGroup(i int) {
	o, err := c.BeginOverlay(quiet, c.snapshot)
	if err != nil {
		c.Fatal(err)
	}
	nodes, err := c.snapshot.NodeInfos().List()
	if err != nil {
		c.Fatal(err)
	}
	var pods []*corev1.Pod
	for j := range 6 {
		node := nodes[(i+j%2)%len(nodes)]
		if on := node.GetPods(); len(on) > 0 {
			if err := o.Place(on[0], Class{}); !errors.Is(err, ErrKnownPod) {
				c.Errorf("placing a pod where it is: got %v", err)
			}
		}
		pod := newPod(fmt.Sprintf("g%d-%d", i, j), node.Node().Name)
		if err := o.Place(infoOf(pod), Class{}); err != nil {
			c.Fatal(err)
		}
		pods = append(pods, pod)
	}
	if i%2 == 0 {
		if err := o.Commit(); err != nil {
			c.Fatal(err)
		}
		for j, pod := range pods {
			c.bind(pod, j%2 > 0)
		}
	}
	if err := o.Close(); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) decide(framework schedframework.Framework, pod *corev1.Pod) string {
	ctx, state := context.Background(), schedframework.NewCycleState()
	if _, status, _ := framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return ""
	}
	nodes, err := c.snapshot.NodeInfos().List()
	if err != nil {
		c.Fatal(err)
	}
	feasible := make([]bool, len(nodes))
	framework.Parallelizer().Until(ctx, len(nodes), func(i int) {
		feasible[i] = framework.RunFilterPlugins(ctx, state, pod, nodes[i]).IsSuccess()
		c.snapshot.Topo(corev1.LabelTopologyZone)
		if _, err := c.snapshot.HavePodsWithAffinityList(); err != nil {
			c.Error(err)
		}
	}, "Filter")
	var candidates []fwk.NodeInfo
	for i, fits := range feasible {
		if fits {
			candidates = append(candidates, nodes[i])
		}
	}
	if len(candidates) == 0 || !framework.RunPreScorePlugins(ctx, state, pod, candidates).IsSuccess() {
		return ""
	}
	scores, status := framework.RunScorePlugins(ctx, state, pod, candidates)
	if !status.IsSuccess() {
		c.Errorf("scoring: %v", status)
		return ""
	}
	best := 0
	for i := range scores {
		if scores[i].TotalScore > scores[best].TotalScore {
			best = i
		}
	}
	return scores[best].Name
}
