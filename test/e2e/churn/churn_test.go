// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/testcluster"
)

const (
	// settleTimeout is how long the cluster may take to settle: far more than it needs, and far
	// less than the time after which a pod is retried without an event.
	settleTimeout = 2 * time.Minute
	settlePoll    = 250 * time.Millisecond
	warmUp        = 6 * time.Second
	// probesPerRound is how many single changes follow each round.
	probesPerRound = 6
)

func TestChurningClusterSettlesWithEveryPodBoundOrExplained(t *testing.T) {
	s, err := readSettings()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("churning for %v; to churn like this again: make soak SOAK=%v SEED=%d", s.length, s.length, s.seed)
	complaints, logger := listen(t, s.log)
	// Only here: what is left of another test's manager may still read klog's logger.
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)
	w := newWorld(t, s)
	w.script = newScript(w.counts)
	w.startFleet(t, logger)

	w.churn(t, -1, warmUp, everything)
	w.empty(t)
	before, err := w.measure()
	if err != nil {
		t.Fatal(err)
	}
	for round := 0; time.Duration(round)*s.round < s.length; round++ {
		w.churn(t, round, min(s.round, s.length-time.Duration(round)*s.round), mixOf(s.seed, round))
	}
	w.empty(t)
	t.Logf("counts: %s", w.counts)
	t.Logf("after warm-up: %s", before)
	gomega.NewWithT(t).Eventually(func() []string {
		now, err := w.measure()
		if err != nil {
			return []string{err.Error()}
		}
		t.Logf("in the end:    %s", now)
		return now.growth(before)
	}).WithTimeout(settleTimeout).WithPolling(2*time.Second).
		Should(gomega.BeEmpty(), "what the process holds has grown")
	for _, line := range complaints.list() {
		t.Errorf("logged as an error: %s", line)
	}
}

// mix determines what takes part in a round.
type mix struct{ reloads, restarts, faults bool }

var everything = mix{reloads: true, restarts: true, faults: true}

// mixOf draws the mix of a round. Reloads and restarts retry every pod, which hides missed events,
// so every other round has neither.
func mixOf(seed uint64, round int) mix {
	if round%2 == 0 {
		return everything
	}
	rng := rand.New(rand.NewPCG(seed, uint64(round)))
	return mix{faults: rng.IntN(4) > 0}
}

func (m mix) acts() []act {
	acts := slices.Concat(podActs, nodeActs, volumeActs)
	if m.reloads {
		acts = append(acts, profileActs...)
	}
	if m.restarts {
		acts = append(acts, restartActs...)
	}
	if m.faults {
		acts = slices.Concat(acts, cutActs, clockActs)
	}
	return acts
}

// listen writes everything that livesched logs to a file, if one is named, and collects errors.
func listen(t *testing.T, file string) (*complaints, klog.Logger) {
	t.Helper()
	to := io.Discard
	if file != "" {
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		to = f
	}
	c := &complaints{}
	var options zap.Options
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	options.BindFlags(flags)
	if err := flags.Parse([]string{"--zap-devel", "--zap-log-level=4", "--zap-stacktrace-level=panic"}); err != nil {
		t.Fatal(err)
	}
	logger := zap.New(zap.UseFlagOptions(&options), zap.WriteTo(to))
	logger = logger.WithSink(attentive{LogSink: logger.GetSink(), complaints: c})
	return c, logger
}

// newWorld starts the cluster without replicas.
func newWorld(t *testing.T, s settings) *world {
	t.Helper()
	ctx := t.Context()
	cluster, err := testcluster.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	clientset, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{cluster: cluster, client: cluster.Client, clientset: clientset, seed: s.seed, counts: &counts{},
		audit: &audit{}, menu: everySpec}
	for _, object := range slices.Concat(classes(), storageClasses()) {
		if err := w.client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// startFleet makes the replicas run in this process.
func (w *world) startFleet(t *testing.T, logger klog.Logger) {
	t.Helper()
	w.fleet = &fleet{config: w.cluster.Config, logger: logger, script: w.script, counts: w.counts, audit: w.audit}
	w.startHistory(t, false)
	t.Cleanup(func() {
		if err := w.fleet.stop(); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) startHistory(t *testing.T, gaps bool) {
	t.Helper()
	var err error
	if w.history, err = startHistory(t.Context(), w.clientset, w.counts, gaps); err != nil {
		t.Fatal(err)
	}
}

// classes are the objects that pods refer to.
func classes() []client.Object {
	class := func(name string, value int32, policy corev1.PreemptionPolicy) client.Object {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value,
			PreemptionPolicy: ptr.To(policy)}
	}
	return []client.Object{
		class("churn-low", -10, corev1.PreemptLowerPriority),
		class("churn-high", 100, corev1.PreemptLowerPriority),
		class("churn-higher", 1000, corev1.PreemptLowerPriority),
		class("churn-polite", 500, corev1.PreemptNever),
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: deviceClass}},
		&nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: runtimeClass},
			Handler:    "churn",
			Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}},
		},
	}
}

// furnish creates the missing ones of the nodes and profiles that a round begins with.
func (w *world) furnish(t *testing.T, round int) {
	t.Helper()
	if err := w.tryFurnish(t.Context(), round); err != nil {
		t.Fatal(err)
	}
}

func (w *world) tryFurnish(ctx context.Context, round int) error {
	a := w.actor("furnish", 2_000_000+round)
	for _, step := range []func(context.Context, *actor) error{createNodes, createProfiles, createSlices} {
		if err := step(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) actor(name string, number int) *actor {
	return &actor{world: w, name: name, rng: rand.New(rand.NewPCG(w.seed, uint64(number)))}
}

// churn runs the actors for a time, and then waits for the cluster to settle.
func (w *world) churn(t *testing.T, round int, length time.Duration, m mix) {
	t.Helper()
	t.Logf("%s round %d: %+v", time.Now().Format(time.TimeOnly), round, m)
	w.furnish(t, round)
	stop := w.runMeanwhile(t, 500_000+round, care, kubelet, permit, volumeController, deviceController)
	defer stop()

	w.script.wild.Store(true)
	w.script.wildBuilds.Store(m.reloads)
	if m.faults {
		w.fleet.begin()
	}
	acting, rest := context.WithTimeout(t.Context(), length)
	w.run(acting, round, m.acts())
	rest()
	w.script.wild.Store(false)
	w.script.wildBuilds.Store(false)
	w.fleet.end()
	w.wakeRefused(t)
	w.settleAndProbe(t, round, probesPerRound)
	stop()
}

// settleAndProbe waits until the cluster has settled, and then again after each of some single
// changes.
func (w *world) settleAndProbe(t *testing.T, round, probes int) {
	t.Helper()
	began := time.Now()
	w.settle(t, fmt.Sprintf("round %d", round))
	took := time.Since(began)
	w.probe(t, w.actor("probe", 1_000_000+round), round, probes)
	t.Logf("%s round %d settled in %v, with %d pods, of which %d are bound", time.Now().Format(time.TimeOnly), round,
		took.Round(time.Second/10),
		len(w.history.all()), len(w.history.all(isBound)))
	t.Logf("what the others wait for: %s", w.reasons())
}

// runMeanwhile runs actors until stop is called.
func (w *world) runMeanwhile(t *testing.T, round int, acts ...act) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, round, acts)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// settle waits until nothing is wrong.
func (w *world) settle(t *testing.T, when string) {
	t.Helper()
	var found []string
	gomega.NewWithT(t).Eventually(func() []string {
		found = w.wrong(t.Context())
		return found
	}).WithTimeout(settleTimeout).WithPolling(settlePoll).Should(gomega.BeEmpty(), func() string {
		return fmt.Sprintf("%s of seed %d: not settled (%s; unfinished claims: %s):\n  %s",
			when, w.seed, w.counts, w.unfinished(context.WithoutCancel(t.Context())), strings.Join(found, "\n  "))
	})
}

// reasons counts the pods in the leader's queue by the plugins that rejected them.
func (w *world) reasons() *counts {
	c := &counts{}
	if leader := w.witness(); leader != nil {
		for _, state := range leader.Parts().Queue.Dump() {
			c.add(fmt.Sprintf("%s by %s%s", state.Place, strings.Join(state.UnschedulablePlugins, "+"),
				strings.Join(state.PendingPlugins, "+")), 1)
		}
	}
	return c
}

// wakeRefused makes the plugin admit the pods that it rejected at random.
func (w *world) wakeRefused(t *testing.T) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"churn.example/now":%q}}}`, time.Now())
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: runtimeClass}}
	if err := w.client.Patch(t.Context(), class,
		client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// wrong returns everything that is wrong once the actors rest. What has happened already does not
// get better.
func (w *world) wrong(ctx context.Context) []string {
	done := w.verdict()
	if len(done) > 0 {
		gomega.StopTrying(fmt.Sprintf("seed %d, %s:\n  %s\n", w.seed, w.counts, strings.Join(done, "\n  "))).Now()
	}
	if w.crew != nil {
		return w.unsettledCrew(ctx)
	}
	return w.unsettled(ctx)
}

// empty is deleteAll beside a fleet.
func (w *world) empty(t *testing.T) {
	t.Helper()
	stop := w.runMeanwhile(t, 600_000, care) // a replica may lose its lease at any time
	defer stop()
	w.deleteAll(t)
}

// deleteAll deletes everything, and waits until livesched has released it.
func (w *world) deleteAll(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	now := client.GracePeriodSeconds(0)
	for _, object := range []client.Object{&v1alpha1.SchedulerProfile{}, &v1alpha1.SchedulingPolicy{}, &corev1.Node{}} {
		if err := w.client.DeleteAllOf(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), now); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.deleteVolumes(ctx), w.deleteDevices(ctx)); err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(func() []string {
		found := w.wrong(ctx)
		for _, r := range w.inProcess() {
			if n, p, held := r.Parts().Cache.Size().Nodes, r.Parts().Cache.Size().Pods,
				r.Scheduler.Store().Alive(); n+p+held > 0 {
				found = append(found,
					fmt.Sprintf("replica %d holds %d nodes, %d pods and %d profiles", r.number, n, p, held))
			}
		}
		if left := len(w.history.all()); left > 0 {
			found = append(found, fmt.Sprintf("%d pods are left", left))
		}
		return found
	}).WithTimeout(settleTimeout).WithPolling(settlePoll).Should(gomega.BeEmpty(), "an empty cluster")
	w.audit.forget()
}

func (w *world) deleteVolumes(ctx context.Context) error {
	a := w.actor("volumes", 0)
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	if err := w.client.List(ctx, &claims); err != nil {
		return err
	}
	for i := range claims.Items {
		if err := raced(w.client.Delete(ctx, &claims.Items[i])); err != nil {
			return err
		}
		if err := raced(change(ctx, a, &claims.Items[i],
			func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })); err != nil {
			return err
		}
	}
	if err := w.client.List(ctx, &volumes); err != nil {
		return err
	}
	for i := range volumes.Items {
		if err := a.unmake(ctx, &volumes.Items[i]); err != nil {
			return err
		}
	}
	return nil
}
