// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"errors"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/test/workload"
)

// The contenders that run by default.
const (
	bindOnly      = "bind-only"
	kubeScheduler = "kube-scheduler"
	livesched     = "livesched"
)

const stopGrace = 12 * time.Second

// contender prepares a program that binds pods.
type contender func(ctx context.Context, b *bench) (launch, error)

// launch starts a contender and returns immediately. If the contender ends before it is stopped,
// the run fails.
type launch func(fail context.CancelCauseFunc) (running, error)

// running is a started contender.
type running interface {
	// usage returns its usage so far, or zero if it has no process of its own.
	usage() (usage, error)
	stop() error
}

// usage is the usage of a contender so far.
type usage struct {
	cluster.Usage
	decisions decisions
}

var contenders = map[string]contender{
	bindOnly:      prepareBindOnly,
	kubeScheduler: prepareKubeScheduler(nil),
	// Every node is scored, as livesched does by default.
	"kube-scheduler-100": prepareKubeScheduler(map[string]any{"percentageOfNodesToScore": 100}),
	livesched:            prepareLivesched(func(int) int32 { return 0 }),
	asked:                prepareAsked(explainAndSimulate),
	explained:            prepareAsked(explain),
	viewed:               prepareAsked(view),
	"livesched-scalar":   prepareLivesched(func(int) int32 { return 0 }, "--fast-path=off"),
	// Nodes are sampled, as kube-scheduler does by default.
	"livesched-sampled": prepareLivesched(defaultSampling, "--fast-path=off"),
	// A shadow compares every decision: one with the same spec, which agrees, and one that packs,
	// which does not.
	"livesched-shadowed":          prepareShadowed(nil),
	"livesched-shadowed-by-packs": prepareShadowed(packs),
}

// packs is a configuration that prefers full nodes.
var packs = []v1alpha1.PluginConfig{{Name: "NodeResourcesFit", Args: runtime.RawExtension{Raw: []byte(
	`{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}]}}`,
)}}}

// shadowName is the name of the shadow.
const shadowName = "shadow"

// prepareShadowed runs livesched with a shadow of the profile, which has its own configuration of
// plugins.
func prepareShadowed(config []v1alpha1.PluginConfig) contender {
	return func(ctx context.Context, b *bench) (launch, error) {
		start, err := prepareLivesched(func(int) int32 { return 0 })(ctx, b)
		if err != nil {
			return nil, err
		}
		c, err := b.profiles()
		if err != nil {
			return nil, err
		}
		shadow := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: shadowName}}
		shadow.Spec.Mode = v1alpha1.ProfileShadow
		shadow.Spec.Shadow = &v1alpha1.ShadowSpec{ProfileRef: v1alpha1.ProfileReference{Name: cluster.SchedulerName}}
		shadow.Spec.PluginConfig = config
		return start, c.Create(ctx, shadow)
	}
}

// profiles returns a client for profiles.
func (b *bench) profiles() (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(b.ControlPlane.Config(), client.Options{Scheme: scheme})
}

// defaultSampling returns the percentage of nodes that kube-scheduler examines by default
// (numFeasibleNodesToFind in its schedule_one.go).
func defaultSampling(nodes int) int32 { return int32(max(50-nodes/125, 5)) }

// binder binds pods to nodes round robin.
type binder struct {
	cancel context.CancelFunc
	done   chan error
}

// binderLimit is the number of pods to bind at a time.
const binderLimit = 16

func prepareBindOnly(ctx context.Context, b *bench) (launch, error) {
	return func(fail context.CancelCauseFunc) (running, error) {
		ctx, cancel := context.WithCancel(ctx)
		r := &binder{cancel: cancel, done: make(chan error, 1)}
		go func() {
			err := b.bindAll(ctx)
			if ctx.Err() == nil {
				fail(err)
			}
			r.done <- err
		}()
		return r, nil
	}, nil
}

// bindAll binds pods until ctx ends.
func (b *bench) bindAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(binderLimit)
	for i := 0; ; i++ {
		pod, err := b.Pods.Take(ctx)
		if err != nil {
			return errors.Join(group.Wait(), err)
		}
		group.Go(func() error { return b.act(ctx, pod, i) })
	}
}

// act does for the i-th pod what a scheduler would do, without any decision.
func (b *bench) act(ctx context.Context, pod *corev1.Pod, i int) error {
	switch {
	case pod.Spec.Containers[0].Resources.Requests.Cpu().Cmp(hopeless) == 0:
		return b.refuse(ctx, pod)
	case pod.Spec.PriorityClassName == priorityClass:
		if err := b.Delete(ctx, workload.FillerName(i)); err != nil {
			return err
		}
		return b.Bind(ctx, pod, workload.NodeName(i/2))
	default:
		return b.Bind(ctx, pod, workload.NodeName(i%b.Nodes))
	}
}

// refuse marks a pod as unschedulable.
func (b *bench) refuse(ctx context.Context, pod *corev1.Pod) error {
	pod = pod.DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "it fits nowhere",
	})
	_, err := b.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func (r *binder) usage() (usage, error) { return usage{}, nil }

func (r *binder) stop() error {
	r.cancel()
	if err := <-r.done; !errors.Is(err, context.Canceled) {
		return err // the error that stopped the binding
	}
	return nil
}

// prepareKubeScheduler runs kube-scheduler with its default profile, under the benchmark's
// scheduler name and with more fields.
func prepareKubeScheduler(fields map[string]any) contender {
	return func(_ context.Context, b *bench) (launch, error) {
		config := map[string]any{"profiles": []any{map[string]any{"schedulerName": cluster.SchedulerName}}}
		maps.Copy(config, fields)
		return b.launch(func() (*cluster.Scheduler, error) {
			return cluster.StartKubeScheduler(b.program(b.kubeScheduler, b.gates...), config)
		}), nil
	}
}

// prepareLivesched runs livesched with more flags and with a profile of defaults, except for the
// percentage of nodes to score (0 means all).
func prepareLivesched(percentageOf func(nodes int) int32, flags ...string) contender {
	return func(ctx context.Context, b *bench) (launch, error) {
		c, err := b.profiles()
		if err != nil {
			return nil, err
		}
		shadow := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: shadowName}}
		if err := c.Delete(ctx, shadow); client.IgnoreNotFound(err) != nil { // of another contender
			return nil, err
		}
		percentage := percentageOf(b.Nodes)
		profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: cluster.SchedulerName}}
		_, err = controllerutil.CreateOrUpdate(ctx, c, profile, func() error {
			profile.Spec.PercentageOfNodesToScore = &percentage
			return nil
		})
		if err != nil {
			return nil, err
		}
		return b.launch(func() (*cluster.Scheduler, error) {
			return cluster.StartLivesched(b.program(b.options.livesched, flags...))
		}), nil
	}
}

// program describes a scheduler with more flags.
func (b *bench) program(path string, flags ...string) cluster.Program {
	return cluster.Program{Path: path, Flags: flags, Kubeconfig: b.Kubeconfig(), Dir: b.dir}
}

// child is the process of a scheduler.
type child struct{ *cluster.Scheduler }

// launch runs a scheduler.
func (b *bench) launch(start func() (*cluster.Scheduler, error)) launch {
	return func(fail context.CancelCauseFunc) (running, error) {
		p, err := start()
		if err != nil {
			return nil, err
		}
		go func() {
			<-p.Done()
			if err := p.Err(); err != nil {
				fail(err)
			}
		}()
		return child{p}, nil
	}
}

func (c child) usage() (usage, error) {
	of, err := c.Usage()
	if err != nil {
		return usage{}, err
	}
	made, err := readDecisions(c.Scheduler)
	return usage{of, made}, err
}

func (c child) stop() error { return c.Stop(stopGrace) }
