// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"os"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/hack/bench/decision"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// The names of the values of a cluster. Package decision has those of decisions in it.
const (
	// nodeBytes and objectBytes are the bytes that an informer keeps for a node and for a bound
	// pod, including the store's index. cacheBytes is what cache and snapshot add for each pod,
	// including a share of the nodes. stateMiB is what the decisions about all kinds have left in
	// memory.
	nodeBytes, objectBytes, cacheBytes, stateMiB = "object B/node", "object B/pod", "cache B/pod", "decisions MiB"
	// heapMiB is the live heap at the end, peakMiB the peak memory of the process.
	heapMiB, peakMiB = "heap MiB", "peak MiB"
	// decodeSeconds is the time of the informers and cacheSeconds that of their handlers, one
	// object after the other. snapshotSeconds is the time of the first refresh, firstMillis that of
	// the first decision after it.
	decodeSeconds, cacheSeconds, snapshotSeconds, firstMillis = "decode s", "cache s", "snapshot s", "first decision ms"
	// heartbeat is the time for a node that reports an unchanged status, and change that for a node
	// that gets a taint. Both include the handler and the refresh. afterChanges is the time of a
	// decision after all those changes.
	heartbeat, change, afterChanges = "heartbeat us/node", "change us/node", "decision after changes ms"
	// collection is the CPU time of a garbage collection.
	collection = "GC CPU ms"
)

// measurement measures one contender with one cluster.
type measurement struct {
	*options
	report    recorder
	nodes     int
	contender string

	cluster decidebench.Cluster
	objects *objects
	next    int // the number of the next pod
	values  map[string]float64
}

// recorder stores measurements.
type recorder interface {
	Add(labels map[string]string, values map[string]float64) error
}

func (m *measurement) run() (err error) {
	if m.cluster, err = decidebench.New(m.contender); err != nil {
		return err
	}
	defer func() { m.cluster.Close() }()
	m.values = map[string]float64{}
	m.next = m.nodes * m.podsPerNode
	resetPeak()
	heap() // pooled objects and objects with a finalizer go with the second collection
	empty := heap()
	if err := m.start(empty); err != nil {
		return err
	}
	if err := m.record(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s, %d nodes: has made its first decision\n", m.contender, m.nodes)
	started := heap()
	for _, kind := range m.kinds {
		if err := m.decide(kind); err != nil {
			return fmt.Errorf("%s pods: %w", kind, err)
		}
	}
	m.values[stateMiB] = mebibytes(heap() - started)
	if err := m.change(); err != nil {
		return err
	}
	cost, _ := decidebench.Measure(func() error { runtime.GC(); return nil })
	m.values[collection] = milliseconds(cost.CPU)
	m.values[heapMiB] = mebibytes(heap() - empty)
	usage, err := cluster.UsageOf(os.Getpid())
	if err != nil {
		return err
	}
	m.values[peakMiB] = mebibytes(usage.PeakRSS)
	runtime.KeepAlive(m.objects)
	return m.record()
}

// record adds the values so far to the report, so that an interrupted run keeps them.
func (m *measurement) record() error {
	err := m.report.Add(m.labels(), m.values)
	m.values = map[string]float64{}
	return err
}

// start measures everything up to the first decision, from an empty cluster.
func (m *measurement) start(empty int64) (err error) {
	pods := float64(m.nodes * m.podsPerNode)
	objects, transform := m.informersOf()
	m.objects = objects
	tookNodes, err := seconds(func() error { return m.loadNodes(objects, transform) })
	if err != nil {
		return err
	}
	withNodes := heap()
	m.values[nodeBytes] = float64(withNodes-empty) / float64(m.nodes)
	tookPods, err := seconds(func() error { return m.loadPods(objects, transform) })
	if err != nil {
		return err
	}
	m.values[decodeSeconds] = tookNodes + tookPods
	loaded := heap()
	m.values[objectBytes] = float64(loaded-withNodes) / pods
	if m.values[cacheSeconds], err = seconds(m.feed); err != nil {
		return err
	}
	if m.values[snapshotSeconds], err = seconds(m.cluster.Refresh); err != nil {
		return err
	}
	first, err := seconds(func() error { return m.place(workload.Basic) })
	m.values[firstMillis] = first * 1000
	m.values[cacheBytes] = float64(heap()-loaded) / pods
	return err
}

// feed adds all objects to the cache.
func (m *measurement) feed() error {
	for _, node := range m.objects.nodes.List() {
		m.cluster.AddNode(node.(*corev1.Node))
	}
	for _, pod := range m.objects.pods.List() {
		if err := m.cluster.AddPod(pod.(*corev1.Pod)); err != nil {
			return err
		}
	}
	return nil
}

// place decides about one more pod of a kind.
func (m *measurement) place(kind string) error {
	_, err := m.cluster.Place(workload.Admit(m.podsOf(kind).Pod(m.next)))
	m.next++
	return err
}

// decide measures decisions about pods of a kind, in a few of the many series that are bound.
func (m *measurement) decide(kind string) error {
	pods := m.podsOf(kind)
	pods.Series = min(pods.Series, workload.DefaultSeries)
	s := &decision.Subject{Contender: m.contender, Cluster: m.cluster, Pods: pods, Next: m.next}
	values, err := s.Measure(m.decisions, m.firsts)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s, %d nodes: %s pods\n", m.contender, m.nodes, kind)
	m.next = s.Next
	labels := m.labels()
	labels["kind"] = kind
	return m.report.Add(labels, values)
}

// change measures updates of nodes: first a heartbeat, then a taint that keeps no pod away.
func (m *measurement) change() (err error) {
	if m.values[heartbeat], err = m.update(func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastHeartbeatTime: metav1.Now()}}
	}); err != nil {
		return err
	}
	if m.values[change], err = m.update(func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: "example.com/old", Effect: corev1.TaintEffectPreferNoSchedule}}
	}); err != nil {
		return err
	}
	after, err := seconds(func() error { return m.place(m.kinds[0]) })
	m.values[afterChanges] = after * 1000
	return err
}

// update changes nodes, refreshes the snapshot, and returns the microseconds per node.
func (m *measurement) update(alter func(*corev1.Node)) (float64, error) {
	if err := m.place(m.kinds[0]); err != nil { // so that no earlier change is left to refresh
		return 0, err
	}
	n := min(m.changes, m.nodes)
	before, after := make([]*corev1.Node, n), make([]*corev1.Node, n)
	for i := range n {
		node, _, err := m.objects.nodes.GetByKey(workload.NodeName(i))
		if err != nil {
			return 0, err
		}
		before[i] = node.(*corev1.Node)
		after[i] = before[i].DeepCopy()
		alter(after[i])
		if err := m.objects.nodes.Update(after[i]); err != nil {
			return 0, err
		}
	}
	took, err := seconds(func() error {
		for i := range n {
			m.cluster.UpdateNode(before[i], after[i])
		}
		return m.cluster.Refresh()
	})
	return took / float64(n) * 1e6, err
}

func seconds(f func() error) (float64, error) {
	start := time.Now()
	err := f()
	return time.Since(start).Seconds(), err
}

// heap returns the number of live bytes on the heap.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// resetPeak resets the kernel's record of this process's peak memory. Where the kernel cannot do
// that, the peak is that of all clusters so far.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
