// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/controlplane/binaries"
)

func TestLock(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(path)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = lock(path)
	g.Expect(err).To(MatchError(fmt.Sprintf("another quickstart uses %s already: end it first, with Ctrl-C where it "+
		"runs or `kill %d`", filepath.Dir(path), os.Getpid())))
	unlock()
	unlock, err = lock(path)
	g.Expect(err).NotTo(HaveOccurred(), "it was given back")
	unlock()
}

func podOn(node string) corev1.Pod { return corev1.Pod{Spec: corev1.PodSpec{NodeName: node}} }

func TestPlacement(t *testing.T) {
	zoneOf := map[string]string{"a1": "a", "a2": "a", "b1": "b", "c1": "c"}
	t.Run("bound pods are counted by node and zone, empty zones too", func(t *testing.T) {
		g := NewWithT(t)
		p := newPlacement([]corev1.Pod{podOn("a1"), podOn("a1"), podOn("a2"), podOn("b1"), podOn("")}, zoneOf)
		g.Expect(p.String()).To(Equal("4 pods on 3 nodes (a 3, b 1, c 0)"))
		g.Expect(p.zoneSkew()).To(Equal(3))
		g.Expect(p.fullest()).To(Equal("a1"))
		g.Expect(p.picture()).To(Equal("▂▁▁  (a bar per node: 1 to 2 pods)"))
	})
	t.Run("the picture is bounded in both directions", func(t *testing.T) {
		g := NewWithT(t)
		p := placement{perNode: map[string]int{"full": 16, "half": 8, "one": 1}}
		g.Expect(p.picture()).To(HavePrefix("█▄▁  "))
		for i := range 200 {
			p.perNode[fmt.Sprint(i)] = 1
		}
		g.Expect(p.picture()).To(And(HavePrefix("█▄▁▁▁"), ContainSubstring("▁…  (")))
		g.Expect([]rune(p.picture())[:barsShown+1]).To(HaveLen(barsShown + 1))
		g.Expect(placement{}.picture()).To(BeEmpty())
	})
	t.Run("spread means clearly more nodes than packed", func(t *testing.T) {
		g := NewWithT(t)
		packed := placement{pods: 4, perNode: map[string]int{"a1": 2, "a2": 2}}
		wide := placement{pods: 4, perNode: map[string]int{"a1": 1, "a2": 1, "b1": 1, "c1": 1}}
		g.Expect(spreadOut(wide, packed)).To(Succeed())
		g.Expect(spreadOut(packed, packed)).
			To(MatchError("4 pods on 2 nodes are not spread when 4 packed ones are on 2 nodes"))
	})
	t.Run("a workload is smaller than its cluster, and bounded", func(t *testing.T) {
		g := NewWithT(t)
		for nodes, replicas := range map[int]int32{6: 6, 10: 6, 100: 60, 1000: 300} {
			g.Expect(replicasFor(nodes)).To(Equal(replicas), "%d nodes", nodes)
		}
	})
}

func TestSampleIsChangedWhereItIsMeantToBe(t *testing.T) {
	g := NewWithT(t)
	root, err := binaries.FindRoot()
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := readObjects(filepath.Join(root, "config", "samples", sampleFile("binpack")))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).To(HaveLen(1))
	binpack := objects[0].DeepCopy()

	changed, err := withScoringStrategy(binpack, "LeastAllocated")
	g.Expect(err).NotTo(HaveOccurred())
	broken, err := withScorePlugin(changed, "NoSuchPlugin")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(binpack).To(Equal(objects[0]), "the sample itself is not touched")

	typed := func(u *unstructured.Unstructured) *v1alpha1.SchedulerProfile {
		p := &v1alpha1.SchedulerProfile{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, p, true)).To(Succeed())
		return p
	}
	for _, config := range typed(changed).Spec.PluginConfig {
		if config.Name == "NodeResourcesFit" {
			g.Expect(string(config.Args.Raw)).To(ContainSubstring(`"type":"LeastAllocated"`))
		}
	}
	enabled := typed(broken).Spec.Plugins.Score.Enabled
	g.Expect(enabled).To(HaveLen(len(typed(binpack).Spec.Plugins.Score.Enabled) + 1))
	g.Expect(enabled[len(enabled)-1].Name).To(Equal("NoSuchPlugin"))

	delete(binpack.Object["spec"].(map[string]any), "pluginConfig")
	_, err = withScoringStrategy(binpack, "LeastAllocated")
	g.Expect(err).To(MatchError("profile binpack has no arguments for NodeResourcesFit to change"))
}

func profileWith(generation int64, active *v1alpha1.ActiveProfile,
	conditions ...metav1.Condition) *v1alpha1.SchedulerProfile {
	p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: generation}}
	p.Status.Conditions, p.Status.Active = conditions, active
	return p
}

func TestProfileConditions(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "message",
			ObservedGeneration: generation}
	}
	accepted := func(generation int64) metav1.Condition {
		return condition("Accepted", metav1.ConditionTrue, "Accepted", generation)
	}
	refused := condition("Accepted", metav1.ConditionFalse, "Invalid", 2)
	kept := condition("Programmed", metav1.ConditionFalse, "KeptLastGood", 2)
	programmed := func(generation int64) metav1.Condition {
		return condition("Programmed", metav1.ConditionTrue, "Programmed", generation)
	}
	active := &v1alpha1.ActiveProfile{Generation: 2, Revision: "r"}
	for _, test := range []struct {
		name       string
		profile    *v1alpha1.SchedulerProfile
		check      func(*v1alpha1.SchedulerProfile) (bool, error)
		met        bool
		errMessage string
	}{
		{"programmed with this generation", profileWith(2, active, accepted(2), programmed(2)), isProgrammed, true, ""},
		{"not yet: the conditions speak of the last one", profileWith(2, active, accepted(1), programmed(1)),
			isProgrammed, false, ""},
		{"not yet: no status", profileWith(2, nil), isProgrammed, false, ""},
		{"never: not accepted", profileWith(2, nil, refused), isProgrammed, false,
			"profile p is not accepted: Invalid: message"},
		{"never: not built", profileWith(2, nil, accepted(2),
			condition("Programmed", metav1.ConditionFalse, "BuildFailed", 2)), isProgrammed, false,
			"profile p could not be built: message"},
		{"a status that contradicts itself",
			profileWith(2, &v1alpha1.ActiveProfile{Generation: 1, Revision: "r"}, programmed(2)), isProgrammed, false,
			"programmed with generation 2"},
		{"refused", profileWith(2, active, refused, kept), isRefused, true, ""},
		{"not refused yet", profileWith(2, active, refused), isRefused, false, ""},
		{"accepted though it should be refused", profileWith(2, active, accepted(2), programmed(2)), isRefused, false,
			"Accepted=True"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			met, err := test.check(test.profile)
			g.Expect(met).To(Equal(test.met))
			if test.errMessage == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(test.errMessage)))
			}
		})
	}
}

func TestNext(t *testing.T) {
	met := func(p *v1alpha1.SchedulerProfile) (bool, error) { return p.Generation >= 2, nil }
	t.Run("it returns with the first object that meets the condition", func(t *testing.T) {
		g := NewWithT(t)
		w := watch.NewFakeWithChanSize(2, false)
		w.Add(profileWith(1, nil))
		w.Modify(profileWith(2, nil))
		g.Expect(next(t.Context(), w, met)).To(Succeed())
	})
	t.Run("an object that is deleted or a watch that ends is an error", func(t *testing.T) {
		g := NewWithT(t)
		w := watch.NewFakeWithChanSize(1, false)
		w.Delete(profileWith(2, nil))
		g.Expect(next(t.Context(), w, met)).To(MatchError("p was deleted"))
		w.Stop()
		g.Expect(next(t.Context(), w, met)).To(MatchError(ContainSubstring("the watch has ended")))
	})
	t.Run("an error event is an error", func(t *testing.T) {
		g := NewWithT(t)
		w := watch.NewFakeWithChanSize(1, false)
		w.Error(&metav1.Status{Message: "too old"})
		g.Expect(next(t.Context(), w, met)).To(MatchError(ContainSubstring("too old")))
	})
	t.Run("it ends with its context, for the reason that the context has", func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("livesched died"))
		g.Expect(next(ctx, watch.NewFake(), met)).To(MatchError("livesched died"))
	})
}

func TestRunStep(t *testing.T) {
	t.Run("the death of a component is what ended a step, not what it led to", func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		err := runStep(ctx, step{do: func(context.Context) error {
			cancel(errors.New("kwok died"))
			return errors.New("connection refused")
		}})
		g.Expect(err).To(MatchError("kwok died"))
	})
	t.Run("a step that takes too long says so", func(t *testing.T) {
		g := NewWithT(t)
		err := runStep(t.Context(), step{timeout: time.Millisecond, do: func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		g.Expect(err).To(MatchError("timed out after 1ms"))
	})
}

func TestPrinterIndentsLinesThatComeInPieces(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	p := &printer{out: &out}
	p.step(1, 2, "build")
	p.printf("building ... ")
	p.printf("2s\nnext\n\nlast\n")
	g.Expect(out.String()).To(Equal("\n[1/2] build\n    building ... 2s\n    next\n    \n    last\n"))
}

func TestShellQuoted(t *testing.T) {
	g := NewWithT(t)
	g.Expect(shellQuoted([]string{"simulate", "-l", "app=batch", "moved>1", "it's"})).
		To(Equal(`simulate -l app=batch 'moved>1' 'it'\''s'`))
}
