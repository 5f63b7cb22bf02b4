// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/workload"
)

var start = time.Unix(1_750_000_000, 0)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func TestValuesOfARun(t *testing.T) {
	o := &outcome{
		started:   start,
		scheduler: usage{cluster.Usage{CPU: 20 * time.Millisecond, PeakRSS: 64 << 20}, decisions{4, time.Millisecond}},
		api:       40 * time.Millisecond,
		measured: map[string]cluster.Pod{
			// created before the scheduler started
			"a": {Series: "s", Created: at(-500), Bound: at(100), Node: workload.NodeName(0)},
			"b": {Series: "s", Created: at(150), Bound: at(200), Node: workload.NodeName(3)},
			"c": {Series: "s", Created: at(0), Bound: at(300), Node: workload.NodeName(0)},
			"d": {Series: "t", Created: at(-500), Refused: at(600)},
		},
	}
	want := map[string]float64{
		podsPerSecond: 6,   // the three after the first within half a second
		firstAfter:    100, // ms
		latency50:     100, // of 50, 100, 300, 600
		latency99:     600,
		schedulerCPU:  5, apiCPU: 10, schedulerRSS: 64, decisionTime: 250,
		nodesUsed: 2, fullestNode: 2, zoneSkew: 3,
	}
	if got := o.values(scenario{settled: true}); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	// The final placement is meaningless, the first pod is bound late, and the contender has no
	// process.
	o.scheduler = usage{}
	for _, name := range []string{nodesUsed, fullestNode, zoneSkew, schedulerCPU, schedulerRSS, decisionTime} {
		delete(want, name)
	}
	want[podsPerSecond] = 4 / 0.6
	if got := o.values(scenario{filled: true}); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestValuesOfARunWithGangs(t *testing.T) {
	o := &outcome{
		scheduler: usage{Usage: cluster.Usage{CPU: 20 * time.Millisecond, PeakRSS: 64 << 20}},
		api:       40 * time.Millisecond,
		gangs:     []time.Duration{300 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond},
		measured:  map[string]cluster.Pod{"a": {Node: "n1"}, "b": {Node: "n1"}, "c": {Node: "n2"}, "d": {Node: "n3"}},
	}
	want := map[string]float64{
		podsPerSecond: 5, // four in 0.8 s
		gangTime:      300, slowestGang: 400, schedulerCPU: 5, apiCPU: 10, schedulerRSS: 64, nodesUsed: 3,
		fullestNode: 2,
	}
	if got := o.values(scenario{gangs: true}); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestAGangIsDoneWithItsLastPod(t *testing.T) {
	seen := map[string]cluster.Pod{
		"basic-0": {Bound: at(50), Node: workload.NodeName(0)},
		"basic-1": {Bound: at(250), Node: workload.NodeName(cluster.NodesPerRack)},
		"basic-2": {Bound: at(900), Node: workload.NodeName(2 * cluster.NodesPerRack)},
	}
	took, racks := gangOutcome(podsOf(workload.Basic, 1, 2), seen, at(20))
	if took != 230*time.Millisecond || !slices.Equal(sets.List(racks), []string{"rack-0", "rack-1"}) {
		t.Errorf("it took %v, in %v", took, sets.List(racks))
	}
}

func TestSkewIsThatOfTheWorstSeries(t *testing.T) {
	pods := map[string]cluster.Pod{}
	place := func(series string, nodes ...int) {
		for _, node := range nodes {
			pods[series+workload.NodeName(node)] = cluster.Pod{Series: series, Node: workload.NodeName(node)}
		}
	}
	place("even", 0, 1, 2, 3, 4, 5)
	if got := skew(pods); got != 0 {
		t.Errorf("two pods in each zone have a skew of %v", got)
	}
	place("odd", 0, 3, 6, 1)
	if got := skew(pods); got != 3 {
		t.Errorf("3, 1 and 0 pods have a skew of %v", got)
	}
}

func TestScenariosHaveRoomForWhatTheySay(t *testing.T) {
	const nodes = 6
	for kind, s := range scenarios {
		pods := s.pods(nodes, s.room(nodes))
		names := map[string]bool{}
		asked := int64(0)
		for _, pod := range pods {
			names[pod.Name] = true
			if pod.Spec.SchedulerName != cluster.SchedulerName {
				t.Fatalf("%s: a pod asks for scheduler %q", kind, pod.Spec.SchedulerName)
			}
			if cpu := pod.Spec.Containers[0].Resources.Requests.Cpu(); cpu.Cmp(hopeless) != 0 {
				asked += cpu.MilliValue()
			}
		}
		if len(names) != len(pods) {
			t.Errorf("%s: %d pods have %d names", kind, len(pods), len(names))
		}
		if asked > 8000*nodes {
			t.Errorf("%s: the pods ask for %d millicores of %d", kind, asked, 8000*nodes)
		}
	}
}

func TestUnschedulablePodsComeBehind(t *testing.T) {
	s := scenarios[unschedulable]
	pods := s.pods(10, 40)
	tooLarge := func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Resources.Requests.Cpu().Cmp(hopeless) == 0 }
	first := slices.IndexFunc(pods, tooLarge)
	if first != 10 || len(pods) != 60 || s.refused(40) != 50 {
		t.Errorf("the first of %d pods that fits nowhere is %d, of %d", len(pods), first, s.refused(40))
	}
	for i, pod := range pods {
		if tooLarge(pod) != (i >= first) {
			t.Fatalf("pod %d: too large is %v", i, tooLarge(pod))
		}
	}
}

func TestPreemptingPodsAreMoreImportant(t *testing.T) {
	for _, pod := range scenarios[preemption].pods(10, 40) {
		if pod.Spec.PriorityClassName != priorityClass || pod.Spec.Containers[0].Resources.Requests.Cpu().
			Cmp(half) != 0 {
			t.Errorf("pod %s: %q, %v", pod.Name, pod.Spec.PriorityClassName, pod.Spec.Containers[0].Resources.Requests)
		}
	}
}

func TestContendersTakeTurnsAtBeingFirst(t *testing.T) {
	names := []string{"a", "b", "c"}
	for run, want := range [][]string{{"a", "b", "c"}, {"b", "c", "a"}, {"c", "a", "b"}, {"a", "b", "c"}} {
		if got := inTurn(names, run); !slices.Equal(got, want) {
			t.Errorf("run %d: %v", run, got)
		}
	}
}

func TestDefaultSamplingIsKubeSchedulers(t *testing.T) {
	for nodes, want := range map[int]int32{100: 50, 1000: 42, 5000: 10, 15000: 5} {
		if got := defaultSampling(nodes); got != want {
			t.Errorf("%d nodes: %d %%, want %d", nodes, got, want)
		}
	}
}

func TestATableHasRatiosOfTheCeilingAndOfKubeScheduler(t *testing.T) {
	r, err := report.New("throughput", "", map[string]string{"pods": "100", "runs": "1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		rate float64
	}{{bindOnly, 1000}, {kubeScheduler, 250}, {livesched, 750}} {
		values := map[string]float64{podsPerSecond: c.rate, latency50: 12}
		if c.name != bindOnly {
			values[schedulerCPU] = 2
		}
		if err := r.Add(map[string]string{"nodes": "5000", "kind": "basic", "contender": c.name}, values); err != nil {
			t.Fatal(err)
		}
	}
	tables := Tables(r)
	if len(tables) != 1 || len(tables[0].Rows) != 3 || !strings.HasPrefix(tables[0].Title, "5,000 nodes, 100 pods") {
		t.Fatalf("tables %v", tables)
	}
	if got, want := tables[0].Rows[2][:6],
		[]string{"", livesched, "750", "0.75", "3.00", "2.00"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := tables[0].Rows[0][:6],
		[]string{"basic", bindOnly, "1,000", "1.00", "4.00", ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if charts := Charts(r); len(charts) != 2 || len(charts[0].Series) != 3 || len(charts[1].Series) != 2 {
		t.Errorf("charts %v", charts)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--kinds", "huge"}, {"--nodes", "0"}, {"--pods", "3"}, {"--runs", "0"}, {"--contenders", "nobody"},
		{"--kinds", "gangs"}, {"--kinds", "gangs,basic", "--contenders", "livesched"},
		{"--kinds", "gangs", "--contenders", "livesched", "--gang", "0"},
		{"--kinds", "gangs-in-racks", "--contenders", "livesched", "--gang", "4001"},
		{"--kinds", "anti", "--nodes", "10", "--pods", "201"},
		{"--kinds", "preemption", "--nodes", "10", "--pods", "81"},
	} {
		cmd := Command()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(args, "--out", ""))
		if err := cmd.Execute(); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

func TestDecisionsAreReadFromTheHistogram(t *testing.T) {
	text := `# TYPE scheduler_scheduling_algorithm_duration_seconds histogram
scheduler_scheduling_algorithm_duration_seconds_bucket{le="+Inf"} 4
scheduler_scheduling_algorithm_duration_seconds_sum 0.002
scheduler_scheduling_algorithm_duration_seconds_count 4
`
	got, err := parseDecisions(t, text)
	if want := (decisions{4, 2 * time.Millisecond}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := parseDecisions(t, "# TYPE up gauge\nup 1\n"); err == nil {
		t.Errorf("got %v of a text without the histogram", got)
	}
}

func TestWindowsTakeTurns(t *testing.T) {
	sampled := func(ms, pods, cpu int, count uint64, total time.Duration) sample {
		return sample{at(ms), pods,
			usage{cluster.Usage{CPU: time.Duration(cpu) * time.Millisecond}, decisions{count, total}}}
	}
	var w windows
	w.add(true, sampled(0, 0, 0, 0, 0), sampled(2000, 90, 70, 90, 900*time.Microsecond))
	if got := w.values(); got != nil {
		t.Errorf("without a window of the other kind: %v", got)
	}
	w.add(false, sampled(2000, 90, 70, 90, 900*time.Microsecond), sampled(4000, 190, 90, 190, 1900*time.Microsecond))
	w.add(true, sampled(4000, 190, 90, 190, 1900*time.Microsecond), sampled(6000, 280, 160, 280, 2800*time.Microsecond))
	want := map[string]float64{askedRate: 0.9, askedDecision: 1, askedCPU: 25}
	if got := w.values(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func parseDecisions(t *testing.T, text string) (decisions, error) {
	t.Helper()
	families, err := cluster.ParseMetrics(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return decisionsIn(families)
}
