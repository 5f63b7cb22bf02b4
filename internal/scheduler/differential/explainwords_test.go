// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
)

// wordsCases is the number of cases in which the words of explanations are compared with plugins.
const wordsCases = 20

// TestExplanationsSayWhatPluginsRefuse compares explanations with each plugin, which is run on its
// own: for every pod and node, all plugins that refuse are named, and no others, with their own
// messages; and each node is in one group, or fits.
func TestExplanationsSayWhatPluginsRefuse(t *testing.T) {
	p := playCases(t, wordsCases, (*contest).playWithWords)
	for _, kind := range []v1alpha1.RefusalReason{
		v1alpha1.ReasonInsufficientResource, v1alpha1.ReasonUntoleratedTaint, v1alpha1.ReasonCordoned,
		v1alpha1.ReasonNodeAffinityMismatch,
		v1alpha1.ReasonHostPortInUse, v1alpha1.ReasonTopologySpread, v1alpha1.ReasonPodAffinityNotSatisfied,
		v1alpha1.ReasonPodAntiAffinity,
		v1alpha1.ReasonAntiAffinityOfOtherPods, v1alpha1.ReasonClaimNotFound, v1alpha1.ReasonVolumeOnOtherNode,
	} {
		if p.enough && p.total[string(kind)] == 0 {
			t.Errorf("the cases show no refusal with the reason %s", kind)
		}
	}
}

func (c *contest) playWithWords() {
	c.t.Helper()
	c.fill(6+c.IntN(8), 4+c.IntN(10))
	for i := range 10 {
		c.at = fmt.Sprintf("pod %d", i)
		pod := c.newPod().DeepCopy()
		if c.chance(30) {
			c.demandMore(pod)
		}
		c.put(pod)
		want := map[string]map[string]*fwk.Status{}
		for name := range c.nodes {
			want[name] = map[string]*fwk.Status{}
		}
		c.must(c.ours.Cache.UpdateSnapshot(logr.Discard(), c.ours.Snapshot))
		ofPod := map[string]bool{}
		for _, name := range pluginNames(c.ours.Profile) {
			if c.refusalsOf(name, pod, want) {
				ofPod[name] = true
			}
		}
		c.compareWords(pod, want, ofPod)
	}
}

// compareWords compares an explanation with the refusals of plugins by node, and with the plugins
// that refuse the pod itself.
func (c *contest) compareWords(pod *corev1.Pod, want map[string]map[string]*fwk.Status, ofPod map[string]bool) {
	c.t.Helper()
	k := c.fork()
	defer k.Close()
	x, err := explain.Explain(c.ctx, k, explain.Pending{Pod: pod, Now: time.Now(), SuggestFor: time.Nanosecond})
	c.must(err)
	own := c.comparePodRefusals(x, want, ofPod)
	rows, partial := map[string]int{}, 0
	for _, group := range x.Pending.Groups {
		var plugins []string
		for _, refusal := range group.Refusals {
			plugins = append(plugins, refusal.Plugin)
		}
		for _, plugin := range plugins {
			c.equal(plugin+" refuses on "+group.Example, true, want[group.Example][plugin] != nil && !own[plugin])
		}
		if group.Partial {
			partial += int(group.Nodes)
			continue
		}
		rows[strings.Join(slices.Sorted(slices.Values(plugins)), " ")] += int(group.Nodes)
	}
	fits, grouped, only := 0, partial, 0
	left := map[string]int{}
	for name, statuses := range want {
		plugins := slices.DeleteFunc(slices.Sorted(maps.Keys(statuses)),
			func(plugin string) bool { return own[plugin] })
		switch {
		case len(statuses) == 0:
			fits++
		case len(plugins) == 0:
			only++
		default:
			left[strings.Join(plugins, " ")]++
		}
		c.compareNode(pod, name, statuses)
	}
	for plugins, n := range rows {
		grouped += n
		if n > left[plugins] {
			c.fatalf("%d nodes are said to be refused by %s, want at most %d", n, plugins, left[plugins])
		}
	}
	c.equal("nodes", len(want), fits+only+grouped)
	c.equal("feasible nodes", fits, int(x.Feasible))
}

// comparePodRefusals expects the refusals of the pod itself to be those before any node, and those
// of all nodes that are about its claims. It returns their plugins.
func (c *contest) comparePodRefusals(x explain.Explanation, want map[string]map[string]*fwk.Status,
	ofPod map[string]bool) map[string]bool {
	c.t.Helper()
	own := map[string]bool{}
	for _, refusal := range x.Pending.PodRefusals {
		own[refusal.Plugin] = true
		c.count[string(refusal.Reason)]++
		aboutClaims := strings.HasPrefix(string(refusal.Reason), "Cla")
		c.equal(refusal.Plugin+" refuses the pod itself", true, ofPod[refusal.Plugin] || aboutClaims)
		for name, statuses := range want {
			c.equal(refusal.Plugin+" refuses on "+name, true, statuses[refusal.Plugin] != nil)
			c.equal("messages of "+refusal.Plugin, statuses[refusal.Plugin].Reasons(), refusal.Messages)
		}
	}
	for plugin := range ofPod {
		c.equal(plugin+" is said to refuse the pod itself", true, own[plugin])
	}
	return own
}

// compareNode compares the explanation of a pod for one node with the refusals of the plugins.
func (c *contest) compareNode(pod *corev1.Pod, name string, want map[string]*fwk.Status) {
	c.t.Helper()
	k := c.fork()
	defer k.Close()
	x, err := explain.Node(c.ctx, k, pod, name)
	c.must(err)
	c.equal("fits on "+name, len(want) == 0, x.Fits)
	c.equal("refusals on "+name, len(want), len(x.Refusals))
	node, err := c.ours.Snapshot.Get(name)
	c.must(err)
	for _, refusal := range x.Refusals {
		status := want[refusal.Plugin]
		if status == nil {
			c.fatalf("%s does not refuse on %s, but the explanation says: %s", refusal.Plugin, name, refusal.Reason)
		}
		messages := slices.Clone(status.Reasons())
		slices.Sort(messages)
		c.equal("messages of "+refusal.Plugin+" on "+name, messages, refusal.Messages)
		c.equal("resolvable on "+name, status.Code() == fwk.Unschedulable, refusal.Resolvable)
		c.equal("known", true, refusal.Reason != v1alpha1.ReasonRefused)
		c.count[string(refusal.Reason)]++
		c.checkDetail(pod, node, refusal)
	}
}

// checkDetail checks the detail of a refusal about a node.
func (c *contest) checkDetail(pod *corev1.Pod, node fwk.NodeInfo, refusal v1alpha1.Refusal) {
	c.t.Helper()
	if strings.Contains(refusal.Detail, "nominated") {
		c.equal("pods are nominated", true, len(c.ours.Queue.Nominator().NominatedPodsForNode(node.Node().Name)) > 0)
		c.count["nominated"]++
		return
	}
	switch refusal.Reason {
	case v1alpha1.ReasonUntoleratedTaint:
		for _, taint := range node.Node().Spec.Taints {
			if keeps := taint.Effect != corev1.TaintEffectPreferNoSchedule; !keeps {
				c.equal("names "+taint.ToString(), false, strings.Contains(refusal.Detail+",", taint.ToString()+","))
			}
		}
		c.equal("names a taint", true,
			slices.ContainsFunc(node.Node().Spec.Taints,
				func(t corev1.Taint) bool { return strings.Contains(refusal.Detail, t.ToString()) }))
	case v1alpha1.ReasonInsufficientResource:
		c.checkShortage(pod, node, refusal.ShortBy)
	case v1alpha1.ReasonNodeAffinityMismatch:
		c.equal("a detail of "+refusal.Plugin, refusal.Plugin == "NodeAffinity" &&
			!strings.Contains(refusal.Messages[0], "enforced"), refusal.Detail != "")
	case v1alpha1.ReasonHostPortInUse, v1alpha1.ReasonPodAntiAffinity, v1alpha1.ReasonAntiAffinityOfOtherPods:
		c.equal("a detail of "+refusal.Plugin, true, refusal.Detail != "")
	case v1alpha1.ReasonTopologySpread, v1alpha1.ReasonTopologyLabelMissing:
		own := slices.ContainsFunc(pod.Spec.TopologySpreadConstraints,
			func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule })
		c.equal("a detail of "+refusal.Plugin, own, refusal.Detail != "")
	}
}

// checkShortage expects a node to lack exactly what an explanation says.
func (c *contest) checkShortage(pod *corev1.Pod, node fwk.NodeInfo, shortBy []v1alpha1.Shortage) {
	c.t.Helper()
	requests := (&schedframework.PodInfo{Pod: pod}).CalculateResource().Resource
	for _, short := range shortBy {
		if short.Resource != string(corev1.ResourceCPU) {
			continue
		}
		lacks := requests.GetMilliCPU() + node.GetRequested().GetMilliCPU() - node.GetAllocatable().GetMilliCPU()
		c.equal("missing CPU", 0, short.Quantity.Cmp(*resource.NewMilliQuantity(lacks, resource.DecimalSI)))
		c.count["missing CPU"]++
	}
	c.equal("names what is missing", true, len(shortBy) > 0)
}
