// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/interning"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/workload"
)

func TestAssumedPods(t *testing.T) {
	queued := newPod("p", "")
	assumed := objects.Edited(queued, onNode("a"))

	t.Run("an assumed pod counts towards its node", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		f.expectLog("PodAdded a")
		f.expectPods("a", assumed)
		f.expectCounts(1, 1, 1)
		if is, err := f.IsAssumedPod(queued); err != nil || !is {
			t.Errorf("IsAssumedPod: got %v, %v", is, err)
		}
		if got, err := f.GetPod(queued); err != nil || got != assumed {
			t.Errorf("GetPod: got %v, %v, want the assumed object", got, err)
		}
	})

	t.Run("a pod is assumed once", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""), newNode("b", ""))
		f.assume(assumed)
		for _, again := range []*corev1.Pod{assumed, objects.Edited(queued, onNode("b"))} {
			if err := f.AssumePod(quiet, infoOf(again)); !errors.Is(err, ErrKnownPod) {
				t.Errorf("assuming it again on %s: got %v", again.Spec.NodeName, err)
			}
		}
		f.must(f.AddPod(quiet, assumed))
		if err := f.AssumePod(quiet, infoOf(assumed)); !errors.Is(err, ErrKnownPod) {
			t.Errorf("assuming a confirmed pod: got %v", err)
		}
		f.expectCounts(2, 1, 0)
	})

	t.Run("a forgotten pod leaves nothing behind and can be assumed again", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""), newNode("b", ""))
		f.assume(assumed)
		f.refresh()
		f.must(f.ForgetPod(quiet, assumed))
		f.expectLog("PodRemoved a")
		f.expectPods("a")
		f.expectCounts(2, 0, 0)
		f.assume(objects.Edited(queued, onNode("b")))
		f.expectLog("PodAdded b")
	})

	t.Run("forgetting a pod that was deleted is no error", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		f.must(f.RemovePod(quiet, assumed))
		f.must(f.ForgetPod(quiet, assumed))
		f.expectCounts(1, 0, 0)
	})

	t.Run("a pod is forgotten only where it was assumed", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		if err := f.ForgetPod(quiet, objects.Edited(queued, onNode("b"))); !errors.Is(err, ErrNotAssumed) {
			t.Errorf("got %v", err)
		}
		f.expectCounts(1, 1, 1)
	})

	t.Run("a pod that was bound though the bind call failed is not forgotten", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		f.must(f.AddPod(quiet, objects.Edited(assumed)))
		if err := f.ForgetPod(quiet, assumed); !errors.Is(err, ErrNotAssumed) {
			t.Errorf("got %v", err)
		}
		f.expectCounts(1, 1, 0)
	})

	t.Run("a pod that is deleted while it is being bound frees its room", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		f.refresh()
		f.must(f.RemovePod(quiet, queued)) // the API server's object has no node yet
		f.expectLog("PodRemoved a")
		f.expectPods("a")
		f.expectCounts(1, 0, 0)
	})

	t.Run("a pod without UID or node is rejected", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		for name, pod := range map[string]*corev1.Pod{"no UID": newPod("", "a"), "no node": queued} {
			for call, err := range map[string]error{
				"AssumePod": f.AssumePod(quiet, infoOf(pod)),
				"AddPod":    f.AddPod(quiet, pod),
				"UpdatePod": f.UpdatePod(quiet, pod, pod),
			} {
				if !errors.Is(err, ErrIncompletePod) {
					t.Errorf("%s with %s: got %v", call, name, err)
				}
			}
		}
		f.expectCounts(1, 0, 0)
	})

	t.Run("a pod that was resized in the queue counts with its current resources", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		info := infoOf(newPod("p", ""))
		info.CalculateResource() // the PodInfo remembers it; its Update does not clear it
		resized := newPod("p", "a", requesting("300m"))
		f.must(info.Update(resized))
		f.must(f.AssumePod(quiet, info))
		f.refresh()
		f.expectPods("a", resized)
	})

	t.Run("an item of the queue may be changed after it was assumed", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		info := infoOf(assumed)
		f.must(f.AssumePod(quiet, &schedframework.QueuedPodInfo{PodInfo: info}))
		info.Pod = newPod("other", "")
		f.refresh()
		f.expectPods("a", assumed)
	})

	t.Run("the log names the class of a pod as long as the pod belongs to it", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		class := Class{ID: 7, Like: infoOf(newPod("like", ""))}
		f.must(f.AssumePodOfClass(quiet, assumed, class))
		f.expectLog("PodAdded a class7")
		f.expectPods("a", assumed)
		confirmed := objects.Edited(assumed)
		f.must(f.AddPod(quiet, confirmed))
		f.expectLog()
		relabelled := objects.Edited(confirmed, labelled("x"))
		f.must(f.UpdatePod(quiet, confirmed, relabelled))
		f.expectLog("PodRemoved a class7", "PodAdded a")
		f.must(f.RemovePod(quiet, relabelled))
		f.expectLog("PodRemoved a")
	})
}

func TestConfirmation(t *testing.T) {
	assumed := newPod("p", "a")

	t.Run("confirming an assumed pod is no change, but its new object is there", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		f.refresh()
		confirmed := objects.Edited(assumed, running)
		f.must(f.AddPod(quiet, confirmed))
		generation := f.snapshot.Info(0).Generation
		f.expectLog()
		f.expectPods("a", confirmed)
		f.expectCounts(1, 1, 0)
		if f.snapshot.Info(0).Generation != generation {
			t.Error("the generation of the node has moved")
		}
	})

	t.Run("confirming a pod by its trimmed object is no change", func(t *testing.T) {
		for _, kind := range workload.Kinds {
			waits := workload.Run(workload.Pods{Kind: kind, Nodes: 1}.Pod(0), 0, "a")
			waits.Spec.Volumes = append(waits.Spec.Volumes,
				corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				}})
			kept := waits.DeepCopy()
			if _, err := interning.NewTransform(true)(kept); err != nil ||
				len(kept.Spec.Volumes) == len(waits.Spec.Volumes) {
				t.Fatalf("%v; the pod has lost no volume", err)
			}
			waits.Status = corev1.PodStatus{}
			f := newFixture(t, newNode("a", ""))
			f.assume(waits)
			f.refresh()
			f.must(f.AddPod(quiet, kept))
			f.expectLog()
			f.expectPods("a", kept)
		}
	})

	t.Run("an update confirms as well as an addition", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		confirmed := objects.Edited(assumed)
		f.must(f.UpdatePod(quiet, assumed, confirmed))
		f.expectCounts(1, 1, 0)
	})

	t.Run("a pod that was bound elsewhere than assumed moves there", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""), newNode("b", ""))
		f.assume(assumed)
		f.refresh()
		elsewhere := objects.Edited(assumed, onNode("b"))
		f.must(f.AddPod(quiet, elsewhere))
		f.expectLog("PodRemoved a", "PodAdded b")
		f.expectPods("a")
		f.expectPods("b", elsewhere)
		f.expectCounts(2, 1, 0)
	})

	t.Run("a pod that moves keeps its class unless it changed as well", func(t *testing.T) {
		for name, tt := range map[string]struct {
			change func(*corev1.Pod)
			want   string
		}{"moves": {running, "PodAdded b class7"}, "moves and changes": {labelled("x"), "PodAdded b"}} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t, newNode("a", ""), newNode("b", ""))
				f.must(f.AssumePodOfClass(quiet, assumed, Class{ID: 7, Like: infoOf(assumed)}))
				f.refresh()
				f.must(f.AddPod(quiet, objects.Edited(assumed, onNode("b"), tt.change)))
				f.expectLog("PodRemoved a class7", tt.want)
			})
		}
	})

	t.Run("a pod that is assumed while its object from the informer is compared is confirmed", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		confirmed := objects.Edited(assumed, labelled("x"))
		next, like := f.nextPodInfo(quiet, nil, confirmed)
		f.assume(assumed)
		f.storePod(quiet, confirmed, podState{}, next, like)
		f.expectLog("PodAdded a", "PodRemoved a", "PodAdded a")
		f.expectPods("a", confirmed)
		f.expectCounts(1, 1, 0)
	})

	t.Run("a pod that is forgotten while its object from the informer is compared is added", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		known := f.pods[assumed.UID]
		confirmed := objects.Edited(assumed)
		next, like := f.nextPodInfo(quiet, known.info, confirmed)
		f.must(f.ForgetPod(quiet, assumed))
		f.storePod(quiet, confirmed, known, next, like)
		f.refresh()
		f.expectPods("a", confirmed)
		f.expectCounts(1, 1, 0)
	})

	t.Run("a pod that changes while an older object of it is compared is compared again", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		known := f.pods[assumed.UID]
		f.must(f.AddPod(quiet, objects.Edited(assumed, labelled("x"))))
		f.refresh()
		latest := objects.Edited(assumed)
		next, like := f.nextPodInfo(quiet, known.info, latest) // the same as the known pod, but not as the current one
		f.storePod(quiet, latest, known, next, like)
		f.expectLog("PodRemoved a", "PodAdded a")
		f.expectPods("a", latest)
	})

	t.Run("a pod whose labels changed while it was being bound has changed", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		f.refresh()
		f.must(f.AddPod(quiet, objects.Edited(assumed, labelled("x"))))
		f.expectLog("PodRemoved a", "PodAdded a")
	})

	t.Run("a pod that got labels of its node when it was bound keeps its class", func(t *testing.T) {
		for name, tt := range map[string]struct {
			change func(*corev1.Pod)
			class  string
		}{
			"zone and region": {func(p *corev1.Pod) {
				p.Labels = map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r"}
			}, " class7"},
			"another zone than it had": {
				func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelTopologyZone: "other"} }, " class7"},
			"another label as well": {
				func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelTopologyZone: "z", "app": "x"} }, ""},
			"another label": {func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelHostname: "a"} }, ""},
			"and asks for more": {func(p *corev1.Pod) {
				p.Labels = map[string]string{corev1.LabelTopologyZone: "z"}
				requesting("200m")(p)
			}, ""},
		} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t, newNode("a", ""))
				f.must(f.AssumePodOfClass(quiet, assumed, Class{ID: 7, Like: infoOf(assumed)}))
				f.refresh()
				confirmed := objects.Edited(assumed, tt.change)
				f.must(f.AddPod(quiet, confirmed))
				f.expectLog("PodRemoved a class7", "PodAdded a"+tt.class)
				f.expectPods("a", confirmed)
				f.must(f.RemovePod(quiet, confirmed))
				f.expectLog("PodRemoved a" + tt.class)
			})
		}
	})

	t.Run("an assumed pod never expires", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.assume(assumed)
		for range 1000 {
			f.refresh()
		}
		f.expectPods("a", assumed)
		f.expectCounts(1, 1, 1)
	})
}

func TestPodUpdates(t *testing.T) {
	base := newPod("p", "a", labelled("x"), listening(80), claiming("data"), withAffinity)
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, tt := range []struct {
		name    string
		change  func(*corev1.Pod)
		changed bool
	}{
		{"status", running, false},
		{"annotations", func(p *corev1.Pod) { p.Annotations = map[string]string{"k": "v"} }, false},
		{"tolerations", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}} }, false},
		{"image", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "new" }, false},
		{"resources reported by the kubelet as asked for", reported, false},
		{"labels", labelled("y"), true},
		{"terminating", terminating, true},
		{"requests", requesting("200m"), true},
		{"overhead", func(p *corev1.Pod) { p.Spec.Overhead = resources }, true},
		{"pod-level requests",
			func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: resources} }, true},
		{"more resources in use than asked for", func(p *corev1.Pod) {
			reported(p)
			p.Status.ContainerStatuses[0].Resources.Requests = resources
		}, true},
		{"fewer resources in use than asked for", func(p *corev1.Pod) {
			reported(p)
			p.Status.ContainerStatuses[0].Resources.Requests = requests("10m", "1Mi").Requests
		}, false},
		{"fewer resources in use, and the resize is infeasible", func(p *corev1.Pod) {
			reported(p)
			p.Status.ContainerStatuses[0].Resources.Requests = requests("10m", "1Mi").Requests
			p.Status.ContainerStatuses[0].AllocatedResources = nil
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible})
		}, true},
		{"a report on a container that is not in the spec", func(p *corev1.Pod) {
			reported(p)
			p.Status.ContainerStatuses[0].Name = "other"
			p.Status.ContainerStatuses[0].Resources.Requests = resources
		}, false},
		{"a sidecar", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{
				{Name: "s", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
					Resources: requests("1", "1Mi")}}
		}, true},
		{"an init container that needs less than the others", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: requests("1m", "1Mi")}}
		}, false},
		{"host ports", listening(81), true},
		{"claims", claiming("more"), true},
		{"affinity", withRequiredAntiAffinity, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, newNode("a", ""))
			f.must(f.AddPod(quiet, base))
			f.refresh()
			updated := objects.Edited(base, tt.change)
			f.must(f.UpdatePod(quiet, base, updated))
			if tt.changed {
				f.expectLog("PodRemoved a", "PodAdded a")
			} else {
				f.expectLog()
			}
			f.expectPods("a", updated)
			f.must(f.RemovePod(quiet, updated))
			f.refresh()
			f.expectPods("a")
		})
	}

	t.Run("a pod that appears on another node moves, and the process continues", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""), newNode("b", ""))
		f.must(f.AddPod(quiet, base))
		f.refresh()
		moved := objects.Edited(base, onNode("b"))
		f.must(f.UpdatePod(quiet, base, moved))
		f.expectLog("PodRemoved a", "PodAdded b")
		f.expectPods("a")
		f.expectPods("b", moved)
	})

	t.Run("an update of a pod that was never added adds it", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.must(f.UpdatePod(quiet, base, objects.Edited(base)))
		f.expectLog("PodAdded a")
		f.expectCounts(1, 1, 0)
	})

	t.Run("a pod that is added twice is there once", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		again := objects.Edited(base)
		f.must(f.AddPod(quiet, base))
		f.must(f.AddPod(quiet, again))
		f.refresh()
		f.expectPods("a", again)
	})

	t.Run("a pod recreated under the same name is another pod", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.must(f.AddPod(quiet, base))
		recreated := objects.Edited(base, func(p *corev1.Pod) { p.UID = "p2" })
		f.must(f.AddPod(quiet, recreated)) // before the deletion of the old one arrives
		f.refresh()
		f.expectPods("a", base, recreated)
		f.must(f.RemovePod(quiet, base))
		f.refresh()
		f.expectPods("a", recreated)
	})

	t.Run("an update to another UID replaces the pod", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""), newNode("b", ""))
		f.must(f.AddPod(quiet, base))
		recreated := objects.Edited(base, onNode("b"), func(p *corev1.Pod) { p.UID = "p2" })
		f.must(f.UpdatePod(quiet, base, recreated))
		f.refresh()
		f.expectPods("a")
		f.expectPods("b", recreated)
		f.expectCounts(2, 1, 0)
	})

	t.Run("an update to another UID that waits for a node leaves neither", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		f.must(f.AddPod(quiet, base))
		waiting := objects.Edited(base, onNode(""), func(p *corev1.Pod) { p.UID = "p2" })
		if err := f.UpdatePod(quiet, base, waiting); !errors.Is(err, ErrIncompletePod) {
			t.Errorf("got %v", err)
		}
		f.expectCounts(1, 0, 0)
	})
}

func TestPodRemoval(t *testing.T) {
	pod := newPod("p", "a")
	for name, object := range map[string]*corev1.Pod{
		"with the last state":               objects.Edited(pod, running),
		"with a stale object without node":  objects.Edited(pod, onNode("")),
		"with an object on another node":    objects.Edited(pod, onNode("b")),
		"with an object of earlier request": objects.Edited(pod, requesting("1")),
	} {
		t.Run("a pod is removed "+name, func(t *testing.T) {
			f := newFixture(t, newNode("a", ""), newNode("b", ""))
			f.must(f.AddPod(quiet, pod))
			f.refresh()
			f.must(f.RemovePod(quiet, object))
			f.expectLog("PodRemoved a")
			f.expectPods("a")
			f.expectPods("b")
			f.expectCounts(2, 0, 0)
		})
	}

	t.Run("a pod that is not there cannot be removed", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		if err := f.RemovePod(quiet, pod); !errors.Is(err, ErrUnknownPod) {
			t.Errorf("got %v", err)
		}
		if _, err := f.GetPod(pod); !errors.Is(err, ErrUnknownPod) {
			t.Errorf("GetPod: got %v", err)
		}
	})
}
