// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/queue"
)

// TestABindingThatTheAPIServerForgets lets time pass after a pod was bound.
func TestABindingThatTheAPIServerForgets(t *testing.T) {
	onNode := func(pod *corev1.Pod, node string) *corev1.Pod {
		pod = pod.DeepCopy()
		pod.Spec.NodeName = node
		return pod
	}
	for name, test := range map[string]struct {
		// after is how long the pod waits, and then does what happens before the next look.
		after    time.Duration
		happens  func(f *fixture, pod *corev1.Pod)
		live     func(pod *corev1.Pod) *corev1.Pod
		liveErr  error
		extender bool
		undone   bool
		released bool
	}{
		"the informers are late, but not too late": {
			after: confirmAfter - 2*time.Second,
			live:  func(pod *corev1.Pod) *corev1.Pod { return onNode(pod, "") },
		},
		"it is confirmed": {
			happens: func(f *fixture, pod *corev1.Pod) {
				if err := f.Cache.AddPod(logr.Discard(), onNode(pod, nodeName)); err != nil {
					f.t.Error(err)
				}
			},
			live:     func(pod *corev1.Pod) *corev1.Pod { return onNode(pod, "") },
			released: true,
		},
		"it is gone": {
			happens: func(f *fixture, pod *corev1.Pod) {
				if err := f.Cache.RemovePod(logr.Discard(), pod); err != nil {
					f.t.Error(err)
				}
			},
			released: true,
		},
		"the informers are very late": {
			after: 2 * confirmAfter,
			live:  func(pod *corev1.Pod) *corev1.Pod { return onNode(pod, nodeName) },
		},
		"it was forgotten": {
			after:  confirmAfter + time.Second,
			live:   func(pod *corev1.Pod) *corev1.Pod { return onNode(pod, "") },
			undone: true, released: true,
		},
		"it is on another node": {
			after: confirmAfter + time.Second,
			live:  func(pod *corev1.Pod) *corev1.Pod { return onNode(pod, "other") },
		},
		"another pod has its name": {
			after: confirmAfter + time.Second,
			live: func(pod *corev1.Pod) *corev1.Pod {
				pod = onNode(pod, "")
				pod.UID = "another"
				return pod
			},
		},
		"it does not exist": {
			after:   confirmAfter + time.Second,
			liveErr: apierrors.NewNotFound(schema.GroupResource{}, "pod"),
		},
		"it may not be read": {
			after:   confirmAfter + time.Second,
			liveErr: apierrors.NewForbidden(schema.GroupResource{}, "pod", nil),
		},
		"an extender binds it": {
			after:    confirmAfter + time.Second,
			extender: true,
			live:     func(pod *corev1.Pod) *corev1.Pod { return onNode(pod, "") },
			released: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				pod := f.cycle.Pod.Pod
				f.read = func() (*corev1.Pod, error) {
					if test.live == nil {
						return nil, test.liveErr
					}
					return test.live(pod), nil
				}
				ctx, cancel := context.WithCancel(f.ctx)
				f.cycle.byExtender = test.extender
				u := NewUnconfirmed(f.Binder, clock.RealClock{})
				released := 0
				u.Add(ctx, f.cycle, func() { released++ })
				ended := u.start(ctx)
				synctest.Wait()
				time.Sleep(test.after) //nolint:forbidigo // of the bubble
				if test.happens != nil {
					test.happens(f, pod)
				}
				time.Sleep(2 * confirmEvery) //nolint:forbidigo // of the bubble
				synctest.Wait()
				f.mu.Lock()
				undone := slices.ContainsFunc(f.log,
					func(line string) bool { return strings.HasPrefix(line, "first unreserves") })
				f.mu.Unlock()
				if undone != test.undone || (f.failure != nil) != test.undone || released == 1 != test.released {
					t.Errorf("undone: %v, failure: %v, released: %d; %v", undone, f.failure, released, f.log)
				}
				if _, err := f.Cache.GetPod(pod); test.undone && err == nil {
					t.Error("it keeps its room")
				}
				cancel()
				<-ended
				u.Add(ctx, f.cycle, func() { released++ })
				if released != 2 {
					t.Errorf("released %d of 2", released)
				}
			})
		})
	}
}

// TestAPodThatCannotBeReadHoldsUpNoOther has one before and one after it, which were forgotten.
func TestAPodThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		tries := 0
		f.Client.(*fake.Clientset).PrependReactor("get", "pods",
			func(action clienttesting.Action) (bool, runtime.Object, error) {
				name := action.(clienttesting.GetAction).GetName()
				if name == "pod" {
					tries++
					return true, nil, apierrors.NewInternalError(errors.New("it cannot be decrypted"))
				}
				return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, nil
			})
		cycles := []*Cycle{f.assume("first"), f.cycle, f.assume("last")}
		u := NewUnconfirmed(f.Binder, clock.RealClock{})
		released := map[string]int{}
		ctx, cancel := context.WithCancel(f.ctx)
		for _, c := range cycles {
			name := c.Pod.Pod.Name
			u.Add(ctx, c, func() { released[name]++ })
		}
		ended := u.start(ctx)
		time.Sleep(confirmAfter + readPause + 2*confirmEvery) //nolint:forbidigo // of the bubble
		synctest.Wait()
		if diff := cmp.Diff(map[string]int{"first": 1, "last": 1}, released); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // of the bubble
		synctest.Wait()
		if tries < 20 || tries > 40 {
			t.Errorf("it was read %d times in about a minute", tries)
		}
		cancel()
		<-ended
		if released["pod"] != 1 {
			t.Errorf("released %v", released)
		}
	})
}

// TestALostPodThatTheAPIServerHasAgain lets time pass after a pod was lost.
func TestALostPodThatTheAPIServerHasAgain(t *testing.T) {
	gone, nowhere := apierrors.NewNotFound(schema.GroupResource{}, "pod"), queue.Place(0)
	for name, test := range map[string]struct {
		// known is what the informers have, nil if they have noticed.
		known *corev1.Pod
		// live is what the API server has after the binding has failed.
		live *corev1.Pod
		want queue.Place
	}{
		"the informers have noticed":         {want: nowhere},
		"the informers are late":             {known: podOn(""), want: nowhere},
		"it is on another node":              {known: podOn(""), live: podOn("other"), want: nowhere},
		"the informers know its other node":  {known: podOn("other"), live: podOn("other"), want: nowhere},
		"it is there again":                  {known: podOn(""), live: podOn(""), want: queue.Active},
		"it is there again, as they noticed": {live: podOn(""), want: nowhere}, // they add it soon
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.first.bind = fwk.AsStatus(gone)
				f.liveErr = gone
				ctx, cancel := context.WithCancel(f.ctx)
				if f.Run(ctx, f.cycle) || f.failure != nil {
					t.Fatal(f.failure)
				}
				known := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil)
				if test.known != nil {
					if err := known.Add(test.known); err != nil {
						t.Fatal(err)
					}
				}
				f.queueWith(corev1listers.NewPodLister(known))
				if f.live = test.live; f.live != nil {
					f.liveErr = nil
				}
				u := NewUnconfirmed(f.Binder, clock.RealClock{})
				u.AddUnbound(ctx, f.cycle)
				ended := u.start(ctx)
				time.Sleep(confirmAfter - time.Second) //nolint:forbidigo // of the bubble
				synctest.Wait()
				f.expectPlace("pod", nowhere)
				time.Sleep(2 * time.Second) //nolint:forbidigo // of the bubble
				synctest.Wait()
				f.expectPlace("pod", test.want)
				cancel()
				<-ended
			})
		})
	}
}

// TestALostPodWhoseProfileIsRemoved removes the profile of a lost pod, and creates it again before
// or after the pod is read. When a profile is new, eventhandlers adds the pods of the informers.
func TestALostPodWhoseProfileIsRemoved(t *testing.T) {
	for name, removedFor := range map[string]time.Duration{
		"until before it is read": confirmAfter / 2,
		"until after it is read":  2 * confirmAfter,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				gone := apierrors.NewNotFound(schema.GroupResource{}, "pod")
				f.first.bind, f.liveErr = fwk.AsStatus(gone), gone
				ctx, cancel := context.WithCancel(f.ctx)
				if f.Run(ctx, f.cycle) || f.failure != nil {
					t.Fatal(f.failure)
				}
				f.live, f.liveErr = podOn(""), nil
				known := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil)
				if err := known.Add(podOn("")); err != nil {
					t.Fatal(err)
				}
				f.queueWith(corev1listers.NewPodLister(known))
				u := NewUnconfirmed(f.Binder, clock.RealClock{})
				u.AddUnbound(ctx, f.cycle)
				f.Queue.Reconfigure(logr.Discard(), &queue.Settings{}, nil)
				ended := u.start(ctx)
				time.Sleep(removedFor) //nolint:forbidigo // of the bubble
				synctest.Wait()
				f.expectPlace("pod", queue.Place(0))
				f.configure()
				f.Queue.Add(logr.Discard(), podOn(""))
				f.expectPlace("pod", queue.Active)
				time.Sleep(2 * confirmAfter) //nolint:forbidigo // of the bubble
				synctest.Wait()
				f.expectPlace("pod", queue.Active)
				if len(u.cycles) > 0 {
					t.Error("it is still to be read")
				}
				cancel()
				<-ended
			})
		})
	}
}

// podOn returns the pod of a fixture on a node.
func podOn(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "pod"},
		Spec:       corev1.PodSpec{SchedulerName: schedulerName, NodeName: node},
	}
}

func TestAPodThatIsBackInTheQueueIsNotRead(t *testing.T) {
	f := newFixture(t)
	f.first.bind = fwk.AsStatus(errors.New("broken"))
	u := NewUnconfirmed(f.Binder, clock.RealClock{})
	if f.Run(f.ctx, f.cycle) || f.failure == nil {
		t.Fatal("it is bound")
	}
	if u.AddUnbound(f.ctx, f.cycle); len(u.cycles) != 0 {
		t.Errorf("%d pods are to be read", len(u.cycles))
	}
}

// start starts Run. The channel is closed when it ends.
func (u *Unconfirmed) start(ctx context.Context) (ended <-chan struct{}) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		u.Run(ctx)
	}()
	return closed
}
