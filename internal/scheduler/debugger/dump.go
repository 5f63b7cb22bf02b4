// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Bounds of the output: lines of one kind, and pods on one line.
const (
	maxLines       = 5000
	maxPodsPerLine = 100
)

// lines writes log lines of one kind, until there are too many.
type lines struct {
	logger  klog.Logger
	what    string
	written int
	omitted int
}

func (l *lines) write(keysAndValues ...any) {
	if l.written == maxLines {
		l.omitted++
		return
	}
	l.written++
	l.logger.Info(l.what, keysAndValues...)
}

func (l *lines) end() {
	if l.omitted > 0 {
		l.logger.Info("Omitted further entries", "what", l.what, "omitted", l.omitted)
	}
}

func (d *Debugger) dump(logger klog.Logger, state *State) {
	d.dumpSummary(logger, state)
	d.dumpProfiles(logger)
	d.dumpWaiting(logger)
	dumpNodes(logger, state)
	dumpQueue(logger, state)
	dumpNominations(logger, state)
}

func (d *Debugger) dumpSummary(logger klog.Logger, state *State) {
	pods := 0
	for _, info := range state.Cache.Nodes {
		pods += len(info.Pods)
	}
	places := map[queue.Place]int{}
	for i := range state.Queue {
		places[state.Queue[i].Place]++
	}
	logger.Info("Dump", "leading", d.Leading.Load(), "nodes", len(state.Cache.Nodes), "pods", pods, "assumed",
		len(state.Cache.AssumedPods),
		"active", places[queue.Active], "backoff", places[queue.Backoff], "errorBackoff", places[queue.ErrorBackoff],
		"unschedulable", places[queue.Unschedulable], "gated", places[queue.Gated], "inFlight", places[queue.InFlight],
		"nominated", len(state.Nominations), "waitingOnPermit", d.WaitingPods.Len())
}

func (d *Debugger) dumpProfiles(logger klog.Logger) {
	l := lines{logger: logger, what: "Profile"}
	defer l.end()
	for p := range d.Profiles.Current().Deciding() {
		l.write("schedulerName", p.SchedulerName(), "revision", p.Config.Revision, "canary", p.IsCanary(),
			"built", stamp(p.Built))
	}
}

func (d *Debugger) dumpWaiting(logger klog.Logger) {
	l := lines{logger: logger, what: "Pod waiting on Permit"}
	defer l.end()
	d.WaitingPods.Iterate(func(w fwk.WaitingPod) {
		pod := w.GetPod()
		l.write("pod", klog.KObj(pod), "uid", pod.UID, "node", pod.Spec.NodeName, "plugins", w.GetPendingPlugins())
	})
}

// dumpNodes writes a line for each node, and more for nodes with many pods.
func dumpNodes(logger klog.Logger, state *State) {
	l := lines{logger: logger, what: "Node"}
	defer l.end()
	for _, name := range slices.Sorted(maps.Keys(state.Cache.Nodes)) {
		info := state.Cache.Nodes[name]
		l.write("node", name, "known", info.Node() != nil, "requested", format(info.Requested), "allocatable",
			format(info.Allocatable),
			"pods", len(info.Pods), "room", info.Allocatable.AllowedPodNumber)
		for pods := range slices.Chunk(info.Pods, maxPodsPerLine) {
			l.write("node", name, "has", podsOf(state, pods))
		}
	}
}

// podsOf lists pods of a node; those that are assumed have a star.
func podsOf(state *State, pods []fwk.PodInfo) string {
	var b strings.Builder
	for i, p := range pods {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(klog.KObj(p.GetPod()).String())
		if state.Cache.AssumedPods.Has(p.GetPod().UID) {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// dumpQueue writes a line for each pod in the queue, with the fields that are set.
func dumpQueue(logger klog.Logger, state *State) {
	l := lines{logger: logger, what: "Queued pod"}
	defer l.end()
	for i := range state.Queue {
		s := &state.Queue[i]
		fields := []any{"pod", klog.KObj(s.Pod), "uid", s.Pod.UID, "schedulerName", s.Pod.Spec.SchedulerName, "place",
			s.Place.String()}
		if s.Place != queue.InFlight { // the other fields belong to its cycle
			fields = append(fields, "attempts", s.Attempts, "since", stamp(s.Timestamp))
		}
		fields = appendSet(fields, "unschedulablePlugins", strings.Join(s.UnschedulablePlugins, ","))
		fields = appendSet(fields, "pendingPlugins", strings.Join(s.PendingPlugins, ","))
		fields = appendSet(fields, "gatingPlugin", s.GatingPlugin)
		fields = appendSet(fields, "error", s.Error)
		if !s.BackoffEnd.IsZero() {
			fields = append(fields, "backoffEnd", stamp(s.BackoffEnd))
		}
		l.write(fields...)
	}
}

func dumpNominations(logger klog.Logger, state *State) {
	l := lines{logger: logger, what: "Nominated pod"}
	defer l.end()
	for _, n := range state.Nominations {
		l.write("pod", klog.KObj(n.Pod), "uid", n.Pod.UID, "node", n.Node, "requests",
			format(requestsOf(&schedframework.PodInfo{Pod: n.Pod})))
	}
}

func logDifferences(logger klog.Logger, differences []Difference) {
	l := lines{logger: logger, what: "The API server has something else"}
	defer l.end()
	for _, d := range differences {
		fields := []any{"kind", d.Kind, "object", d.Object, "detail", d.Detail}
		l.write(appendSet(fields, "uid", string(d.UID))...)
	}
	logger.Info("Cache, queue or devices differ from the API server", "differences", len(differences))
}

func appendSet(fields []any, key, value string) []any {
	if value == "" {
		return fields
	}
	return append(fields, key, value)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
