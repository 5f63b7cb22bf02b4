// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/testcluster"
)

// firstDecisionTimeout is far beyond any first decision: something is broken.
const firstDecisionTimeout = time.Minute

// errNoPods says that the last pending pod was bound before the new generation could decide about it.
var errNoPods = errors.New("no pods are pending any more")

// reloads is a livesched in this process whose profiles are changed.
type reloads struct {
	*bench
	client    client.Client
	running   *testcluster.Running
	decisions *decisions
	spec      int // of the profile that is changed, counted from 1
}

// measureReloads changes one profile of many with pods pending: unschedulable ones, gated ones, and a backlog. Each time it
// takes the time from sending the change to the API server until the first decision by the new generation, which a plugin
// in the profile sees, and reads from livesched's metrics what the build, the swap and the standstill took. Then it has
// pods scheduled with and without a reload every second.
func measureReloads(ctx context.Context, o options) (err error) {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	r := &reloads{bench: b, decisions: newDecisions()}
	defer func() {
		err = errors.Join(err, r.stop(), b.close())
	}()
	if err := r.start(ctx); err != nil {
		return err
	}
	var latencies []latency
	var loads []load
	defer func() { r.print(latencies, loads) }() // what there is, also if something goes wrong
	for _, kind := range []pending{
		{name: "unschedulable", mark: refuse}, {name: "gated", mark: gate, witnesses: 100}, {name: "being scheduled"},
	} {
		l, err := r.latency(ctx, kind)
		if err != nil {
			return fmt.Errorf("%s pods: %w", kind.name, err)
		}
		fmt.Fprintf(os.Stderr, "measured: %s pods\n", kind.name)
		latencies = append(latencies, l)
	}
	if o.length > 0 {
		loads, err = r.loads(ctx)
	}
	return err
}

// start runs livesched with its profiles.
func (r *reloads) start(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	config := r.controlPlane.Config()
	config.QPS, config.Burst = float32(r.qps), r.qps
	var err error
	if r.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for i := range max(r.profiles, 1) - 1 {
		other := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%02d", i)}}
		if err := r.client.Create(ctx, other); err != nil {
			return err
		}
	}
	profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: schedulerName}}
	profile.Spec.Plugins = &v1alpha1.Plugins{
		MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: probeName}, {Name: witnessName}}},
		// Preemption could not help the pods that the probe refuses, and would have most of the time spent on them.
		PostFilter: v1alpha1.PluginSet{Disabled: []v1alpha1.Plugin{{Name: "*"}}},
	}
	r.spec = 1
	profile.Spec.PluginConfig = r.pluginConfig()
	if err := r.client.Create(ctx, profile); err != nil {
		return err
	}
	options := testcluster.Options()
	options.KubeAPIQPS, options.KubeAPIBurst = float32(r.qps), r.qps
	options.OutOfTree = r.decisions.register()
	if r.running, err = testcluster.RunFor(context.WithoutCancel(ctx), logr.Discard(), r.controlPlane.Config(), options); err != nil {
		return err
	}
	return r.until(ctx, "livesched schedules by all profiles", func() bool {
		return r.running.Scheduler.Store().Current().Len() == max(r.profiles, 1) && r.running.Scheduler.Leading()
	})
}

func (r *reloads) stop() error {
	if r.running == nil {
		return nil
	}
	return r.running.Stop(stopGrace)
}

func (r *reloads) pluginConfig() []v1alpha1.PluginConfig {
	args := runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":%d}`, r.spec)}
	return []v1alpha1.PluginConfig{{Name: probeName, Args: args}, {Name: witnessName, Args: args}}
}

// until polls for what has no event to wait for.
func (r *reloads) until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, fmt.Errorf("not within %v: %s", runTimeout, what))
	defer cancel()
	for tick := time.Tick(10 * time.Millisecond); !done(); {
		select {
		case <-tick:
		case <-r.running.Done():
			return errors.New("livesched has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// change gives the profile its next spec and returns when that was sent.
func (r *reloads) change(ctx context.Context) (sent time.Time, err error) {
	r.spec++
	profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: schedulerName}}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"pluginConfig": r.pluginConfig()}})
	if err != nil {
		return time.Time{}, err
	}
	sent = time.Now()
	return sent, r.client.Patch(ctx, profile, client.RawPatch("application/merge-patch+json", patch))
}

// pending is a kind of pods that wait while the profile is changed.
type pending struct {
	name string
	// mark makes a pod of the kind. nil: the pods can be scheduled. They are held back until all are there, and the first
	// reload has all of them tried.
	mark func(*corev1.Pod)
	// witnesses are pods, refused by the probe, for the new generation to decide about.
	witnesses int
}

func refuse(pod *corev1.Pod) { pod.Labels[refusedLabel] = "" }

func gate(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/shut"}}
}

// latency is what reloads with one kind of pending pods took, a value for each reload in milliseconds.
type latency struct {
	kind                                                string
	decision, request, build, standstill, lookedAtAgain []float64
}

func (r *reloads) latency(ctx context.Context, kind pending) (latency, error) {
	l := latency{kind: kind.name}
	r.decisions.hold.Store(kind.mark == nil)
	pods := r.options.pods + kind.witnesses
	err := r.each(ctx, pods, func(ctx context.Context, i int) error {
		pod := podOf(r.workload, i)
		switch {
		case i >= r.options.pods:
			refuse(pod)
		case kind.mark != nil:
			kind.mark(pod)
		}
		_, err := r.bench.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return l, err
	}
	settled := func() bool {
		c := r.running.Scheduler.Queue().Counts()
		return c.Unschedulable+c.Gated == pods
	}
	if err := r.until(ctx, "all pods wait", settled); err != nil {
		return l, err
	}
	r.decisions.hold.Store(false)
	pace := time.Tick(200 * time.Millisecond)
	for i := range r.reloads {
		if kind.mark != nil {
			err = r.until(ctx, "all pods wait", settled)
		} else if <-pace; i > 0 && r.running.Scheduler.Queue().Counts().Active == 0 {
			break // what follows would be reloads without pending pods
		}
		if err != nil {
			return l, err
		}
		err := r.once(ctx, &l)
		if errors.Is(err, errNoPods) {
			break
		}
		if err != nil {
			return l, err
		}
	}
	return l, r.deletePods(ctx)
}

// once changes the profile and waits for the first decision.
func (r *reloads) once(ctx context.Context, l *latency) error {
	var before, after gauged
	before.read()
	sent, err := r.change(ctx)
	if err != nil {
		return err
	}
	returned := time.Now()
	timeout := time.After(firstDecisionTimeout)
	for tick, decided := time.Tick(time.Second), false; !decided; {
		select {
		case at := <-r.decisions.of(r.spec):
			l.decision = append(l.decision, milliseconds(at.Sub(sent)))
			decided = true
		case <-tick:
			if c := r.running.Scheduler.Queue().Counts(); c == (queue.Counts{}) {
				return errNoPods
			}
		case <-timeout:
			return fmt.Errorf("spec %d has not decided within %v", r.spec, firstDecisionTimeout)
		}
	}
	// The swap is over a moment later, when all pods have been looked at.
	err = r.until(ctx, "the swap is over", func() bool {
		after.read()
		return after.swap.GetSampleCount() > before.swap.GetSampleCount()
	})
	l.request = append(l.request, milliseconds(returned.Sub(sent)))
	l.build = append(l.build, (after.build.GetSampleSum()-before.build.GetSampleSum())*1000)
	l.standstill = append(l.standstill, (after.standstill.GetSampleSum()-before.standstill.GetSampleSum())*1000)
	l.lookedAtAgain = append(l.lookedAtAgain, (after.swap.GetSampleSum()-before.swap.GetSampleSum())*1000)
	return err
}

// gauged is what livesched's metrics say of reloads.
type gauged struct{ build, swap, standstill *dto.Histogram }

func (g *gauged) read() {
	for from, to := range map[prometheus.Histogram]**dto.Histogram{
		metrics.ReloadBuildDuration: &g.build, metrics.ReloadSwapDuration: &g.swap, metrics.ReloadStandstill: &g.standstill,
	} {
		var m dto.Metric
		if err := from.Write(&m); err != nil {
			panic(err) // it cannot fail for a histogram
		}
		*to = m.GetHistogram()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// print prints everything as tables.
func (r *reloads) print(latencies []latency, loads []load) {
	fmt.Printf("\nreloads of one of %d profiles; %d nodes, %d pending pods; milliseconds, p50 / p99 / most\n\n",
		max(r.profiles, 1), r.nodes, r.options.pods)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pods\treloads\tsent to first decision\tof that, the API call\tbuild\tstandstill\tall looked at again")
	for _, l := range latencies {
		cells := []string{l.kind, fmt.Sprint(len(l.decision))}
		for _, values := range [][]float64{l.decision, l.request, l.build, l.standstill, l.lookedAtAgain} {
			cells = append(cells, fmt.Sprintf("%.1f / %.1f / %.1f", quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1)))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	if len(loads) > 0 {
		printLoads(loads)
	}
}
