// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

func TestNodesAndTheirPods(t *testing.T) {
	a, pod := newNode("a", ""), newPod("p", "a")

	t.Run("pods that come before their node are on it when it comes", func(t *testing.T) {
		f := newFixture(t)
		f.must(f.AddPod(quiet, pod))
		f.expectLog()
		f.expectCounts(1, 1, 0)
		if f.snapshot.NumNodes() != 0 {
			t.Error("a node that is not known is in the snapshot")
		}
		f.AddNode(quiet, a)
		f.expectLog("NodeAdded a")
		f.expectPods("a", pod)
	})

	t.Run("a pod may be assumed on a node that is gone", func(t *testing.T) {
		f := newFixture(t, a)
		f.must(f.RemoveNode(quiet, a))
		f.assume(pod)
		f.expectLog("NodeRemoved slot0")
		f.expectCounts(1, 1, 1)
		f.must(f.ForgetPod(quiet, pod))
		f.expectCounts(0, 0, 0)
	})

	t.Run("a node removed before its pods is a placeholder until they are gone", func(t *testing.T) {
		f := newFixture(t, a)
		other := newPod("q", "a")
		f.must(f.AddPod(quiet, pod))
		f.must(f.AddPod(quiet, other))
		f.refresh()
		f.must(f.RemoveNode(quiet, a))
		f.expectLog("NodeRemoved slot0")
		f.expectCounts(1, 2, 0)
		if _, err := f.snapshot.Get("a"); err == nil {
			t.Error("the snapshot shows a placeholder")
		}
		if placeholder := f.Dump().Nodes["a"]; placeholder == nil || placeholder.Node() != nil ||
			len(placeholder.Pods) != 2 {
			t.Errorf("the placeholder: got %v", placeholder)
		}
		f.must(f.UpdatePod(quiet, pod, objects.Edited(pod, terminating)))
		f.must(f.RemovePod(quiet, pod))
		f.expectCounts(1, 1, 0)
		f.must(f.RemovePod(quiet, other))
		f.expectLog()
		f.expectCounts(0, 0, 0)
		if gone := f.Dump().Nodes["a"]; gone != nil {
			t.Errorf("a node that is gone: got %v", gone)
		}
	})

	t.Run("a placeholder that comes back has its pods", func(t *testing.T) {
		f := newFixture(t, a)
		f.must(f.AddPod(quiet, pod))
		f.must(f.RemoveNode(quiet, a))
		f.refresh()
		late := newPod("q", "a")
		f.must(f.AddPod(quiet, late))
		f.AddNode(quiet, editedNode(a))
		f.expectLog("NodeAdded a")
		f.expectPods("a", pod, late)
	})

	t.Run("a node that went and came between two refreshes is a new one", func(t *testing.T) {
		for name, pods := range map[string][]*corev1.Pod{"empty": nil, "with a pod": {pod}} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t, a, newNode("b", ""))
				for _, p := range pods {
					f.must(f.AddPod(quiet, p))
				}
				f.refresh()
				before := f.snapshot.Info(0)
				f.must(f.RemoveNode(quiet, a))
				again := editedNode(a)
				f.AddNode(quiet, again)
				f.expectLog("NodeRemoved a", "NodeAdded a")
				f.expectPods("a", pods...)
				after, err := f.snapshot.Get("a")
				f.must(err)
				if after == fwk.NodeInfo(before) {
					t.Error("the NodeInfo belongs to the node that is gone")
				}
			})
		}
	})

	t.Run("a node that came and went between two refreshes is never shown", func(t *testing.T) {
		f := newFixture(t)
		f.AddNode(quiet, a)
		f.must(f.RemoveNode(quiet, a))
		f.expectLog()
		f.expectCounts(0, 0, 0)
	})

	t.Run("an update of a node that is not known adds it", func(t *testing.T) {
		f := newFixture(t)
		f.UpdateNode(quiet, a, a)
		f.expectLog("NodeAdded a")
	})

	t.Run("only a node that is there can be removed", func(t *testing.T) {
		f := newFixture(t, a)
		f.must(f.AddPod(quiet, pod))
		f.must(f.RemoveNode(quiet, a))
		for _, node := range []*corev1.Node{a, newNode("b", "")} {
			if err := f.RemoveNode(quiet, node); !errors.Is(err, ErrUnknownNode) {
				t.Errorf("removing %s: got %v", node.Name, err)
			}
		}
	})
}

func TestNodeUpdates(t *testing.T) {
	base := newNode("a", "z", withImages("i"), func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	for _, tt := range []struct {
		name    string
		change  func(*corev1.Node)
		changed bool
	}{
		{"heartbeat", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }, false},
		{"condition", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		{"resource version and managed fields", func(n *corev1.Node) {
			n.ResourceVersion, n.ManagedFields = "2", []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		}, false},
		{"attached volumes", func(n *corev1.Node) { n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "v"}} },
			false},
		{"volumes in use", func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"} }, false},
		{"equal quantities written differently", func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8000m")
		}, false},
		{"labels", func(n *corev1.Node) { n.Labels["k"] = "v" }, true},
		{"annotations", func(n *corev1.Node) { n.Annotations = map[string]string{"k": "v"} }, true},
		{"taints", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}, true},
		{"unschedulable", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"allocatable", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("4") },
			true},
		{"a new resource", func(n *corev1.Node) { n.Status.Allocatable["example.com/gpu"] = resource.MustParse("4") },
			true},
		{"capacity", func(n *corev1.Node) { n.Status.Capacity = n.Status.Allocatable.DeepCopy() }, true},
		{"images", withImages("i", "j"), true},
		{"image size", func(n *corev1.Node) { n.Status.Images[0].SizeBytes++ }, true},
		{"declared features", func(n *corev1.Node) {
			n.Status.DeclaredFeatures = []string{"GuaranteedQoSPodCPUResize"}
		}, true},
		{"runtime handlers", func(n *corev1.Node) {
			n.Status.RuntimeHandlers = []corev1.NodeRuntimeHandler{{Name: "gvisor"}}
		}, true},
		{"kubelet version", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v2" }, true},
		{"terminating", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }, true},
		{"UID", func(n *corev1.Node) { n.UID = "other" }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, base)
			pod := newPod("p", "a")
			f.must(f.AddPod(quiet, pod))
			f.refresh()
			generation := f.snapshot.Info(0).Generation
			updated := editedNode(base, tt.change)
			f.UpdateNode(quiet, base, updated)
			if tt.changed {
				f.expectLog("NodeObject a")
			} else {
				f.expectLog()
			}
			if moved := f.snapshot.Info(0).Generation != generation; moved != tt.changed {
				t.Errorf("generation moved: %v", moved)
			}
			f.expectSame("a", scratch(updated, []*corev1.Pod{pod}), f.snapshot.Info(0))
			want := map[string]int{}
			for _, image := range updated.Status.Images {
				for _, name := range image.Names {
					want[name] = 1
				}
			}
			if diff := cmp.Diff(want, imageCounts(f.snapshot.Info(0))); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("a node that changes while an older object of it is compared is compared again", func(t *testing.T) {
		f := newFixture(t, base)
		f.UpdateNode(quiet, base, editedNode(base, func(n *corev1.Node) { n.Spec.Unschedulable = true }))
		f.refresh()
		latest := editedNode(base)
		f.storeNode(latest, base, true) // the same as base, but not as the current node
		f.expectLog("NodeObject a")
		if f.snapshot.Info(0).Node() != latest {
			t.Error("the latest object is not there")
		}
	})

	t.Run("a heartbeat that was not shown yet does not hide a change", func(t *testing.T) {
		f := newFixture(t, base)
		heartbeat := editedNode(base, func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() })
		cordoned := editedNode(heartbeat, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		beat := editedNode(cordoned, func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Time{} })
		generation := f.snapshot.Info(0).Generation
		f.UpdateNode(quiet, base, heartbeat)
		f.UpdateNode(quiet, heartbeat, cordoned)
		f.UpdateNode(quiet, cordoned, beat)
		f.expectLog("NodeObject a")
		if f.snapshot.Info(0).Node() != beat || f.snapshot.Info(0).Generation == generation {
			t.Error("the snapshot does not show the change")
		}
	})
}

func imageCounts(info fwk.NodeInfo) map[string]int {
	counts := map[string]int{}
	for name, state := range info.GetImageStates() {
		counts[name] = state.NumNodes
	}
	return counts
}

func TestImageStates(t *testing.T) {
	a, b := newNode("a", "", withImages("x", "y")), newNode("b", "", withImages("x"))
	f := newFixture(t, a, b)
	info := func(name string) fwk.NodeInfo {
		info, err := f.snapshot.Get(name)
		f.must(err)
		return info
	}
	expect := func(name string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, imageCounts(info(name))); diff != "" {
			t.Errorf("images of %s (-want +got):\n%s", name, diff)
		}
	}
	expect("a", map[string]int{"x": 2, "x@sha256": 2, "y": 1, "y@sha256": 1})
	expect("b", map[string]int{"x": 2, "x@sha256": 2})
	if size := info("a").GetImageStates()["x"].Size; size != 1<<20 {
		t.Errorf("size of x: got %d", size)
	}

	epoch := f.snapshot.ImagesEpoch()
	f.refresh()
	if f.snapshot.ImagesEpoch() != epoch {
		t.Error("the epoch has moved though nothing happened")
	}
	// Another node with the image changes the counts of all nodes.
	c := newNode("c", "", withImages("x"))
	f.AddNode(quiet, c)
	f.refresh()
	expect("b", map[string]int{"x": 3, "x@sha256": 3})
	if f.snapshot.ImagesEpoch() == epoch {
		t.Error("the epoch has not moved")
	}
	f.UpdateNode(quiet, a, editedNode(a, withImages("y", "y")))
	f.must(f.RemoveNode(quiet, c))
	f.refresh()
	expect("a", map[string]int{"y": 1, "y@sha256": 1})
	expect("b", map[string]int{"x": 1, "x@sha256": 1})
	f.must(f.RemoveNode(quiet, a))
	f.must(f.RemoveNode(quiet, b))
	f.refresh()
	if n := len(f.snapshot.images.summaries); n != 0 {
		t.Errorf("%d images are left of a cluster without nodes", n)
	}
}
