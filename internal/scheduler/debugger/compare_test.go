// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestCompareFindsEachDifference(t *testing.T) {
	podDiffers := func(kind Kind, name, detail string) []Difference {
		return []Difference{{Kind: kind, Object: "ns/" + name, UID: types.UID(name), Detail: detail}}
	}
	nodeDiffers := func(kind Kind, name, detail string) []Difference {
		return []Difference{{Kind: kind, Object: name, Detail: detail}}
	}
	for name, test := range map[string]struct {
		change func(w *world)
		want   []Difference
	}{
		"none if everything matches": {change: func(*world) {}},
		"none in fields that the scheduler ignores": {change: func(w *world) {
			w.nodes["n1"] = w.nodes["n1"].DeepCopy()
			w.nodes["n1"].Annotations = map[string]string{"a": "b"}
			w.nodes["n1"].ResourceVersion = "2"
			w.change("bound", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
		}},
		"none in the nomination of a terminating pod": {change: func(w *world) {
			w.change("waiting", nominated("n2"))
			w.change("waiting", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
		}},
		"none in a resource that is not requested": {change: func(w *world) {
			w.change("bound", requesting("example.com/thing", "0"))
		}},
		"none in pods on a node that is gone": {change: func(w *world) {
			delete(w.nodes, "n1")
			w.must(w.cache.RemoveNode(quiet, newNode("n1")))
		}},

		"none in a pod that is on its node, and queued for its resize": {change: func(w *world) {
			w.change("bound", deferred)
			w.queue.Add(quiet, w.pods["bound"])
		}},
		"a resize that the queue lacks": {
			change: func(w *world) { w.change("bound", deferred) },
			want: podDiffers(QueueMissing, "bound",
				`its resize is deferred and it asks for scheduler "served", but is neither queued nor under way`),
		},
		"a resize that is over": {
			change: func(w *world) {
				pod := newPod("bound", "n1")
				deferred(pod)
				w.queue.Add(quiet, pod)
			},
			want: podDiffers(QueueRedundant, "bound", "it is Active in the queue, the API server has it on node n1"),
		},

		"none in the devices of claims": {change: func(w *world) {
			w.claimed, w.taken = []string{"d", "d"}, []string{"d", "d"}
		}},
		"a device that plugins take for free": {
			change: func(w *world) { w.claimed = []string{"d"} },
			want: nodeDiffers(DeviceDiffers, "driver/pool/d",
				"claims that have it: 1 in the API server, 0 for plugins"),
		},
		"a device that two claims have": {
			change: func(w *world) { w.claimed, w.taken = []string{"d", "d"}, []string{"d"} },
			want: nodeDiffers(DeviceDiffers, "driver/pool/d",
				"claims that have it: 2 in the API server, 1 for plugins"),
		},
		"a device that no claim has": {
			change: func(w *world) { w.taken = []string{"d"} },
			want: nodeDiffers(DeviceDiffers, "driver/pool/d",
				"claims that have it: 0 in the API server, 1 for plugins"),
		},

		"a node that the cache lacks": {
			change: func(w *world) { w.nodes["n3"] = newNode("n3") },
			want:   nodeDiffers(NodeMissing, "n3", "the API server has the node, the cache has not"),
		},
		"a node that the cache only has pods of": {
			change: func(w *world) { w.must(w.cache.RemoveNode(quiet, w.nodes["n1"])) },
			want:   nodeDiffers(NodeMissing, "n1", "the API server has the node, the cache has not"),
		},
		"a node that is gone": {
			change: func(w *world) { w.cache.AddNode(quiet, newNode("n3")) },
			want:   nodeDiffers(NodeRedundant, "n3", "the cache has the node, the API server has not"),
		},
		"labels": {
			change: func(w *world) {
				w.nodes["n1"] = newNode("n1")
				w.nodes["n1"].Labels["zone"] = "z"
			},
			want: nodeDiffers(NodeDiffers, "n1",
				"labels: the API server has map[name:n1 zone:z], the cache map[name:n1]"),
		},
		"taints": {
			change: func(w *world) {
				w.nodes["n1"] = newNode("n1")
				w.nodes["n1"].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			},
			want: nodeDiffers(NodeDiffers, "n1", "taints: the API server has [{k  NoSchedule <nil>}], the cache []"),
		},
		"a node that was cordoned": {
			change: func(w *world) {
				w.nodes["n1"] = newNode("n1")
				w.nodes["n1"].Spec.Unschedulable = true
			},
			want: nodeDiffers(NodeDiffers, "n1", "unschedulable: the API server has true, the cache false"),
		},
		"allocatable": {
			change: func(w *world) {
				w.nodes["n1"] = newNode("n1")
				w.nodes["n1"].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("3500m")
			},
			want: nodeDiffers(NodeDiffers, "n1",
				"allocatable: the API server has cpu=3500m memory=8Gi, the cache cpu=4 memory=8Gi"),
		},

		"a bound pod that the cache lacks": {
			change: func(w *world) { w.exists(newPod("new", "n1")) },
			want:   podDiffers(PodMissing, "new", "the API server has it on node n1, the cache on none"),
		},
		"a bound pod that is gone": {
			change: func(w *world) { delete(w.pods, "bound") },
			want:   podDiffers(PodRedundant, "bound", "the cache has it on node n1, the API server does not have it"),
		},
		"a bound pod that has ended": {
			change: func(w *world) { w.change("bound", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }) },
			want:   podDiffers(PodRedundant, "bound", "the cache has it on node n1, the API server does not have it"),
		},
		"an assumed pod that is gone": {
			change: func(w *world) { delete(w.pods, "assumed") },
			want: podDiffers(PodRedundant, "assumed",
				"the cache assumes it on node n2, the API server does not have it"),
		},
		"a pod that counts as bound and is not": {
			change: func(w *world) { w.change("bound", on("")) },
			want:   podDiffers(PodRedundant, "bound", "the cache has it on node n1, for the API server it is on none"),
		},
		"a pod on another node": {
			change: func(w *world) { w.change("bound", on("n2")) },
			want:   podDiffers(PodMisplaced, "bound", "the API server has it on node n2, the cache on n1"),
		},
		"an assumed pod that was bound elsewhere": {
			change: func(w *world) { w.change("assumed", on("n1")) },
			want:   podDiffers(PodMisplaced, "assumed", "the API server has it on node n1, the cache on n2"),
		},
		"an assumed pod that was bound": {
			change: func(w *world) { w.change("assumed", on("n2")) },
			want:   podDiffers(PodUnconfirmed, "assumed", "it is bound to node n2, and still assumed there"),
		},
		"a pod that was resized": {
			change: func(w *world) { w.change("bound", requesting(corev1.ResourceCPU, "1500m")) },
			want: podDiffers(PodRequests, "bound",
				"it asks for cpu=1500m memory=1Gi, the cache counts it for cpu=100m memory=1Gi"),
		},
		"a pod with a resource that the cache does not know of": {
			change: func(w *world) { w.change("bound", requesting("example.com/thing", "2")) },
			want: podDiffers(PodRequests, "bound",
				"it asks for cpu=100m memory=1Gi example.com/thing=2, the cache counts it for cpu=100m memory=1Gi"),
		},

		"a pod without a profile": {
			change: func(w *world) { w.exists(newPod("lost", "")) },
			want: podDiffers(QueueMissing, "lost",
				`it has no node and asks for scheduler "served", but is neither queued nor under way`),
		},
		"a queued pod that is gone": {
			change: func(w *world) { delete(w.pods, "waiting") },
			want:   podDiffers(QueueRedundant, "waiting", "it is Active in the queue, the API server does not have it"),
		},
		"a pod in flight that is gone": {
			change: func(w *world) { delete(w.pods, "flying") },
			want: podDiffers(QueueRedundant, "flying",
				"it is InFlight in the queue, the API server does not have it"),
		},
		"a queued pod that was bound": {
			change: func(w *world) {
				w.change("failed", on("n1"))
				w.must(w.cache.AddPod(quiet, w.pods["failed"]))
			},
			want: podDiffers(QueueRedundant, "failed",
				"it is ErrorBackoff in the queue, the API server has it on node n1"),
		},
		"a pod that is queued while it is assumed": {
			change: func(w *world) { w.queue.Add(quiet, w.pods["assumed"]) },
			want:   podDiffers(QueueRedundant, "assumed", "it is Active in the queue and assumed on node n2"),
		},

		"a nomination of another node": {
			change: func(w *world) { w.change("nominated", nominated("n2")) },
			want:   podDiffers(NominationDiffers, "nominated", "it is promised node n1, its status names n2"),
		},
		"a nomination that was removed": {
			change: func(w *world) { w.change("nominated", nominated("")) },
			want:   podDiffers(NominationDiffers, "nominated", "it is promised node n1, its status names none"),
		},
		"a nomination that the nominator lacks": {
			change: func(w *world) { w.change("waiting", nominated("n2")) },
			want:   podDiffers(NominationDiffers, "waiting", "its status names node n2, nothing is held free for it"),
		},
		"a nomination of a deleted pod": {
			change: func(w *world) {
				w.queue.Nominator().AddNominatedPod(quiet, &schedframework.PodInfo{Pod: newPod("gone", "")},
					&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
			},
			want: podDiffers(NominationRedundant, "gone", "it is promised node n1, the API server does not have it"),
		},
		"a nomination of a pod that was bound": {
			change: func(w *world) {
				w.queue.Nominator().AddNominatedPod(quiet, &schedframework.PodInfo{Pod: newPod("bound", "")},
					&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n2"})
			},
			want: podDiffers(NominationRedundant, "bound", "it is promised node n2, the API server has it on node n1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.change(w)
			if diff := cmp.Diff(test.want, Compare(w.cluster(), w.state())); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// Differences that only a bug could cause in the cache.
func TestCompareFindsDamageInTheCache(t *testing.T) {
	w := newWorld(t)
	state := w.state()
	state.Cache.Nodes["n1"].Requested.MilliCPU += 50
	want := []Difference{{Kind: NodeRequests, Object: "n1",
		Detail: "its pods ask for cpu=200m memory=2Gi, the cache has counted cpu=250m memory=2Gi"}}
	if diff := cmp.Diff(want, Compare(w.cluster(), state)); diff != "" {
		t.Errorf("a wrong sum (-want +got):\n%s", diff)
	}

	state = w.state()
	state.Cache.Nodes["n2"].AddPodInfo(&schedframework.PodInfo{Pod: newPod("bound", "n2")})
	want = []Difference{{Kind: PodMisplaced, Object: "ns/bound", UID: "bound",
		Detail: "the cache has it on two nodes, n1 and n2"}}
	if diff := cmp.Diff(want, Compare(w.cluster(), state)); diff != "" {
		t.Errorf("a pod on two nodes (-want +got):\n%s", diff)
	}
}

func TestDifferencesAreSortedAndReadable(t *testing.T) {
	w := newWorld(t)
	delete(w.pods, "waiting")
	delete(w.pods, "flying")
	w.nodes["n3"] = newNode("n3")
	want := []Difference{
		{Kind: NodeMissing, Object: "n3", Detail: "the API server has the node, the cache has not"},
		{Kind: QueueRedundant, Object: "ns/flying", UID: "flying",
			Detail: "it is InFlight in the queue, the API server does not have it"},
		{Kind: QueueRedundant, Object: "ns/waiting", UID: "waiting",
			Detail: "it is Active in the queue, the API server does not have it"},
	}
	if diff := cmp.Diff(want, Compare(w.cluster(), w.state())); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

func TestOnlyLastingDifferencesAreReported(t *testing.T) {
	before := []Difference{
		{Kind: PodMissing, Object: "ns/a", UID: "1", Detail: "on n1"},
		{Kind: PodMissing, Object: "ns/b", UID: "2"},
		{Kind: NodeDiffers, Object: "n1", Detail: "labels"},
	}
	after := []Difference{
		{Kind: PodMissing, Object: "ns/a", UID: "1", Detail: "on n2"},
		{Kind: PodMissing, Object: "ns/b", UID: "3"},
		{Kind: NodeMissing, Object: "n1"},
	}
	want := []Difference{{Kind: PodMissing, Object: "ns/a", UID: "1", Detail: "on n2"}}
	if diff := cmp.Diff(want, lasting(before, after)); diff != "" {
		t.Errorf("lasting differences (-want +got):\n%s", diff)
	}
}
