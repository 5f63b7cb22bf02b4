// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
)

const (
	// stepTimeout limits the time of each step of the tour except the first, which may have to
	// build the control plane.
	stepTimeout = 2 * time.Minute
	// contrast is the minimum ratio between the numbers of nodes that spread pods and packed pods
	// use.
	contrast = 2
)

// tour holds the state between steps.
type tour struct {
	*sandbox
	binpack           *unstructured.Unstructured // the sample
	changed           *unstructured.Unstructured // with LeastAllocated
	packed            placement
	original, current string // revisions of the profile binpack
}

// step is one step of the tour. Errors contain its name.
type step struct {
	name, title string
	do          func(context.Context) error
	timeout     time.Duration // 0 means none
}

// tour starts everything and runs all steps. The error names the step that failed. The caller stops
// what was started.
func (s *sandbox) tour(ctx context.Context) error {
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	s.over = ctx.Done()
	began := time.Now()
	t := &tour{sandbox: s}
	replicas := replicasFor(s.nodes)
	fmt.Fprintf(s.out.out, "livesched quickstart: a Kubernetes control plane with %d simulated nodes, and livesched "+
		"as its scheduler (logs are in %s)\n", s.nodes, relative(s.dir))
	steps := []step{
		{"control plane", "start a control plane", s.startControlPlane, 0},
		{"nodes", fmt.Sprintf("create %d nodes", s.nodes), s.createNodes, stepTimeout},
		{"livesched", "start livesched", s.startLivesched, stepTimeout},
		{"profiles", "apply config/samples: a profile that spreads and one that packs", t.applySamples, stepTimeout},
		{"placement", fmt.Sprintf("create two Deployments of %d pods, one for each profile", replicas), t.place,
			stepTimeout},
		{"simulation", "ask what a change of binpack would do: scoringStrategy MostAllocated -> LeastAllocated",
			t.simulate, stepTimeout},
		{"change", "apply the change to the profile binpack", t.change, stepTimeout},
		{"placement by the changed profile", fmt.Sprintf("create another Deployment of %d pods for binpack", replicas),
			t.placeAgain, stepTimeout},
		{"broken profile", "break the profile binpack: a plugin that does not exist", t.breakProfile, stepTimeout},
		{"last good", fmt.Sprintf("create a Deployment of %d pods for the broken profile", replicas), t.placeByLastGood,
			stepTimeout},
		{"repair", "apply the sample again", t.repair, stepTimeout},
		{"roll-out", "give half of the owners of pods a spec of binpack that fits no node: it takes itself back",
			t.rollOutPoison, stepTimeout},
		{"explain", "ask why a pod is pending: it needs all CPU of a node in use", t.explainPending, stepTimeout},
		{"training job",
			fmt.Sprintf("create a training job of %d pods that start together, on %d racks with %d GPUs each", workers,
				racks-1, nodesPerRack*gpusPerNode), t.trainingWaits, stepTimeout},
		{"start of the training job", "add another rack", t.trainingStarts, stepTimeout},
		{"PodGroup of Kubernetes", fmt.Sprintf("create a PodGroup of Kubernetes whose %d pods have to be in one rack",
			servers), t.servingInOneRack, stepTimeout},
		{"gang Job", fmt.Sprintf("create a Job of %d pods with a gang policy: %d GPUs are free", workers,
			workers-servers), t.tuningWaits, stepTimeout},
		{"start of the gang Job", "delete the pods of the first group", t.tuningStarts, stepTimeout},
	}
	if s.bare {
		steps = steps[:3]
	}
	for i, step := range steps {
		s.out.step(i+1, len(steps), step.title)
		if err := runStep(ctx, step); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, step.name, err)
		}
	}
	fmt.Fprintf(s.out.out, "\nAll %d steps held, in %s; livesched was never restarted (pid %d).\n", len(steps),
		round(time.Since(began)), s.scheduler.PID())
	return nil
}

// runStep runs one step. If a component has died, it returns that error instead of its
// consequences.
func runStep(ctx context.Context, step step) error {
	stepCtx, cancel := ctx, context.CancelFunc(func() {})
	if step.timeout > 0 {
		stepCtx, cancel = context.WithTimeoutCause(ctx, step.timeout, fmt.Errorf("timed out after %s", step.timeout))
	}
	defer cancel()
	err := step.do(stepCtx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (t *tour) applySamples(ctx context.Context) error {
	samples := filepath.Join(t.root, "config", "samples")
	if err := t.applyAll(ctx, samples, policySampleFile); err != nil {
		return err
	}
	t.out.printf("%-10s %-15s %-9s %-11s %s\n", "PROFILE", "SCHEDULER NAME", "ACCEPTED", "PROGRAMMED", "REVISION")
	for _, name := range []string{"spread", "binpack"} {
		objects, err := readObjects(filepath.Join(samples, sampleFile(name)))
		if err != nil {
			return err
		}
		if len(objects) != 1 {
			return fmt.Errorf("%s has %d objects, not one", sampleFile(name), len(objects))
		}
		profile, _, err := t.applyProfile(ctx, objects[0], isProgrammed)
		if err != nil {
			return err
		}
		t.out.printf("%-10s %-15s %-9s %-11s %s\n", name, profile.Status.SchedulerName, metav1.ConditionTrue,
			metav1.ConditionTrue, profile.Status.Active.Revision)
		t.binpack, t.original = objects[0], profile.Status.Active.Revision // the last one is binpack
	}
	t.current = t.original
	return nil
}

func (t *tour) place(ctx context.Context) error {
	web := workload{"web", "spread", replicasFor(t.nodes)}
	batch := workload{"batch", "binpack", replicasFor(t.nodes)}
	if err := errors.Join(t.deploy(ctx, web), t.deploy(ctx, batch)); err != nil {
		return err
	}
	spread, err := t.placementOf(ctx, web)
	if err != nil {
		return err
	}
	if t.packed, err = t.placementOf(ctx, batch); err != nil {
		return err
	}
	if allowed := 1 + spread.pods/10; spread.zoneSkew() > allowed {
		return fmt.Errorf("the zones of %s differ by %d pods, which is more than %d: that is not spread", web.name,
			spread.zoneSkew(), allowed)
	}
	return spreadOut(spread, t.packed)
}

// spreadOut returns an error if the first of two placements of equal size does not use clearly more
// nodes than the second.
func spreadOut(wide, packed placement) error {
	if len(wide.perNode) < contrast*len(packed.perNode) {
		return fmt.Errorf("%d pods on %s are not spread when %d packed ones are on %s", wide.pods,
			plural(len(wide.perNode), "node"), packed.pods, plural(len(packed.perNode), "node"))
	}
	return nil
}

// simulate asks livesched where the packed pods would be by another strategy. They are to load the
// nodes more evenly.
func (t *tour) simulate(ctx context.Context) (err error) {
	if t.changed, err = withScoringStrategy(t.binpack, "LeastAllocated"); err != nil {
		return err
	}
	text, err := yaml.Marshal(t.changed)
	if err != nil {
		return err
	}
	file := filepath.Join(t.dir, "binpack.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	_, err = t.plugin(ctx, "simulate", "-f", relative(file), "-l", "app=batch", "--fail-on", "cpu.stddev>=current")
	return err
}

func (t *tour) change(ctx context.Context) error {
	profile, took, err := t.applyProfile(ctx, t.changed, isProgrammed)
	if err != nil {
		return err
	}
	revision := profile.Status.Active.Revision
	if revision == t.current {
		return fmt.Errorf("the revision is still %s, though the profile has changed", revision)
	}
	t.out.printf("revision %s -> %s, programmed %s after the apply (generation %d)\n", t.current, revision, round(took),
		profile.Status.Active.Generation)
	t.out.printf("by the same process: livesched has pid %d\n", t.scheduler.PID())
	t.current = revision
	return nil
}

func (t *tour) placeAgain(ctx context.Context) error {
	return t.placeWide(ctx, "batch-2")
}

// placeWide creates another Deployment for binpack and expects its pods to be spread out, since the
// profile no longer packs.
func (t *tour) placeWide(ctx context.Context, name string) error {
	w := workload{name, "binpack", replicasFor(t.nodes)}
	if err := t.deploy(ctx, w); err != nil {
		return err
	}
	wide, err := t.placementOf(ctx, w)
	if err != nil {
		return err
	}
	return spreadOut(wide, t.packed)
}

func (t *tour) breakProfile(ctx context.Context) error {
	const plugin = "NoSuchPlugin"
	broken, err := withScorePlugin(t.changed, plugin)
	if err != nil {
		return err
	}
	profile, took, err := t.applyProfile(ctx, broken, isRefused)
	if err != nil {
		return err
	}
	accepted, programmed := condition(profile, v1alpha1.ConditionAccepted),
		condition(profile, v1alpha1.ConditionProgrammed)
	t.out.printf("reported %s after the apply:\n", round(took))
	for _, c := range []*metav1.Condition{accepted, programmed} {
		t.out.printf("  %-10s  %-5s  %-14s %s\n", c.Type, c.Status, c.Reason, shorten(c.Message))
	}
	switch active := profile.Status.Active; {
	case accepted.Reason != v1alpha1.ReasonUnknownPlugin || !strings.Contains(accepted.Message, plugin):
		return fmt.Errorf("the reason of Accepted is %s (%s), not %s with the plugin's name", accepted.Reason,
			accepted.Message, v1alpha1.ReasonUnknownPlugin)
	case programmed.Status != metav1.ConditionFalse || programmed.Reason != v1alpha1.ReasonKeptLastGood:
		return fmt.Errorf("the profile has Programmed=%s with reason %s, not False with %s", programmed.Status,
			programmed.Reason, v1alpha1.ReasonKeptLastGood)
	case active == nil || active.Revision != t.current:
		return fmt.Errorf("revision %s was not kept: status.active is %+v", t.current, active)
	}
	t.out.printf("revision %s stays active\n", t.current)
	return nil
}

func (t *tour) placeByLastGood(ctx context.Context) error {
	return t.placeWide(ctx, "batch-3")
}

func (t *tour) repair(ctx context.Context) error {
	profile, took, err := t.applyProfile(ctx, t.binpack, isProgrammed)
	if err != nil {
		return err
	}
	if revision := profile.Status.Active.Revision; revision != t.original {
		return fmt.Errorf("the same profile had revision %s and now has %s", t.original, revision)
	}
	t.out.printf("revision %s -> %s, programmed %s after the apply: it packs again\n", t.current, t.original,
		round(took))
	return nil
}

// explainPending creates a pod that needs all CPU of a node in use, and asks livesched why it
// waits.
func (t *tour) explainPending(ctx context.Context) error {
	var node corev1.Node
	if err := t.client.Get(ctx, client.ObjectKey{Name: t.packed.fullest()}, &node); err != nil {
		return err
	}
	pod := greedyPod(&node)
	if err := t.client.Create(ctx, pod); err != nil {
		return err
	}
	err := await(ctx, t.client, &corev1.PodList{}, client.ObjectKeyFromObject(pod), func(p *corev1.Pod) (bool, error) {
		if p.Spec.NodeName != "" {
			return false, fmt.Errorf("pod %s was bound to %s, which has other pods", p.Name, p.Spec.NodeName)
		}
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		}), nil
	})
	if err != nil {
		return err
	}
	text, err := t.plugin(ctx, "explain", "pod/"+pod.Name)
	if err != nil {
		return err
	}
	for _, want := range []string{"no node can take it now", "Would help, each tried"} {
		if !strings.Contains(text, want) {
			return fmt.Errorf("the explanation does not have %q", want)
		}
	}
	return nil
}

// sayWhereItIs ends the transcript of a sandbox without a tour that keeps running.
func (s *sandbox) sayWhereItIs() {
	fmt.Fprintf(s.out.out, "\nThe cluster stays up until Ctrl-C. See it in a browser:\n\n    %s\n\n"+
		"Use it in another terminal:\n\n    source %s\n", s.dashboardURL, relative(s.environmentFile()))
}

// sayWhatToTry ends the transcript of a sandbox that keeps running.
func (s *sandbox) sayWhatToTry() {
	fmt.Fprintf(s.out.out, `
The cluster stays up until Ctrl-C. See it in a browser:

    %s

Try, in another terminal:

    source %s
    kubectl get sprof                                # the profiles and the revisions that decide
    kubectl describe sprof binpack
    kubectl edit sprof spread                        # the next pods are placed by what you write
    kubectl scale deployment web --replicas=%d
    kubectl get pods -o wide
    kubectl livesched explain pod/%s
    kubectl livesched status                         # the pods that wait, by profile
    kubectl livesched doctor
    token=$(kubectl config view --raw -o jsonpath='{.users[0].user.token}')
    curl -s --cacert $LIVESCHED_CA -H "Authorization: Bearer $token" $LIVESCHED_URL/metrics | grep livesched_
    less %s
`, s.dashboardURL, relative(s.environmentFile()), 2*replicasFor(s.nodes), greedyPodName, relative(s.scheduler.LogFile()))
}

// relative returns a path relative to the working directory.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return rel
}
