// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

func TestPreemption(t *testing.T) {
	t.Run("rule 6: holds the preemptor back while its victims are evicted, under any instance", func(t *testing.T) {
		p := newEnvironment(t)
		victim := p.running("n1", 1)[0]
		preemptor := p.pending(10)
		p.addNode("n1", victim)
		reached, release := p.stop(func(r *http.Request) bool { return deletes(r, victim) })
		defer release()
		if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
			t.Fatalf("preemption: %v", status)
		}
		<-reached
		if nominated := p.queue.Nominator().NominatedPodsForNode("n1"); len(nominated) != 1 ||
			nominated[0].GetPod().UID != preemptor.UID {
			t.Errorf("nominated are %v", nominated)
		}
		p.expectPlace(preemptor, queue.Unschedulable)
		p.reload()
		p.expectPlace(preemptor, queue.Gated)
		if status := p.plugin.PreEnqueue(p.ctx, preemptor); status.Message() != evicting ||
			status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("the next instance says %v", status)
		}
		release()
		p.expectPlace(preemptor, queue.Active)
		if status := p.plugin.PreEnqueue(p.ctx, preemptor); !status.IsSuccess() {
			t.Errorf("the preemptor is held back by %v", status)
		}
	})

	t.Run("reports the reason in the victim's status and in an Event", func(t *testing.T) {
		p := newEnvironment(t)
		victim := p.running("n1", 1)[0]
		preemptor := p.pending(10)
		p.addNode("n1", victim)
		var seen corev1.PodStatus
		p.calls.set(func(r *http.Request) error {
			if deletes(r, victim) {
				now, err := p.admin.CoreV1().Pods(namespace).Get(r.Context(), victim.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				seen = now.Status
			}
			return nil
		})
		p.attempt(p.pop(preemptor))
		p.ended()
		var conditions []string
		for _, c := range seen.Conditions {
			conditions = append(conditions, string(c.Type)+" "+string(c.Status)+" "+c.Reason+": "+c.Message)
		}
		if len(conditions) != 1 || conditions[0] != "DisruptionTarget True PreemptionByScheduler: mine: preempting "+
			"to accommodate a higher priority pod" {
			t.Errorf("the victim's conditions were %q", conditions)
		}
		p.expectEvent("Normal Preempted Preempted by pod " + string(preemptor.UID) + " on node n1")
		if p.exists(victim) {
			t.Error("the victim is still there")
		}
	})

	t.Run("retries the preemptor if and only if its victims were deleted while it was held back", func(t *testing.T) {
		for _, early := range []bool{true, false} {
			p := newEnvironment(t)
			victims := p.running("n1", 2)
			preemptor := p.pending(10)
			p.addNode("n1", victims...)
			reached, release := p.stop(func(r *http.Request) bool { return deletes(r, victims[1]) })
			p.attempt(p.pop(preemptor))
			<-reached
			if early {
				p.gone(victims[0])
				p.expectPlace(preemptor, queue.Gated)
			}
			release()
			p.ended()
			if early {
				p.expectPlace(preemptor, queue.Active, queue.Backoff)
			} else {
				p.expectPlace(preemptor, queue.Unschedulable)
			}
		}
	})

	t.Run("does so as soon as the last victim is gone, whatever the API server responds", func(t *testing.T) {
		p := newEnvironment(t)
		victim := p.running("n1", 1)[0]
		preemptor := p.pending(10)
		p.addNode("n1", victim)
		reached, release := p.stop(func(r *http.Request) bool { return r.Method == http.MethodPatch })
		defer release()
		p.attempt(p.pop(preemptor))
		<-reached
		must(t, p.admin.CoreV1().Pods(namespace).Delete(p.ctx, victim.Name, *metav1.NewDeleteOptions(0)))
		p.gone(victim)
		p.expectPlace(preemptor, queue.Active, queue.Backoff)
		release()
		p.ended()
		if len(p.recorder.Events) != 0 {
			t.Errorf("there is the Event %q about a pod that was not there", <-p.recorder.Events)
		}
	})

	t.Run("does not delete a new pod with the name of a victim", func(t *testing.T) {
		p := newEnvironment(t)
		victim := p.running("n1", 1)[0]
		preemptor := p.pending(10)
		p.addNode("n1", victim)
		must(t, p.admin.CoreV1().Pods(namespace).Delete(p.ctx, victim.Name, *metav1.NewDeleteOptions(0)))
		successor := victim.DeepCopy()
		successor.ObjectMeta = metav1.ObjectMeta{Name: victim.Name, Namespace: namespace}
		successor, err := p.admin.CoreV1().Pods(namespace).Create(p.ctx, successor, metav1.CreateOptions{})
		must(t, err)
		p.attempt(p.pop(preemptor))
		p.ended()
		if !p.exists(successor) {
			t.Error("the successor is gone")
		}
		now, err := p.admin.CoreV1().Pods(namespace).Get(p.ctx, victim.Name, metav1.GetOptions{})
		must(t, err)
		if len(now.Status.Conditions) != 0 {
			t.Errorf("the successor has the conditions %v", now.Status.Conditions)
		}
	})

	t.Run("retries a preemptor whose victim could not be deleted, after its back-off, and spares victims that are "+
		"not needed", func(t *testing.T) {
		p := newEnvironment(t)
		count := 40 // more than are evicted concurrently
		victims := p.running("n1", count)
		preemptor := p.pending(10)
		p.addNode("n1", victims...)
		p.calls.set(func(r *http.Request) error {
			if r.Method == http.MethodDelete {
				return errForbidden
			}
			return nil
		})
		before := executions(t, schedmetrics.GoroutineResultError)
		p.attempt(p.pop(preemptor))
		p.ended()
		p.expectPlace(preemptor, queue.ErrorBackoff)
		if after := executions(t, schedmetrics.GoroutineResultError); after != before+1 {
			t.Errorf("%v failures were counted before, %v after", before, after)
		}
		marked := 0
		for _, victim := range victims {
			now, err := p.admin.CoreV1().Pods(namespace).Get(p.ctx, victim.Name, metav1.GetOptions{})
			must(t, err)
			if len(now.Status.Conditions) != 0 {
				marked++
			}
		}
		if marked == 0 || marked > 16 {
			t.Errorf("the deletion of %d of %d victims was tried", marked, count)
		}
		p.calls.set(nil)
		p.expectPlace(preemptor, queue.ErrorBackoff) // no event wakes it early
	})

	for _, point := range []string{"Permit", "PreBind"} {
		t.Run("puts a pod in "+point+" back rather than deleting it, also if two preempt it at once",
			func(t *testing.T) {
				p := newEnvironment(t)
				low := p.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "victim-" + rand.String(5)},
					Spec: corev1.PodSpec{SchedulerName: "mine"}})
				first, second := p.pending(10), p.pending(20)
				p.addNode("n1")
				victim := p.assume(low, "n1")
				preparing, cancel := context.WithCancelCause(p.ctx)
				if point == "Permit" {
					p.waitingPods.Add(victim, map[string]time.Duration{"Gate": time.Hour})
				} else {
					p.podsInPreBind.Add(victim.UID, cancel)
				}
				for _, preemptor := range []*corev1.Pod{first, second} {
					if _, status := p.postFilter(preemptor); !status.IsSuccess() {
						t.Fatal(status)
					}
					p.ended()
					p.expectEvent("Normal Preempted Preempted by pod " + string(preemptor.UID) +
						" on node n1 (in kube-scheduler memory).")
					// Its binding goroutine has noticed, and is about to release the room.
					if status, waited := p.waitingPods.Wait(p.ctx, victim.UID); waited && status.IsSuccess() {
						t.Error("the waiting pod was allowed")
					}
					p.podsInPreBind.Remove(victim.UID)
				}
				if point == "PreBind" && context.Cause(preparing) == nil {
					t.Error("the preparation goes on")
				}
				cancel(nil)
				if !p.exists(low) {
					t.Error("it was deleted")
				}
			})
	}

	t.Run("ends immediately when the scheduler stops, and starts no more", func(t *testing.T) {
		p := newEnvironment(t)
		victim := p.running("n1", 1)[0]
		preemptor, another := p.pending(10), p.pending(20)
		p.addNode("n1", victim)
		reached, release := p.stop(func(r *http.Request) bool { return deletes(r, victim) })
		defer release()
		if _, status := p.postFilter(preemptor); !status.IsSuccess() {
			t.Fatal(status)
		}
		<-reached
		stopping, cancel := context.WithCancel(p.ctx)
		cancel()
		p.evictor.Close(stopping)
		if _, status := p.postFilter(another); !status.IsSuccess() {
			t.Fatal(status)
		}
		p.ended()
		if !p.exists(victim) {
			t.Error("the victim was deleted")
		}
	})

	t.Run("records the duration of its calls", func(t *testing.T) {
		p := newEnvironment(t)
		p.evictor.maxLag = time.Hour
		victim := p.running("n1", 1)[0]
		preemptor := p.pending(10)
		p.addNode("n1", victim)
		reached, release := p.stop(func(r *http.Request) bool { return deletes(r, victim) })
		observed, seconds := durations(t, schedmetrics.GoroutineResultSuccess)
		before := executions(t, schedmetrics.GoroutineResultSuccess)
		p.postFilter(preemptor)
		<-reached
		stopped := time.Now()
		p.exists(victim)
		least := time.Since(stopped).Seconds()
		release()
		eventually(t, func() float64 { return executions(t, schedmetrics.GoroutineResultSuccess) }).
			Should(gomega.Equal(before+1), "while it waits for the cache")
		nowObserved, nowSeconds := durations(t, schedmetrics.GoroutineResultSuccess)
		if nowObserved != observed+1 || nowSeconds-seconds <= least {
			t.Errorf("%d durations of %v s in all; before %d of %v s", nowObserved, nowSeconds, observed, seconds)
		}
	})
}

// A second attempt may come before the informers have the result of the first.
func TestPreemptorRetriedTooEarly(t *testing.T) {
	begun := func(t *testing.T) (p *environment, preemptor, victim *corev1.Pod) {
		p = newEnvironment(t)
		victim = p.running("n1", 1)[0]
		p.addNode("n1", victim)
		p.addNode("n2", p.running("n2", 2)...) // two victims are worse than one
		preemptor = p.pending(10)
		if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
			t.Fatal(status)
		}
		p.ended()
		p.queue.Activate(logr.Discard(), map[string]*corev1.Pod{"": preemptor})
		return p, preemptor, victim
	}
	expectWaits := func(t *testing.T, p *environment, preemptor *corev1.Pod) {
		t.Helper()
		status := p.attempt(p.pop(preemptor))
		if status.Code() != fwk.Unschedulable ||
			!strings.HasSuffix(status.Message(),
				"preemption: not eligible due to a terminating pod on the nominated node.") {
			t.Errorf("it does not wait for its victims: %v", status)
		}
		if nominated := p.queue.Nominator().NominatedPodsForNode("n1"); len(nominated) != 1 {
			t.Errorf("nominated are %v", nominated)
		}
		if p.evictor.isEvicting(preemptor.UID) {
			t.Error("it preempts again")
		}
	}

	t.Run("waits for its victims and keeps its nomination", func(t *testing.T) {
		p, preemptor, _ := begun(t)
		expectWaits(t, p, preemptor)
		p.queue.Activate(logr.Discard(), map[string]*corev1.Pod{"": preemptor})
		expectWaits(t, p, preemptor)
	})
	t.Run("preempts again when they are gone", func(t *testing.T) {
		p, preemptor, victim := begun(t)
		taker := p.running("n1", 1)[0]
		must(t, p.cache.RemovePod(logr.Discard(), victim))
		must(t, p.cache.AddPod(logr.Discard(), taker))
		if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
			t.Errorf("%v", status)
		}
		p.ended()
		if p.exists(taker) {
			t.Error("who took the room was not preempted")
		}
	})
	// As when etcd was restored from a backup.
	t.Run("preempts again if its victim runs again", func(t *testing.T) {
		p, preemptor, victim := begun(t)
		p.ends(victim, 30)
		expectWaits(t, p, preemptor)
		must(t, p.cache.UpdatePod(logr.Discard(), victim, victim.DeepCopy()))
		p.queue.Activate(logr.Discard(), map[string]*corev1.Pod{"": preemptor})
		if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
			t.Errorf("%v", status)
		}
	})
	t.Run("waits for victims that end although the answer to the deletion of one was lost", func(t *testing.T) {
		p := newEnvironment(t)
		victims := p.running("n1", 2)
		p.addNode("n1", victims...)
		p.addNode("n2", p.running("n2", 3)...)
		preemptor := p.pending(10)
		lost := victims[0]
		p.calls.set(func(r *http.Request) error {
			if deletes(r, lost) {
				return errors.New("connection reset by peer")
			}
			return nil
		})
		p.attempt(p.pop(preemptor))
		p.ended()
		for _, victim := range victims {
			p.ends(victim, 30)
		}
		p.queue.Activate(logr.Discard(), map[string]*corev1.Pod{"": preemptor})
		expectWaits(t, p, preemptor)
		p.gone(lost)
		expectWaits(t, p, preemptor)
	})
	t.Run("preempts again if its victim left and runs again before the API server answers", func(t *testing.T) {
		p := newEnvironment(t)
		victim := p.running("n1", 1)[0]
		p.addNode("n1", victim)
		preemptor := p.pending(10)
		reached, release := p.stop(func(r *http.Request) bool { return deletes(r, victim) })
		defer release()
		p.attempt(p.pop(preemptor))
		<-reached
		p.gone(victim)
		must(t, p.cache.AddPod(logr.Discard(), victim))
		release()
		p.ended()
		if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
			t.Errorf("%v", status)
		}
	})
	// As when the backup is older than the deletion, of which no informer has heard.
	for name, reloaded := range map[string]bool{"": false, ", with another instance": true} {
		t.Run("preempts again if the deletion of its victim is lost"+name, func(t *testing.T) {
			p, preemptor, _ := begun(t)
			expectWaits(t, p, preemptor)
			if reloaded {
				p.reload()
				p.expectPlace(preemptor, queue.Active)
				expectWaits(t, p, preemptor)
			}
			p.evictor.mu.Lock()
			victim := p.evictor.latest[preemptor.UID].victims[0]
			victim.deletedAt = victim.deletedAt.Add(-lostAfter)
			p.evictor.mu.Unlock()
			p.evictor.retryLost(newEviction([]*preemption{p.evictor.latest[preemptor.UID]}))
			p.expectPlace(preemptor, queue.ErrorBackoff)
			p.queue.Activate(logr.Discard(), map[string]*corev1.Pod{"": preemptor})
			if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
				t.Errorf("%v", status)
			}
		})
	}
	// As the pods of a group that is evicted as a whole. A plugin for which they do not matter has
	// refused the pod.
	for name, inFlight := range map[string]bool{"": false, ", also while it is tried": true} {
		t.Run("is woken by the end of a victim on another node"+name, func(t *testing.T) {
			p := newEnvironment(t)
			here, there, other := p.running("n1", 1)[0], p.running("n2", 1)[0], p.running("n2", 1)[0]
			p.addNode("n1", here)
			p.addNode("n2", there, other)
			preemptor := p.pending(10)
			popped := p.pop(preemptor)
			p.queue.Nominator().AddNominatedPod(logr.Discard(), podInfo(t, preemptor),
				&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
			p.evictor.begin(&handle{environment: p},
				newPreemption(preemptor, "n1", names.DefaultPreemption, []*corev1.Pod{here, there}))
			p.ended()
			taker := p.running("n1", 1)[0]
			must(t, p.cache.RemovePod(logr.Discard(), here))
			must(t, p.cache.AddPod(logr.Discard(), taker))
			if _, status := p.postFilter(preemptor); status.Message() != "preemption: "+terminating {
				t.Errorf("it does not wait for its victim: %v", status)
			}
			refuse := func() {
				popped.UnschedulablePlugins.Insert(names.NodePorts)
				kept, err := p.queue.Requeue(logr.Discard(), popped, nil)
				if must(t, err); !kept {
					t.Fatal("the pod is not kept")
				}
			}
			if !inFlight {
				refuse()
				p.gone(other)
				p.expectPlace(preemptor, queue.Unschedulable)
			}
			p.gone(there)
			if inFlight {
				refuse()
			}
			p.expectPlace(preemptor, queue.Active, queue.Backoff)
		})
	}
	t.Run("preempts elsewhere if it is no longer nominated", func(t *testing.T) {
		p, preemptor, _ := begun(t)
		p.queue.Nominator().DeleteNominatedPodIfExists(preemptor)
		if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
			t.Errorf("%v", status)
		}
	})
	t.Run("preempts elsewhere if its nominated node became unsuitable", func(t *testing.T) {
		p, preemptor, _ := begun(t)
		node, err := p.snapshot.NodeInfos().Get("n1")
		must(t, err)
		cordoned := node.Node().DeepCopy()
		cordoned.Spec.Unschedulable = true
		p.cache.UpdateNode(logr.Discard(), node.Node(), cordoned)
		if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
			t.Errorf("%v", status)
		}
		if nominated := p.queue.Nominator().NominatedPodsForNode("n2"); len(nominated) != 1 {
			t.Errorf("nominated for the other node are %v", nominated)
		}
	})
	t.Run("preempts elsewhere if its node is gone", func(t *testing.T) {
		p, preemptor, _ := begun(t)
		node, err := p.snapshot.NodeInfos().Get("n1")
		must(t, err)
		must(t, p.cache.RemoveNode(logr.Discard(), node.Node()))
		if status := p.attempt(p.pop(preemptor)); !status.IsSuccess() {
			t.Errorf("%v", status)
		}
	})
}

func TestPreemptionClearsNominationsOfLowerPriority(t *testing.T) {
	p := newEnvironment(t)
	victim := p.running("n1", 1)[0]
	p.addNode("n1", victim)
	less, equal, more := p.pending(5), p.pending(10), p.pending(20)
	unknown := p.pending(4) // to the API server
	for _, pod := range []*corev1.Pod{less, equal, more} {
		pod.Status.NominatedNodeName = "n1"
		_, err := p.admin.CoreV1().Pods(namespace).UpdateStatus(p.ctx, pod, metav1.UpdateOptions{})
		must(t, err)
	}
	r := &preemption{preemptor: equal, node: "n1", plugin: names.DefaultPreemption}
	for _, pod := range []*corev1.Pod{less, equal, more, unknown} {
		p.queue.Nominator().AddNominatedPod(logr.Discard(), podInfo(t, pod),
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
	}
	if !p.evictor.clearNominations(p.ctx, r) {
		t.Error("it failed")
	}
	for pod, want := range map[*corev1.Pod]string{less: "", equal: "n1", more: "n1", unknown: ""} {
		now, err := p.admin.CoreV1().Pods(namespace).Get(p.ctx, pod.Name, metav1.GetOptions{})
		must(t, err)
		if got := now.Status.NominatedNodeName; got != want {
			t.Errorf("a pod of priority %d is nominated for %q, not %q", *pod.Spec.Priority, got, want)
		}
	}
	p.calls.set(func(r *http.Request) error { return errForbidden })
	if p.evictor.clearNominations(p.ctx, r) {
		t.Error("a failure goes unnoticed")
	}
}

// TestAPodThatPreemptsNeverLosesItsNomination has a pod that a process has nominated while it bound
// it, before the process ended. Since then, the node has no room.
func TestAPodThatPreemptsNeverLosesItsNomination(t *testing.T) {
	p := newEnvironment(t)
	p.addNode("n1", p.running("n1", 1)...)
	class := objects.PriorityClass("never-"+rand.String(5), 10)
	class.PreemptionPolicy = new(corev1.PreemptNever)
	_, err := p.admin.SchedulingV1().PriorityClasses().Create(p.ctx, class, metav1.CreateOptions{})
	must(t, err)
	pod := p.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "never"},
		Spec: corev1.PodSpec{SchedulerName: "mine", PriorityClassName: class.Name}})
	pod.Status.NominatedNodeName = "n1"
	result, status := p.postFilter(pod)
	if want := "preemption: " + policyNever; status.Message() != want {
		t.Errorf("the message is %q, not %q", status.Message(), want)
	}
	if result == nil || *result.NominatingInfo != (fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}) {
		t.Errorf("its nomination stays: %+v", result)
	}
}

func TestObsoletePreemptionsAreForgotten(t *testing.T) {
	p := newEnvironment(t)
	shared := p.evictor
	standing := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "standing"}}
	nominated := p.pending(10)
	p.queue.Nominator().AddNominatedPod(logr.Discard(), podInfo(t, nominated),
		&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
	elsewhere := func() *victim {
		return &victim{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(rand.String(8))},
			Spec: corev1.PodSpec{NodeName: "n2"}}, state: rejected}
	}
	kept := elsewhere()
	shared.rememberLocked(&preemption{preemptor: nominated, node: "n1", victims: []*victim{elsewhere()}})
	shared.rememberLocked(&preemption{preemptor: nominated, node: "n1", victims: []*victim{kept}})
	shared.rememberLocked(&preemption{preemptor: standing, node: "n1"})
	shared.active[standing.UID] = []*eviction{newEviction([]*preemption{shared.latest[standing.UID]})}
	shared.rejected[kept.pod] = struct{}{}
	for range minSweep - 2 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(rand.String(8))}}
		v := elsewhere()
		shared.rememberLocked(&preemption{preemptor: pod, node: "n1", victims: []*victim{v}})
		shared.rejected[v.pod] = struct{}{}
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.sweepLocked()
	if len(shared.latest) != 2 || shared.latest[nominated.UID] == nil || shared.latest[standing.UID] == nil {
		t.Errorf("kept are %v", shared.latest)
	}
	if len(shared.preemptors) != 1 || len(shared.preemptors[kept.pod.UID]) != 1 {
		t.Errorf("the preemptors by victims are %v", shared.preemptors)
	}
	if _, ok := shared.rejected[kept.pod]; len(shared.rejected) != 1 || !ok {
		t.Errorf("%d victims are kept", len(shared.rejected))
	}
}

func podInfo(t *testing.T, pod *corev1.Pod) *schedframework.PodInfo {
	t.Helper()
	info, err := schedframework.NewPodInfo(pod)
	must(t, err)
	return info
}

func executions(t *testing.T, result string) float64 {
	t.Helper()
	value, err := testutil.GetCounterMetricValue(
		schedmetrics.PreemptionGoroutinesExecutionTotal.WithLabelValues(result))
	must(t, err)
	return value
}

func durations(t *testing.T, result string) (count uint64, seconds float64) {
	t.Helper()
	histogram := schedmetrics.PreemptionGoroutinesDuration.WithLabelValues(result)
	count, err := testutil.GetHistogramMetricCount(histogram)
	must(t, err)
	seconds, err = testutil.GetHistogramMetricValue(histogram)
	must(t, err)
	return count, seconds
}
