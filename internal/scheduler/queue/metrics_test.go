// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

// gathered returns the values, other than 0, of the metrics that begin with one of the prefixes, by
// "name{label values}". The value of a histogram is its count.
func gathered(t *testing.T, prefixes ...string) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if !slices.ContainsFunc(prefixes,
			func(prefix string) bool { return strings.HasPrefix(family.GetName(), prefix) }) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			key := strings.TrimPrefix(family.GetName(), "scheduler_") + "{" + strings.Join(labels, ",") + "}"
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount()); v != 0 {
				values[key] = v
			}
		}
	}
	return values
}

// byEntity turns the values of a metric of pods into those of a metric of entities, for pods that
// are in no group.
func byEntity(pods map[string]float64, from, to string) map[string]float64 {
	entities := map[string]float64{}
	for key, v := range pods {
		labels := strings.TrimSuffix(strings.TrimPrefix(key, from+"{"), "}")
		entities[to+"{"+labels+",pod}"] = v
	}
	return entities
}

// since returns the changes of the metrics since before.
func since(t *testing.T, prefix string, before map[string]float64) map[string]float64 {
	t.Helper()
	delta := gathered(t, prefix)
	for key, v := range before {
		delta[key] -= v
	}
	for key, v := range delta {
		if v == 0 {
			delete(delta, key)
		}
	}
	return delta
}

func TestPendingGauges(t *testing.T) {
	pending, reasons := gathered(t, "scheduler_pending_pods"), gathered(t, "scheduler_unschedulable_pods")
	entities := gathered(t, "scheduler_queued_entities")
	shut := newDoor("G", nil)
	f := newFixture(t, preEnqueueOf(shut))
	expect := func(wantPending, wantReasons map[string]float64) {
		t.Helper()
		f.Expect(since(t, "scheduler_pending_pods", pending)).To(Equal(wantPending))
		f.Expect(since(t, "scheduler_queued_entities", entities)).
			To(Equal(byEntity(wantPending, "pending_pods", "queued_entities")))
		f.Expect(since(t, "scheduler_unschedulable_pods", reasons)).To(Equal(wantReasons))
	}
	none := map[string]float64{}
	f.Add(logger, newPod("a"))
	expect(map[string]float64{"pending_pods{active}": 1}, none)
	p := f.pop()
	expect(none, none)
	f.giveBack(p, []string{"A", "B"}, []string{"B"})
	expect(map[string]float64{"pending_pods{unschedulable}": 1},
		map[string]float64{"unschedulable_pods{A,default}": 1, "unschedulable_pods{B,default}": 1})
	shut.status = refusal
	f.event(nodeAdded)
	expect(map[string]float64{"pending_pods{gated}": 1},
		map[string]float64{"unschedulable_pods{A,default}": 1, "unschedulable_pods{B,default}": 1,
			"unschedulable_pods{G,default}": 1})
	shut.status = fwk.AsStatus(errors.New("sorry"))
	f.clock.Step(time.Hour)
	f.flushNow()
	expect(map[string]float64{"pending_pods{backoff}": 1},
		map[string]float64{"unschedulable_pods{A,default}": 1, "unschedulable_pods{B,default}": 1,
			"unschedulable_pods{G,default}": 1})
	shut.status = nil
	f.step(time.Hour)
	expect(map[string]float64{"pending_pods{active}": 1},
		map[string]float64{"unschedulable_pods{A,default}": 1, "unschedulable_pods{B,default}": 1,
			"unschedulable_pods{G,default}": 1})
	f.Reconfigure(logger, f.with(profileOf()), sets.New("default"))
	expect(map[string]float64{"pending_pods{active}": 1}, none)
	f.reject("A")
	f.event(nodeAdded)
	expect(map[string]float64{"pending_pods{backoff}": 1}, map[string]float64{"unschedulable_pods{A,default}": 1})
	f.Reconfigure(logger, &Settings{}, nil)
	expect(none, none)

	f.Reconfigure(logger, f.settings, nil)
	for _, name := range []string{"deleted", "deleted while active", "dropped", "updated away"} {
		pod := newPod(name)
		f.Add(logger, pod)
		f.reject("A")
		switch name {
		case "deleted":
			f.event(nodeAdded)
			f.Delete(logger, pod)
		case "deleted while active":
			f.event(nodeAdded)
			f.step(time.Minute)
			f.Expect(f.place(pod)).To(Equal(Active))
			f.Delete(logger, pod)
		case "updated away":
			f.Update(logger, pod, objects.Edited(pod, scheduler("other")))
		}
	}
	expect(map[string]float64{"pending_pods{unschedulable}": 1}, map[string]float64{"unschedulable_pods{A,default}": 1})
	f.Reconfigure(logger, nil, nil)
	expect(none, none)
}

func TestPendingPodsOfProfiles(t *testing.T) {
	families := func() int {
		return testutil.CollectAndCount(ownmetrics.PendingPods)
	}
	f := newFixture(t)
	f.settings.Profiles["other"] = profileOf()
	f.Reconfigure(logger, f.settings, nil)
	pending := gathered(t, "livesched_pending_pods")
	series := families()
	f.Add(logger, newPod("a"))
	f.Add(logger, newPod("b", scheduler("other")))
	f.Expect(since(t, "livesched_pending_pods", pending)).To(Equal(map[string]float64{
		"livesched_pending_pods{default,active}": 1, "livesched_pending_pods{other,active}": 1,
	}))
	f.reject("A")
	p := f.pop()
	f.Expect(since(t, "livesched_pending_pods", pending)).
		To(Equal(map[string]float64{"livesched_pending_pods{default,unschedulable}": 1}),
			"a pod under way is in no queue")
	delete(f.settings.Profiles, "other")
	f.Reconfigure(logger, f.settings, sets.New("other"))
	f.Expect(families()).To(Equal(series-4), "a profile that is gone leaves no series")
	p.UnschedulablePlugins = sets.New("A")
	f.Expect(f.Requeue(logger, p, nil)).To(BeFalse())
	f.Expect(families()).To(Equal(series-4), "nor does its last pod make any")
	f.settings.Profiles["other"] = profileOf()
	f.Reconfigure(logger, f.settings, nil)
	f.Expect(families()).To(Equal(series), "one without pods has its series, at 0")
}

func TestIncomingPods(t *testing.T) {
	before, entities := gathered(t, "scheduler_queue_incoming_pods"), gathered(t, "scheduler_queue_incoming_entities")
	shut := newDoor("A", refusal)
	f := newFixture(t, preEnqueueOf(shut))
	f.Add(logger, newPod("a"))
	f.event(nodeAdded) // still gated: no pod came in
	shut.status = nil
	f.event(nodeAdded)
	f.reject("A")
	f.event(nodeAdded)
	f.step(time.Minute)
	f.reject("A")
	shut.status = refusal
	f.event(nodeAdded) // from unschedulable to gated: no pod came in
	shut.status = nil
	f.event(nodeAdded)
	f.pop()
	f.Update(logger, nil, newPod("b"))
	pod := f.reject()
	f.Activate(logger, map[string]*corev1.Pod{"": pod})
	want := map[string]float64{
		"queue_incoming_pods_total{UnscheduledPodAdd,unschedulable}":      1,
		"queue_incoming_pods_total{NodeAdd,active}":                       1,
		"queue_incoming_pods_total{ScheduleAttemptFailure,unschedulable}": 2,
		"queue_incoming_pods_total{NodeAdd,backoff}":                      2,
		"queue_incoming_pods_total{BackoffComplete,active}":               1,
		"queue_incoming_pods_total{PopFromBackoffQ,active}":               1,
		"queue_incoming_pods_total{UnscheduledPodUpdate,active}":          1,
		"queue_incoming_pods_total{ScheduleAttemptFailure,backoff}":       1,
		"queue_incoming_pods_total{ForceActivate,active}":                 1,
	}
	f.Expect(since(t, "scheduler_queue_incoming_pods", before)).To(Equal(want))
	f.Expect(since(t, "scheduler_queue_incoming_entities", entities)).
		To(Equal(byEntity(want, "queue_incoming_pods_total", "queue_incoming_entities_total")),
			"a pod without a group is an entity")
}

// A group counts once, in the foremost queue in which it has pods.
func TestEntitiesOfGroups(t *testing.T) {
	queued, incoming := gathered(t, "scheduler_queued_entities"), gathered(t, "scheduler_queue_incoming_entities")
	f, groups := withGroups(t)
	expect := func(when string, want map[string]float64) {
		t.Helper()
		f.Expect(since(t, "scheduler_queued_entities", queued)).To(Equal(want), when)
		f.Expect(f.checkLocked()).To(Succeed())
	}
	none := map[string]float64{}
	active, backoff := map[string]float64{"queued_entities{active,podgroup}": 1},
		map[string]float64{"queued_entities{backoff,podgroup}": 1}
	unschedulable, gated := map[string]float64{"queued_entities{unschedulable,podgroup}": 1},
		map[string]float64{"queued_entities{gated,podgroup}": 1}

	f.setGroup("g", 3)
	a, b, c := newPod("a", memberOf("g")), newPod("b", memberOf("g")), newPod("c", memberOf("g"))
	f.Add(logger, a)
	f.Add(logger, b)
	expect("two pods of three", gated)
	f.Add(logger, c)
	expect("all are ready", active)
	f.Add(logger, newPod("late", memberOf("g"), func(pod *corev1.Pod) { pod.Labels["late"] = "" }))
	expect("one more", active)
	popped, names := f.popGroup()
	f.Expect(names).To(HaveLen(4))
	expect("it is being tried", none)
	f.refuseGroup(popped)
	expect("it was refused", unschedulable)
	f.event(nodeAdded)
	expect("an event may help it", backoff)
	popped, names = f.popGroup()
	f.Expect(names).To(HaveLen(4))
	expect("it was taken before its back-off was over", none)
	f.refuseGroup(popped)
	f.step(time.Minute)
	f.event(nodeAdded)
	expect("an event may help it, and its back-off is over", active)
	f.Expect(since(t, "scheduler_queue_incoming_entities", incoming)).To(Equal(map[string]float64{
		"queue_incoming_entities_total{UnscheduledPodAdd,unschedulable,podgroup}":      1,
		"queue_incoming_entities_total{UnscheduledPodAdd,active,podgroup}":             1,
		"queue_incoming_entities_total{ScheduleAttemptFailure,unschedulable,podgroup}": 2,
		"queue_incoming_entities_total{NodeAdd,backoff,podgroup}":                      1,
		"queue_incoming_entities_total{PopFromBackoffQ,active,podgroup}":               1,
		"queue_incoming_entities_total{NodeAdd,active,podgroup}":                       1,
	}))

	groups.SetServed(podgroup.SchedulerPlugins, func() bool { return false }, nil)
	f.Reconfigure(logger, f.settings, sets.New("default"))
	expect("PodGroups are not served any more", map[string]float64{"queued_entities{active,pod}": 4})
	groups.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, nil)
	f.GroupChanged(logger, podgroup.KeyOf(a))
	expect("they are served again", active)
	f.Update(logger, a, objects.Edited(a, func(pod *corev1.Pod) { pod.Labels = nil }))
	expect("a pod leaves its group", map[string]float64{
		"queued_entities{active,podgroup}": 1, "queued_entities{active,pod}": 1,
	})
	for _, pod := range []*corev1.Pod{a, b, c, newPod("late")} {
		f.Delete(logger, pod)
	}
	expect("its pods are gone", none)
}

func TestInFlightGauges(t *testing.T) {
	before := gathered(t, "scheduler_inflight")
	f := newFixture(t)
	f.Add(logger, newPod("a"))
	f.Add(logger, newPod("b"))
	first, second := f.pop(), f.pop()
	f.event(nodeAdded)
	f.event(claimAdded)
	f.event(nodeAdded)
	f.Expect(since(t, "scheduler_inflight", before)).To(Equal(map[string]float64{
		"inflight_events{PodPopped}": 2, "inflight_events{NodeAdd}": 2, "inflight_events{PersistentVolumeClaimAdd}": 1,
	}))
	f.Done(second.Pod.UID)
	f.Reconfigure(logger, f.settings, sets.New("default"))
	f.giveBack(first, nil, nil)
	f.Expect(since(t, "scheduler_inflight", before)).To(BeEmpty())
	f.pop()
	f.event(nodeAdded)
	f.Close()
	f.Expect(since(t, "scheduler_inflight", before)).To(BeEmpty())
}

func TestDurations(t *testing.T) {
	hints := gathered(t, "scheduler_queueing_hint")
	points, plugins := gathered(t, "scheduler_framework_extension_point"), gathered(t, "scheduler_plugin_execution")
	stop := make(chan struct{})
	close(stop) // the test flushes
	recorder := schedmetrics.NewMetricsAsyncRecorder(1000, time.Hour, stop)
	f := newFixture(t)
	f.metrics.async = recorder
	shut := newDoor("G", nil)
	f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(shut), func(p *ProfileSettings) {
		p.Hints = HintMap{nodeAdded: {hintOf("A", fwk.QueueSkip, nil), hintOf("B", fwk.Queue, nil),
			hintOf("C", 0, errors.New("sorry"))}}
	})), nil)
	for _, name := range []string{"A", "B", "C"} {
		f.Add(logger, newPod(name))
		f.reject(name)
	}
	f.event(nodeAdded)
	for range 200 { // a tenth of the calls of plugins is recorded
		pod := newPod("x")
		f.Add(logger, pod)
		f.Delete(logger, pod)
	}
	recorder.FlushMetrics()
	f.Expect(since(t, "scheduler_queueing_hint", hints)).To(Equal(map[string]float64{
		"queueing_hint_execution_duration_seconds{NodeAdd,QueueSkip,A}": 1,
		"queueing_hint_execution_duration_seconds{NodeAdd,Queue,B}":     1,
		"queueing_hint_execution_duration_seconds{NodeAdd,Error,C}":     1,
	}))
	f.Expect(since(t, "scheduler_framework_extension_point", points)).To(Equal(map[string]float64{
		"framework_extension_point_duration_seconds{PreEnqueue,default,Success}": 205,
	}))
	f.Expect(since(t, "scheduler_plugin_execution", plugins)).To(HaveKeyWithValue(
		"plugin_execution_duration_seconds{PreEnqueue,G,Success}", And(BeNumerically(">", 0), BeNumerically("<", 100))))
}
