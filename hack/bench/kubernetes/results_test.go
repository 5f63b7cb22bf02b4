// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/hack/bench/report"
)

func TestThroughputIsComputedAsUpstream(t *testing.T) {
	for _, test := range []struct {
		name    string
		counts  []int // one sample a second
		want    []float64
		average float64
	}{
		{"nothing", []int{0, 0}, nil, math.NaN()},
		{"the first sample only starts the clock", []int{0, 500}, nil, math.NaN()},
		{"one rate", []int{0, 100, 300}, []float64{200}, 200},
		{"two rates", []int{100, 300, 700}, []float64{200, 400}, 300},
		{"a pause spreads the next rate", []int{100, 100, 100, 400}, []float64{100, 100, 100}, 100},
		{"a pause at the end does not count", []int{100, 300, 300, 300}, []float64{200}, 200},
	} {
		var s sampler
		start := time.Now()
		for i, count := range test.counts {
			s.add(start.Add(time.Duration(i)*time.Second), count)
		}
		if got := s.average(); !reflect.DeepEqual(s.throughputs, test.want) ||
			got != test.average && !(math.IsNaN(got) && math.IsNaN(test.average)) {
			t.Errorf("%s: %v, average %v", test.name, s.throughputs, got)
		}
	}
}

func TestFiguresOfACollection(t *testing.T) {
	start := time.Now()
	c := &collection{
		count: 11, last: start.Add(2 * time.Second), began: start, ended: start.Add(4 * time.Second),
		before: observation{scheduler: cluster.Usage{CPU: time.Second}, api: time.Second},
		after: observation{scheduler: cluster.Usage{CPU: 2100 * time.Millisecond, PeakRSS: 1 << 20},
			api: 3200 * time.Millisecond},
	}
	c.samples.throughputs = []float64{4, 8, 6}
	got := c.values()
	for name, want := range map[string]float64{
		pods: 11, seconds: 4, wholeRate: 5.5, podsPerSecond: 6, percentile(50): 6, percentile(99): 8,
		schedulerCPU: 1.1, cpuPerPod: 100, apiCPU: 200, schedulerRSS: 1,
	} {
		if math.Abs(got[name]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	none := (&collection{began: start, ended: start}).values()
	for _, name := range []string{podsPerSecond, wholeRate, cpuPerPod, schedulerRSS} {
		if _, ok := none[name]; ok {
			t.Errorf("without pods and process there is a %s", name)
		}
	}
}

func turnOf(t *testing.T, contender string) *turn {
	t.Helper()
	p, err := workloadOf(t, "", nil).plan(limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &turn{plan: p, contender: contender}
}

func TestAnInterruptedRunContinues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	open := func(limit time.Duration, settings string) *bench {
		r, err := report.Continue("kubernetes", file, nil)
		if err != nil {
			t.Fatal(err)
		}
		return &bench{options: &options{limit: limit}, report: r,
			settings: map[string]string{livesched: settings, kubeScheduler: "1", ceiling: "1"}}
	}
	record := func(b *bench, contender, status string) {
		o := outcome{status: status, collections: []*collection{{name: "a", count: 3}}}
		if err := b.record(turnOf(t, contender), o); err != nil {
			t.Fatal(err)
		}
	}
	b := open(time.Minute, "1")
	record(b, livesched, statusOK)
	record(b, kubeScheduler, statusTimeout)
	record(b, ceiling, statusFailed)

	measured := func(b *bench) (done []string) {
		for _, contender := range []string{livesched, kubeScheduler, ceiling} {
			if b.measured(turnOf(t, contender)) {
				done = append(done, contender)
			}
		}
		return done
	}
	for _, test := range []struct {
		limit    time.Duration
		settings string
		want     []string
	}{
		{time.Minute, "1", []string{livesched, kubeScheduler}},
		{time.Hour, "1", []string{livesched}}, // more time may be enough
		{time.Minute, "2", []string{kubeScheduler}},
	} {
		if got := measured(open(test.limit, test.settings)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("with %v: %v is measured", test, got)
		}
	}

	b = open(time.Minute, "2")
	record(b, livesched, statusOK)
	if rows := open(time.Minute, "2").report.Rows; len(rows) != 3 {
		t.Errorf("there are %d rows: the new result does not replace the former", len(rows))
	}
}

func TestTablesHaveRatiosAndReasons(t *testing.T) {
	r, err := report.New("kubernetes", "", map[string]string{"kubernetes": "v1"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(workload, contender, status string, values map[string]float64) {
		labels := map[string]string{labelWorkload: workload, labelContender: contender, labelStatus: status,
			labelReduced: "nodes 5 instead of 10"}
		if status != statusOK {
			labels[labelNote] = "because"
		}
		if err := r.Add(labels, values); err != nil {
			t.Fatal(err)
		}
	}
	add("A", ceiling, statusSkipped, nil)
	add("A", kubeScheduler, statusOK, map[string]float64{podsPerSecond: 100, cpuPerPod: 4})
	add("A", livesched, statusOK, map[string]float64{podsPerSecond: 300, cpuPerPod: 1})
	add("B", kubeScheduler, statusTimeout, map[string]float64{podsPerSecond: 10})
	add("B", livesched, statusOK, map[string]float64{podsPerSecond: 300})
	add("C", kubeScheduler, statusOK, map[string]float64{wholeRate: 10})
	add("C", livesched, statusOK, map[string]float64{wholeRate: 20, podsPerSecond: 3})
	tables := Tables(r)
	var text strings.Builder
	for _, table := range tables {
		for _, row := range table.Rows {
			text.WriteString(strings.Join(row, " | ") + "\n")
		}
	}
	for _, want := range []string{
		"A | livesched | ok | 300 | 3.00 |  |  |  |  |  | 0.25 |",
		"B | kube-scheduler | timeout | 10.0 |  |",
		"B | livesched | ok | 300 |  |", // there is nothing to compare it with
		"C | livesched | ok | 3.00 |  |  |  | 20.0 | 2.00 |",
		"A |  |  |  | 4.00 | 1.00 | 0.25 |",
		"C | 10.0 | 20.0 | 2.00 |",
		"A | nodes 5 instead of 10\n",
		"A | ceiling | skipped | because\n",
		"B | kube-scheduler | timeout | because\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if got := len(tables[1].Rows); got != 2 {
		t.Errorf("%d workloads are compared, want those with two results", got)
	}
	charts := Charts(r)
	if len(charts) != 1 || !reflect.DeepEqual(charts[0].Series[0].Y, []float64{2, 3}) ||
		!reflect.DeepEqual(charts[0].Series[1].Y, []float64{4}) {
		t.Errorf("charts %+v", charts)
	}
}

func TestConfigurationsBecomeProfiles(t *testing.T) {
	const config = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 30
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: PodTopologySpread
    args: {defaultingType: List}
`
	profile := &v1alpha1.SchedulerProfile{}
	if err := convert([]byte(config), profile); err != nil {
		t.Fatal(err)
	}
	if *profile.Spec.PercentageOfNodesToScore != 30 || len(profile.Spec.PluginConfig) != 1 ||
		string(profile.Spec.PluginConfig[0].Args.Raw) != `{"defaultingType":"List"}` {
		t.Errorf("profile %+v", profile.Spec)
	}
	for _, wrong := range []string{
		config + "parallelism: 3\n", config + "colour: red\n", strings.Replace(config, "default-scheduler", "other", 1),
		config + "- schedulerName: another\n",
	} {
		if err := convert([]byte(wrong), profile); err == nil {
			t.Errorf("it is taken: %s", wrong)
		}
	}
}
