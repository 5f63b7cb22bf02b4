// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/testcluster"
	"github.com/livesched/livesched/test/workload"
)

const (
	// runTimeout bounds every wait except the one for the first decision. firstDecisionTimeout is
	// far longer than any first decision takes: reaching it means that something is broken.
	runTimeout           = 10 * time.Minute
	firstDecisionTimeout = time.Minute
	stopGrace            = 12 * time.Second
)

// errNoPods is the error if the last pending pod was bound before the new instance could decide
// about it.
var errNoPods = errors.New("no pods are pending any more")

// bench is a livesched in this process, with profiles that the benchmark changes.
type bench struct {
	*cluster.Cluster
	*options
	report    *report.Report
	client    client.Client
	running   *testcluster.Running
	decisions *decisions
	statuses  *statuses
	spec      int // of the changed profile, counted from 1
}

// run changes one of many profiles while pods are pending: unschedulable ones, gated ones, and a
// backlog. Each time it measures the time from sending the change to the API server until the first
// decision by the new instance, which a plugin in the profile observes. The durations of the build,
// the swap and the standstill come from livesched's metrics. Then it measures the throughput with
// and without a reload every second, and changes until the status reports them.
func (o *options) run(ctx context.Context, to *report.Report) (err error) {
	c, err := cluster.Start(ctx, o.nodes)
	if err != nil {
		return err
	}
	b := &bench{Cluster: c, options: o, report: to, decisions: newDecisions()}
	defer func() { err = errors.Join(err, b.stop(), c.Close()) }()
	if err := b.start(ctx); err != nil {
		return err
	}
	if o.reloads > 0 {
		for _, kind := range kindsOfPending {
			if err := b.latencies(ctx, kind); err != nil {
				return fmt.Errorf("%s pods: %w", kind.name, err)
			}
			fmt.Fprintf(os.Stderr, "measured: %s pods\n", kind.name)
		}
	}
	if o.length > 0 {
		if err := b.loads(ctx); err != nil {
			return err
		}
	}
	return b.reported(ctx)
}

// start runs livesched with its profiles.
func (b *bench) start(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	config := b.ControlPlane.Config()
	config.QPS, config.Burst = cluster.QPS, cluster.QPS
	var err error
	if b.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if b.statuses, err = watchStatuses(ctx, config, scheme); err != nil {
		return err
	}
	for i := range b.profiles - 1 {
		other := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%02d", i)}}
		if err := b.client.Create(ctx, other); err != nil {
			return err
		}
	}
	profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: cluster.SchedulerName}}
	profile.Spec.Plugins = &v1alpha1.Plugins{
		MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: probeName}, {Name: witnessName}}},
		// Preemption could not help the pods that the probe refuses, and would take most of the
		// time.
		PostFilter: v1alpha1.PluginSet{Disabled: []v1alpha1.Plugin{{Name: "*"}}},
	}
	b.spec = 1
	profile.Spec.PluginConfig = b.pluginConfig()
	if err := b.client.Create(ctx, profile); err != nil {
		return err
	}
	options := testcluster.Options()
	options.KubeAPIQPS, options.KubeAPIBurst = cluster.QPS, cluster.QPS
	options.OutOfTree = b.decisions.register()
	if b.running, err = testcluster.RunFor(context.WithoutCancel(ctx), logr.Discard(), b.ControlPlane.Config(),
		options); err != nil {
		return err
	}
	return b.until(ctx, "livesched schedules by all profiles", func() bool {
		return b.running.Scheduler.Store().Current().Len() == b.profiles && b.running.Scheduler.Leading()
	})
}

func (b *bench) stop() error {
	if b.running == nil {
		return nil
	}
	return b.running.Stop(stopGrace)
}

func (b *bench) pluginConfig() []v1alpha1.PluginConfig {
	args := runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":%d}`, b.spec)}
	return []v1alpha1.PluginConfig{{Name: probeName, Args: args}, {Name: witnessName, Args: args}}
}

// until polls a condition that has no event to wait for.
func (b *bench) until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, fmt.Errorf("not within %v: %s", runTimeout, what))
	defer cancel()
	for tick := time.Tick(2 * time.Millisecond); !done(); {
		select {
		case <-tick:
		case <-b.running.Done():
			return errors.New("livesched has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// change writes the profile's next spec. It returns the time at which the request was sent, and the
// generation of the spec.
func (b *bench) change(ctx context.Context) (sent time.Time, generation int64, err error) {
	b.spec++
	profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: cluster.SchedulerName}}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"pluginConfig": b.pluginConfig()}})
	if err != nil {
		return time.Time{}, 0, err
	}
	sent = time.Now()
	err = b.client.Patch(ctx, profile, client.RawPatch("application/merge-patch+json", patch))
	return sent, profile.Generation, err
}

// pending is a kind of pods that wait while the profile changes.
type pending struct {
	name string
	// mark makes a pod one of the kind. If it is nil, the pods can be scheduled: the probe holds
	// them back until all exist, and the first reload makes all of them be tried.
	mark func(*corev1.Pod)
	// witnesses is the number of additional pods, refused by the probe, that the new instance can
	// decide about.
	witnesses int
}

func refuse(pod *corev1.Pod) { pod.Labels[refusedLabel] = "" }

func gate(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/shut"}}
}

// kindsOfPending lists the kinds of pods that wait while the profile changes.
var kindsOfPending = []pending{
	{name: "unschedulable", mark: refuse}, {name: "gated", mark: gate, witnesses: 100}, {name: "a backlog"},
}

// latencies measures reloads while pods of a kind wait, and deletes the pods.
func (b *bench) latencies(ctx context.Context, kind pending) error {
	b.decisions.hold.Store(kind.mark == nil)
	pods := b.pods + kind.witnesses
	err := cluster.Each(ctx, pods, func(ctx context.Context, i int) error { return b.Create(ctx, b.pod(kind, i)) })
	if err != nil {
		return err
	}
	settled := func() bool {
		c := b.running.Parts().Queue.Counts()
		return c.Unschedulable+c.Gated == pods
	}
	if err := b.until(ctx, "all pods wait", settled); err != nil {
		return err
	}
	b.decisions.hold.Store(false)
	pace := time.Tick(200 * time.Millisecond)
	for i := range b.reloads {
		if kind.mark != nil {
			err = b.until(ctx, "all pods wait", settled)
		} else if <-pace; i > 0 && b.running.Parts().Queue.Counts().Active == 0 {
			break // later reloads would have no pending pods
		}
		if err != nil {
			return err
		}
		values, err := b.once(ctx)
		if errors.Is(err, errNoPods) {
			break
		}
		if err != nil {
			return err
		}
		if err := b.report.Add(map[string]string{"pending": kind.name}, values); err != nil {
			return err
		}
	}
	return b.DeletePods(ctx)
}

// pod returns the i-th waiting pod.
func (b *bench) pod(kind pending, i int) *corev1.Pod {
	pod := b.podOf(i)
	switch {
	case i >= b.pods:
		refuse(pod)
	case kind.mark != nil:
		kind.mark(pod)
	}
	return pod
}

// podOf returns the i-th pod of the kind that the flags name.
func (b *bench) podOf(i int) *corev1.Pod {
	return workload.Pods{Kind: b.kind, Nodes: b.nodes, SchedulerName: cluster.SchedulerName}.Pod(i)
}

// once changes the profile, waits for the first decision, and returns the durations.
func (b *bench) once(ctx context.Context) (map[string]float64, error) {
	var before, after gauged
	before.read()
	sent, _, err := b.change(ctx)
	if err != nil {
		return nil, err
	}
	returned := time.Now()
	decided, err := b.firstDecision()
	if err != nil {
		return nil, err
	}
	// The swap ends a moment later, when livesched has examined all pods.
	err = b.until(ctx, "the swap is over", func() bool {
		after.read()
		return after.swap.GetSampleCount() > before.swap.GetSampleCount()
	})
	took := func(before, after *dto.Histogram) float64 {
		return (after.GetSampleSum() - before.GetSampleSum()) * 1000
	}
	return map[string]float64{
		decision: milliseconds(decided.Sub(sent)), request: milliseconds(returned.Sub(sent)),
		build: took(before.build, after.build), standstill: took(before.standstill, after.standstill),
		checkedAgain: took(before.swap, after.swap),
	}, err
}

// firstDecision waits for the first decision under the latest spec.
func (b *bench) firstDecision() (time.Time, error) {
	timeout := time.After(firstDecisionTimeout)
	for tick := time.Tick(time.Second); ; {
		select {
		case at := <-b.decisions.of(b.spec):
			return at, nil
		case <-tick:
			if c := b.running.Parts().Queue.Counts(); c == (queue.Counts{}) {
				return time.Time{}, errNoPods
			}
		case <-timeout:
			return time.Time{}, fmt.Errorf("spec %d has not decided within %v", b.spec, firstDecisionTimeout)
		}
	}
}

// gauged holds livesched's metrics of reloads.
type gauged struct{ build, swap, standstill *dto.Histogram }

func (g *gauged) read() {
	for from, to := range map[prometheus.Histogram]**dto.Histogram{
		metrics.ReloadBuildDuration: &g.build, metrics.ReloadSwapDuration: &g.swap,
		metrics.ReloadStandstill: &g.standstill,
	} {
		var m dto.Metric
		if err := from.Write(&m); err != nil {
			panic(err) // Write cannot fail for a histogram
		}
		*to = m.GetHistogram()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
