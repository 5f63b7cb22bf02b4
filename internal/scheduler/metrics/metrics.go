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
	Reloads = newCounterVec("livesched_reloads_total",
		"Number of reloads of the scheduler profiles, by the result. 'success' means that the new profiles were "+
			"swapped in, 'failure' that a profile could not be built and the last good one was kept, 'rejected' that "+
			"the spec of a profile or policy was not accepted.", "result")

	// ReloadBuildDuration is the time to build one profile, in seconds: plugins, extenders and the
	// sync of the informers that they use.
	// Its buckets go from 0.5 ms, the time of a build without new informers, to 16 s, well past a
	// build that waits for a slow list.
	ReloadBuildDuration = newHistogram("livesched_reload_build_duration_seconds", 0.0005,
		"Time to build a scheduler profile in seconds: its plugins, its extenders and the sync of their informers.")

	// ReloadSwapDuration is the time from a swap until the last pending pod was moved, in seconds.
	// The new profiles are in use from the beginning of the swap, and scheduling continues during
	// it.
	// Its buckets go from 0.1 ms for an empty queue to 3 s for hundreds of thousands of pods.
	ReloadSwapDuration = newHistogram("livesched_reload_swap_duration_seconds", 0.0001,
		"Time in seconds from a swap of the scheduler profiles until all pending pods of changed profiles were "+
			"checked again. Pods are scheduled during this time.")

	// ReloadStandstill is the longest time for which a swap held the scheduling queue without a
	// break, in seconds: no pod is popped during that time.
	// Its buckets go from 10 us for an empty queue to 0.3 s for the re-ordering of hundreds of
	// thousands of pods.
	ReloadStandstill = newHistogram("livesched_reload_standstill_duration_seconds", 0.00001,
		"Longest time in seconds for which a swap of the scheduler profiles held the scheduling queue at a stretch, "+
			"so that no pod could be taken from it.")
	// Profiles is the number of active profiles.
	Profiles = newGauge("livesched_profiles",
		"Number of scheduler profiles that pods are being scheduled with.")

	// ProfileGenerations is the number of profile instances that are not closed: the
	// active ones (see [Profiles]) and replaced ones that still have pods in flight. It returns to
	// the value of Profiles when these have drained. (The metric's name calls an instance a
	// generation.)
	ProfileGenerations = newGauge("livesched_profile_generations",
		"Number of generations of scheduler profiles alive, those included that were replaced and wait for their "+
			"last pod to leave.")

	// PendingPods is scheduler_pending_pods by profile. The queue updates it, and deletes the
	// series of removed profiles.
	PendingPods = newGaugeVec("livesched_pending_pods",
		"Number of pending pods, by the profile and by the queue that they are in: 'active', 'backoff', "+
			"'unschedulable' or 'gated'. Pods under way are in none.", LabelProfile, "queue")

	// RetiredGenerationPods is the number of pods in flight with a replaced instance of their
	// profile: the instance that a pod was popped with also binds or requeues it. See [AddRetired].
	RetiredGenerationPods = newGaugeFunc(&retired, nil, "livesched_retired_generation_pods",
		"Number of pods under way with a generation of their profile that has been replaced or removed since.")

	// BindCalls is the number of pods at the last step of their binding, by whether they are being
	// bound, have to wait, or are not waited for any more. Pods that wait on Permit or are in
	// PreBind are not counted.
	BindCalls = newGaugeVec("livesched_bind_calls",
		"Number of pods that are being bound to a node ('running'), wait until fewer are ('waiting'), or are in a "+
			"call that has not returned for more than a minute ('overdue').", "state")

	// PendingEvents is the number of Events that are not written yet. See [AddPendingEvents].
	PendingEvents = newGaugeFunc(&pendingEvents, nil, "livesched_pending_events",
		"Number of Events that have not been written yet. Those about pods that were scheduled wait while other pods "+
			"are being scheduled.")

	// CatchingUp is 1 while this replica leads, and does not schedule yet because its cache may
	// lack bindings or allocated devices of the last leader.
	CatchingUp = newGauge("livesched_takeover_catching_up",
		"1 while a new leader waits until its cache has the bindings and resource claims of the last leader, "+
			"otherwise 0. No pods are scheduled during that time.")
	// EventsLost counts the Events that were not written.
	EventsLost = newCounterVec("livesched_events_lost_total",
		"Number of Events that were not written: 'full' because too many waited, 'refused' by the API server or "+
			"after minutes without an answer, 'stopped' because the process ended.", "reason")
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
	Decisions = newCounterVec("livesched_decisions_total",
		"Number of decisions about pods, by the path on which they were made ('fast' or 'scalar') and the reason: "+
			"for the scalar path, or for which the fast one asked plugins node by node or found no node.", "path",
		"reason")

	// FastPathDifferences counts the decisions that differ between the two paths. It is counted
	// only if both run, with --fast-path=verify.
	FastPathDifferences = newCounter("livesched_fast_path_differences_total",
		"Number of decisions that were another on the fast path than on the scalar path. Counted with "+
			"--fast-path=verify only. Anything but 0 is a bug.")
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
	// FastPathMemory and FastPathMemoryLimit are in bytes.
	FastPathMemory = newGauge("livesched_fast_path_memory_bytes",
		"Memory of the answers of plugins that the fast path keeps, estimated.")
	// FastPathMemoryLimit is the limit of FastPathMemory.
	FastPathMemoryLimit = newGauge("livesched_fast_path_memory_limit_bytes",
		"Limit of livesched_fast_path_memory_bytes (--fast-path-memory-limit).")
	// FastPathClasses is the number of classes of pods that the fast path knows.
	FastPathClasses = newGauge("livesched_fast_path_classes",
		"Number of classes of pods for which the fast path keeps answers of plugins.")
	// FastPathLabelKeys is the number of label keys that tell classes apart.
	FastPathLabelKeys = newGauge("livesched_fast_path_label_keys",
		"Number of keys of pod labels that selectors read, and that therefore distinguish classes of pods, in the "+
			"namespace with the most. Above 256, all labels of a namespace do.")
	// ClassLookups counts the searches for the class of a pod.
	ClassLookups = newCounterVec("livesched_fast_path_class_lookups_total",
		"Number of lookups of pods' classes, by result: 'hit', 'new', or 'evicted' if the class was evicted not long "+
			"ago because of the memory limit.", "result")
	// FastPathEvictions counts what the fast path forgot for want of memory.
	FastPathEvictions = newCounter("livesched_fast_path_evictions_total",
		"Number of classes of pods that the fast path has evicted because of its memory limit.")
	// FastPathDeviceDecisions counts decisions about pods with devices.
	FastPathDeviceDecisions = newCounterVec("livesched_fast_path_device_decisions_total",
		"Number of decisions about pods with devices. 'without' is empty if the fast path keeps which nodes have "+
			"suitable devices, otherwise it is the reason for which the plugin runs on the nodes.", "without")
	// FastPathDeviceMisses counts the decisions that were repeated because of devices.
	FastPathDeviceMisses = newCounter("livesched_fast_path_device_misses_total",
		"Number of decisions that were made again, on the scalar path, because the devices of the chosen node could "+
			"not be allocated although the fast path had found that they can.")
)

var (
	// ExtenderCircuitOpen is 1 while a verb of an extender is not called because its last calls
	// failed, otherwise 0. Package extender deletes the series of extenders that no profile has.
	ExtenderCircuitOpen = newGaugeVec("livesched_extender_circuit_open",
		"1 while a verb of an extender is not called because its last calls failed, otherwise 0. Pods that need the "+
			"extender fail during that time, unless it is ignorable.", "policy", "extender", "verb")
	// ExtenderFailures counts the calls that got no valid answer.
	ExtenderFailures = newCounterVec("livesched_extender_failures_total",
		"Number of calls of extenders that failed: no valid answer in time. An error that an extender reports in a "+
			"valid answer is not counted.", "policy", "extender", "verb")
)

// ShadowDecisions counts the decisions of a profile that its shadows were to make as well, by the
// name of the shadow and the result: see v1alpha1.ShadowStatus. [ForgetShadow] deletes the series
// of a shadow.
var ShadowDecisions = newCounterVec("livesched_shadow_decisions_total",
	"Number of decisions that a shadow profile compared with its own, by the name of its SchedulerProfile and by "+
		"the result: 'agreed', 'node_scored_lower', 'node_refused', 'active_only_fits', 'shadow_only_fits', or "+
		"'skipped' if it made no decision.", "shadow", "result")

// ForgetShadow deletes the series of a shadow.
func ForgetShadow(name string) { ShadowDecisions.DeletePartialMatch(prometheus.Labels{"shadow": name}) }

// APIServerVersion is 1 for the version that the API server had when the process started, and how
// that compares with the versions that livesched is tested with: see version.Skew.
var APIServerVersion = newGaugeVec("livesched_apiserver_version_info",
	"1 for the version of the API server at the start of livesched. 'skew' is 'tested' if livesched is tested with "+
		"this version, otherwise 'older' or 'newer' than those that it is tested with, or 'unknown'.", "git_version",
	"skew")

// HandlerPanics counts panics of event handlers that plugins added to informers, by plugin and kind
// of object.
var HandlerPanics = newCounterVec("livesched_plugin_event_handler_panics_total",
	"Number of panics of event handlers of plugins, by plugin and kind of the objects that the handler receives.",
	"plugin", "kind")

// SlowCycles counts the scheduling cycles that took long, by profile. A series is deleted with
// those that [FindSeries] finds.
var SlowCycles = newCounterVec("livesched_slow_scheduling_cycles_total",
	"Number of scheduling cycles that took 100 ms or longer, by profile. The log lists what took longest in each.",
	LabelProfile)

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
	// Its buckets go from 0.1 ms for a small group to 3 s for thousands of pods that evict others.
	PodGroupScheduling = newHistogramVec("livesched_pod_group_scheduling_duration_seconds", 0.0001,
		"Time in seconds to decide about a group of pods, by the profile and the result: 'scheduled', "+
			"'unschedulable' or 'error'. Binding is not included.", LabelProfile, "result")

	// The groups with pods in the queue. See [AddPendingGroups].
	_ = pendingPodGroups(GroupIncomplete, &pendingIncomplete)
	_ = pendingPodGroups(GroupComplete, &pendingComplete)
)

func pendingPodGroups(state string, of *sources) prometheus.GaugeFunc {
	return newGaugeFunc(of, prometheus.Labels{"state": state}, "livesched_pending_pod_groups",
		"Number of groups with pending pods, by whether too few of their pods are ready ('incomplete') or enough, "+
			"which wait for their turn or for room ('complete').")
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

		registry := ctrlmetrics.Registry
		registry.MustRegister(collectors...)
		zero(Reloads, ReloadSucceeded, ReloadFailed, ReloadRejected)
		zero(BindCalls, BindCallRunning, BindCallWaiting, BindCallOverdue)
		zero(ClassLookups, ClassHit, ClassNew, ClassEvicted)
		zero(EventsLost, EventLostFull, EventLostRefused, EventLostStopped)
		ctrlmetrics.Registry = mergedRegistry{registry, union{first: registry, second: legacyregistry.DefaultGatherer}}
	})
}

// mergedRegistry registers in one registry and gathers from several.
type mergedRegistry struct {
	prometheus.Registerer
	prometheus.Gatherer
}
