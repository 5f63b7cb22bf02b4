// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/sidebyside"
)

func TestAssumedCopyDoesNotChangeTheQueuedPod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	queued := &schedframework.QueuedPodInfo{PodInfo: info, QueueingParams: schedframework.QueueingParams{Attempts: 3}}
	assumed := assumedCopy(queued, "n1")
	if assumed.Pod.Spec.NodeName != "n1" || assumed.Attempts != 3 {
		t.Errorf("the copy is on %q after %d attempts", assumed.Pod.Spec.NodeName, assumed.Attempts)
	}
	if queued.Pod != pod || pod.Spec.NodeName != "" {
		t.Error("the queued pod has changed")
	}
}

// TestTheCacheHasThePodOfTheCycle looks at the pod that binding.Unconfirmed compares.
func TestTheCacheHasThePodOfTheCycle(t *testing.T) {
	metrics.Register()
	for _, path := range []sidebyside.Path{sidebyside.ScalarPath, sidebyside.FastPath} {
		ctx := klog.NewContext(t.Context(), logr.Discard())
		c := newCycleOn(ctx, t, &slow{point: "none"}, path)
		placed, _, status := c.placeInTime(ctx)
		if !status.IsSuccess() {
			t.Fatal(path, status)
		}
		if known, err := c.loop.Cache.GetPod(placed.Pod.Pod); err != nil || known != placed.Pod.Pod {
			t.Errorf("%s: it has %p, not %p: %v", path, known, placed.Pod.Pod, err)
		}
	}
}

// TestAPodThatWasDeletedDuringItsCycleDoesNotWait covers a deletion whose event came before the pod
// waited for Permit plugins.
func TestAPodThatWasDeletedDuringItsCycleDoesNotWait(t *testing.T) {
	metrics.Register()
	ctx := klog.NewContext(t.Context(), logr.Discard())
	c := newCycle(ctx, t, &slow{point: "Permit"}) // the informer does not have its pod
	placed, _, status := c.placeInTime(ctx)
	if placed != nil || !errors.Is(status.AsError(), queue.ErrGone) {
		t.Errorf("%v: %v", placed, status)
	}
	if n := c.loop.Cache.Size().Pods; n != 0 {
		t.Errorf("%d pods are assumed", n)
	}
	if c.profile.Framework.RejectWaitingPod(c.pod.Pod.UID) {
		t.Error("it waits")
	}
}

// TestAPodIsNotLostIfItsBindingFailsWhileItIsSkipped covers a pod that an update has queued again
// during its binding. Between skip and release, the binding fails, and the profile is changed or
// deleted.
func TestAPodIsNotLostIfItsBindingFailsWhileItIsSkipped(t *testing.T) {
	for name, test := range map[string]struct{ fails, changed, deleted, queued bool }{
		"the binding succeeds":                             {},
		"the binding fails":                                {fails: true, queued: true},
		"the binding succeeds, and the profile changes":    {changed: true},
		"the binding fails, and the profile changes":       {fails: true, changed: true, queued: true},
		"the binding succeeds, and the profile is deleted": {deleted: true},
		"the binding fails, and the profile is deleted":    {fails: true, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, logger := newGroupWorld(t), logr.Discard()
			other := w.newCluster()
			defer other.Close()
			old := w.cluster.Profile
			w.addNode("n", "8")
			pod := w.addPod("pod", "1", func(pod *corev1.Pod) { pod.Labels = nil })
			popped := w.cluster.Queue.Pop(logger)
			c := w.loop.newCycle(w.loop.Profiles.Popped(popped.Settings), popped.Pod)
			assumed := assumedCopy(c.pod, "n")
			w.Expect(w.cluster.Cache.AssumePod(logger, assumed.PodInfo)).To(Succeed())
			w.Expect(c.skip(logger)).To(BeTrue())
			if test.fails {
				w.Expect(w.cluster.Cache.ForgetPod(logger, assumed.Pod)).To(Succeed())
				former := *assumed // of another stay in the queue
				former.InitialAttemptTimestamp = ptr.To(assumed.InitialAttemptTimestamp.Add(-time.Second))
				_, err := w.cluster.Queue.Requeue(logger, &former, nil)
				w.Expect(err).To(MatchError(queue.ErrAlreadyQueued))
			}
			if test.changed || test.deleted {
				profiles := map[string]*profile.Instance{}
				if test.changed {
					other.Profile.Acquire() // its own cluster has another reference
					profiles["mine"] = other.Profile
				}
				w.cluster.Store.Swap(logger, profile.NewMap(profiles, ""), w.cluster.Queue)
				defer w.cluster.Store.Swap(logger, profile.NewMap(nil, ""), w.cluster.Queue)
				w.Expect(old.Closed()).NotTo(BeClosed())
			}
			c.release(logger)
			_, queued := w.cluster.Queue.Get(pod.UID)
			w.Expect(queued).To(Equal(test.queued))
			if test.changed || test.deleted {
				w.Eventually(old.Closed()).Should(BeClosed())
			}
			if test.changed && test.queued {
				popped := w.cluster.Queue.Pop(logger)
				next := w.loop.newCycle(w.loop.Profiles.Popped(popped.Settings), popped.Pod)
				w.Expect(next.profile).To(BeIdenticalTo(other.Profile))
				next.release(logger)
			}
		})
	}
}
