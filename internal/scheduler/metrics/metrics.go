// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Values of the label "result" of [Reloads], of the label "queue" of [PendingPods], of the label
// "state" of [BindCalls] and of the label "reason" of [EventsLost].
const (
	// ReloadSucceeded: the new profiles were swapped in.
	ReloadSucceeded = "success"
	// ReloadFailed: a profile could not be built; the previous one keeps running.
	ReloadFailed = "failure"
	// ReloadRejected: the spec of a profile or policy was not accepted; the previous one stays in
	// use.
	ReloadRejected = "rejected"

	// QueueActive are pods that are ready to be scheduled.
	QueueActive = "active"
	// QueueBackoff are pods that wait for the end of their back-off.
	QueueBackoff = "backoff"
	// QueueUnschedulable are pods that wait for an event that may make them schedulable.
	QueueUnschedulable = "unschedulable"
	// QueueGated are pods that a PreEnqueue plugin refuses, such as SchedulingGates.
	QueueGated = "gated"

	// BindCallRunning is a pod that is being bound.
	BindCallRunning = "running"
	// BindCallWaiting is a pod that waits because too many others are being bound.
	BindCallWaiting = "waiting"
	// BindCallOverdue is a pod whose binding has not returned after a minute. It no longer counts
	// as running, and no pod waits for it.
	BindCallOverdue = "overdue"

	// EventLostFull is an Event for which there was no room, since Events are recorded faster than
	// the API server accepts them.
	EventLostFull = "full"
	// EventLostRefused is an Event that the API server refused, or did not answer for minutes.
	EventLostRefused = "refused"
	// EventLostStopped is an Event that could not be written before the process ended.
	EventLostStopped = "stopped"
)

var (
	// Reloads counts reloads of the profile map by result: swaps, failed builds, and specs that
	// were not accepted, once per metadata.generation of an object. A reconciliation without
	// changes is no reload.
	Reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "livesched_reloads_total",
		Help: "Number of reloads of the scheduler profiles, by the result. 'success' means that the new profiles were swapped in, 'failure' that a profile could not be built and the last good one was kept, 'rejected' that the spec of a profile or policy was not accepted.",
	}, []string{"result"})

	// ReloadBuildDuration is the time to build one profile, in seconds: plugins, extenders and the
	// sync of the informers that they use.
	ReloadBuildDuration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "livesched_reload_build_duration_seconds",
		Help: "Time to build a scheduler profile in seconds: its plugins, its extenders and the sync of their informers.",
		// From 0.5 ms, the time of a build without new informers, to 16 s, well past a build that
		// waits for a slow list.
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
	})

	// ReloadSwapDuration is the time from a swap until the last pending pod was moved, in seconds.
	// The new profiles are in use from the beginning of the swap, and scheduling continues during
	// it.
	ReloadSwapDuration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "livesched_reload_swap_duration_seconds",
		Help: "Time in seconds from a swap of the scheduler profiles until all pending pods of changed profiles were checked again. Pods are scheduled during this time.",
		// From 0.1 ms for an empty queue to 3 s for hundreds of thousands of pods.
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
	})

	// ReloadStandstill is the longest time for which a swap held the scheduling queue without a
	// break, in seconds: no pod is popped during that time.
	ReloadStandstill = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "livesched_reload_standstill_duration_seconds",
		Help: "Longest time in seconds for which a swap of the scheduler profiles held the scheduling queue at a stretch, so that no pod could be taken from it.",
		// From 10 us for an empty queue to 0.3 s for the re-ordering of hundreds of thousands of
		// pods.
		Buckets: prometheus.ExponentialBuckets(0.00001, 2, 16),
	})

	// Profiles is the number of profiles in use.
	Profiles = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "livesched_profiles",
		Help: "Number of scheduler profiles that pods are being scheduled with.",
	})

	// ProfileGenerations is the number of profile instances that are not closed: those of
	// [Profiles] and replaced ones that still have pods in flight. It returns to the value of
	// Profiles when these have drained. (The metric's name calls an instance a generation.)
	ProfileGenerations = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "livesched_profile_generations",
		Help: "Number of generations of scheduler profiles alive, those included that were replaced and wait for their last pod to leave.",
	})

	// PendingPods is scheduler_pending_pods by profile. The queue updates it, and deletes the
	// series of removed profiles.
	PendingPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "livesched_pending_pods",
		Help: "Number of pending pods, by the profile and by the queue that they are in: 'active', 'backoff', 'unschedulable' or 'gated'. Pods under way are in none.",
	}, []string{LabelProfile, "queue"})

	// RetiredGenerationPods is the number of pods in flight with a replaced instance of their
	// profile: the instance that a pod was popped with also binds or requeues it. See [AddRetired].
	RetiredGenerationPods = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "livesched_retired_generation_pods",
		Help: "Number of pods under way with a generation of their profile that has been replaced or removed since.",
	}, retired.sum)

	// BindCalls is the number of pods at the last step of their binding, by whether they are being
	// bound, have to wait, or are not waited for any more. Pods that wait on Permit or are in
	// PreBind are not counted.
	BindCalls = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "livesched_bind_calls",
		Help: "Number of pods that are being bound to a node ('running'), wait until fewer are ('waiting'), or are in a call that has not returned for more than a minute ('overdue').",
	}, []string{"state"})

	// PendingEvents is the number of Events that are not written yet. See [AddPendingEvents].
	PendingEvents = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "livesched_pending_events",
		Help: "Number of Events that have not been written yet. Those about pods that were scheduled wait while other pods are being scheduled.",
	}, pendingEvents.sum)

	// CatchingUp is 1 while this replica leads, and does not schedule yet because its cache may
	// lack bindings or allocated devices of the last leader.
	CatchingUp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "livesched_takeover_catching_up",
		Help: "1 while a new leader waits until its cache has the bindings and resource claims of the last leader, otherwise 0. No pods are scheduled during that time.",
	})

	// EventsLost counts Events that were not written, by the reason.
	EventsLost = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "livesched_events_lost_total",
		Help: "Number of Events that were not written: 'full' because too many waited, 'refused' by the API server or after minutes without an answer, 'stopped' because the process ended.",
	}, []string{"reason"})
)

// Values of the label "path" of [Decisions].
const (
	// PathFast: results kept from earlier decisions were used.
	PathFast = "fast"
	// PathScalar: every plugin was run on every node.
	PathScalar = "scalar"
)

var (
	// Decisions counts scheduling decisions by path and reason (see fastpath.Reason): why the
	// scalar path was taken or, on the fast path, why plugins were called node by node or no node
	// was found.
	Decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "livesched_decisions_total",
		Help: "Number of decisions about pods, by the path on which they were made ('fast' or 'scalar') and the reason: for the scalar path, or for which the fast one asked plugins node by node or found no node.",
	}, []string{"path", "reason"})

	// FastPathDifferences counts the decisions that differ between the two paths. It is counted
	// only if both run, with --fast-path=verify.
	FastPathDifferences = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "livesched_fast_path_differences_total",
		Help: "Number of decisions that were another on the fast path than on the scalar path. Counted with --fast-path=verify only. Anything but 0 is a bug.",
	})
)

// Values of the label "result" of [ClassLookups].
const (
	// ClassHit: the class is known.
	ClassHit = "hit"
	// ClassNew: the class is made for the first time, or was forgotten long ago.
	ClassNew = "new"
	// ClassEvicted: the class was evicted not long ago, and is made again.
	ClassEvicted = "evicted"
)

var (
	// FastPathMemory is an estimate of the memory of what the fast path keeps.
	FastPathMemory = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "livesched_fast_path_memory_bytes",
		Help: "Memory of the answers of plugins that the fast path keeps, estimated.",
	})

	// FastPathMemoryLimit is the limit of FastPathMemory.
	FastPathMemoryLimit = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "livesched_fast_path_memory_limit_bytes",
		Help: "Limit of livesched_fast_path_memory_bytes (--fast-path-memory-limit).",
	})

	// FastPathClasses is the number of classes of pods that the fast path keeps.
	FastPathClasses = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "livesched_fast_path_classes",
		Help: "Number of classes of pods for which the fast path keeps answers of plugins.",
	})

	// FastPathLabelKeys is the number of label keys that distinguish classes.
	FastPathLabelKeys = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "livesched_fast_path_label_keys",
		Help: "Number of keys of pod labels that selectors read, and that therefore distinguish classes of pods. Above 256, all labels do.",
	})

	// ClassLookups counts the lookups of pods' classes by result.
	ClassLookups = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "livesched_fast_path_class_lookups_total",
		Help: "Number of lookups of pods' classes, by result: 'hit', 'new', or 'evicted' if the class was evicted not long ago because of the memory limit.",
	}, []string{"result"})

	// FastPathEvictions counts the classes that were evicted because of the memory limit.
	FastPathEvictions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "livesched_fast_path_evictions_total",
		Help: "Number of classes of pods that the fast path has evicted because of its memory limit.",
	})
)

var (
	// ExtenderCircuitOpen is 1 while a verb of an extender is not called because its last calls
	// failed, otherwise 0. Package extender deletes the series of extenders that no profile has.
	ExtenderCircuitOpen = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "livesched_extender_circuit_open",
		Help: "1 while a verb of an extender is not called because its last calls failed, otherwise 0. Pods that need the extender fail during that time, unless it is ignorable.",
	}, []string{"policy", "extender", "verb"})

	// ExtenderFailures counts the calls of extenders that failed.
	ExtenderFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "livesched_extender_failures_total",
		Help: "Number of calls of extenders that failed: no valid answer in time. An error that an extender reports in a valid answer is not counted.",
	}, []string{"policy", "extender", "verb"})
)

// APIServerVersion is 1 for the version that the API server had when the process started, and how
// that compares with the versions that livesched is tested with: see version.Skew.
var APIServerVersion = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "livesched_apiserver_version_info",
	Help: "1 for the version of the API server at the start of livesched. 'skew' is 'tested' if livesched is tested with this version, otherwise 'older' or 'newer' than those that it is tested with, or 'unknown'.",
}, []string{"git_version", "skew"})

// HandlerPanics counts panics of event handlers that plugins added to informers, by plugin and kind
// of object.
var HandlerPanics = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "livesched_plugin_event_handler_panics_total",
	Help: "Number of panics of event handlers of plugins, by plugin and kind of the objects that the handler receives.",
}, []string{"plugin", "kind"})

// SlowCycles counts the scheduling cycles that took long, by profile. A series is deleted with
// those that [FindSeries] finds.
var SlowCycles = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "livesched_slow_scheduling_cycles_total",
	Help: "Number of scheduling cycles that took 100 ms or longer, by profile. The log lists what took longest in each.",
}, []string{LabelProfile})

// Values of the label "result" of [PodGroupScheduling].
const (
	// GroupScheduled: enough pods of the group got a node.
	GroupScheduled = "scheduled"
	// GroupUnschedulable: too few pods fit. The group may evict others.
	GroupUnschedulable = "unschedulable"
	// GroupFailed: a pod met an error.
	GroupFailed = "error"
)

// Values of the label "state" of livesched_pending_pod_groups.
const (
	// GroupIncomplete: too few pods of the group are ready to be tried.
	GroupIncomplete = "incomplete"
	// GroupComplete: enough pods are ready, and wait for their turn or for room.
	GroupComplete = "complete"
)

var (
	// PodGroupScheduling is the time to decide about a group of pods, by profile and result: to
	// place its pods, or to find that too few fit and whom to evict. A series is deleted with those
	// that [FindSeries] finds.
	PodGroupScheduling = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "livesched_pod_group_scheduling_duration_seconds",
		Help: "Time in seconds to decide about a group of pods, by the profile and the result: 'scheduled', 'unschedulable' or 'error'. Binding is not included.",
		// From 0.1 ms for a small group to 3 s for thousands of pods that evict others.
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
	}, []string{LabelProfile, "result"})

	// incompleteGroups and completeGroups are the groups with pods in the queue. See
	// [AddPendingGroups].
	incompleteGroups = pendingPodGroups(GroupIncomplete, &pendingIncomplete)
	completeGroups   = pendingPodGroups(GroupComplete, &pendingComplete)
)

func pendingPodGroups(state string, of *sources) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "livesched_pending_pod_groups",
		Help:        "Number of groups with pending pods, by whether too few of their pods are ready ('incomplete') or enough, which wait for their turn or for room ('complete').",
		ConstLabels: prometheus.Labels{"state": state},
	}, of.sum)
}

var registerOnce sync.Once

// Register registers kube-scheduler's metrics and livesched's and makes the manager's metrics
// endpoint serve both. It must be called after the feature gates are set, since some of
// kube-scheduler's metrics depend on them; before the manager is started, which reads
// controller-runtime's registry variable once; and before the first plugin is built, since plugins
// require these metrics. Further calls do nothing.
func Register() {
	registerOnce.Do(func() {
		schedmetrics.Register()

		own := ctrlmetrics.Registry
		own.MustRegister(Reloads, ReloadBuildDuration, ReloadSwapDuration, ReloadStandstill, Profiles, ProfileGenerations, PendingPods, RetiredGenerationPods,
			APIServerVersion, HandlerPanics, ExtenderCircuitOpen, ExtenderFailures, BindCalls, PendingEvents, CatchingUp, EventsLost, SlowCycles, PodGroupScheduling, incompleteGroups, completeGroups, Decisions, FastPathDifferences,
			FastPathMemory, FastPathMemoryLimit, FastPathClasses, FastPathLabelKeys, ClassLookups, FastPathEvictions)
		for _, result := range []string{ReloadSucceeded, ReloadFailed, ReloadRejected} {
			Reloads.WithLabelValues(result)
		}
		for _, state := range []string{BindCallRunning, BindCallWaiting, BindCallOverdue} {
			BindCalls.WithLabelValues(state)
		}
		for _, result := range []string{ClassHit, ClassNew, ClassEvicted} {
			ClassLookups.WithLabelValues(result)
		}
		for _, reason := range []string{EventLostFull, EventLostRefused, EventLostStopped} {
			EventsLost.WithLabelValues(reason)
		}
		ctrlmetrics.Registry = mergedRegistry{
			Registerer: own,
			Gatherer:   union{first: own, second: legacyregistry.DefaultGatherer},
		}
	})
}

// mergedRegistry registers in one registry and gathers from several.
type mergedRegistry struct {
	prometheus.Registerer
	prometheus.Gatherer
}
