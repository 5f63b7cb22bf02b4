// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestABuild(t *testing.T) {
	t.Run("makes the default plugins, and closing the instance leaves nothing behind", func(t *testing.T) {
		e := newTestEnv(t, nil)
		p, err := e.builder().Build(e.ctx, e.resolve(t, object("mine")))
		must(t, err)
		if e.Informers.Handlers() != e.handlers {
			t.Errorf("%d handlers more than before: VolumeBinding's binder is the process's, and the one that it "+
				"makes must not listen", e.Informers.Handlers()-e.handlers)
		}
		if !slices.Contains(e.sources.held(), fwk.PersistentVolumeClaim) {
			t.Errorf("events are required of %v only", e.sources.held())
		}
		if p.SchedulerName() != "mine" || p.Framework.ProfileName() != "mine" ||
			p.QueueSort().Name() != names.PrioritySort {
			t.Errorf("built profile %q, framework %q, queue sort %q", p.SchedulerName(), p.Framework.ProfileName(),
				p.QueueSort().Name())
		}
		if score := p.Plugins().Score.Enabled; !slices.ContainsFunc(score, is(names.TaintToleration)) {
			t.Errorf("Score runs %v", score)
		}
		// Without them the fast path calls the plugin for every node.
		if args, ok := p.Framework.Args(names.NodeResourcesFit).(*schedconfig.NodeResourcesFitArgs); !ok ||
			args.ScoringStrategy == nil {
			t.Errorf("the arguments of NodeResourcesFit are %v", p.Framework.Args(names.NodeResourcesFit))
		}
		if p.Queue.InitialBackoff != time.Second || p.Queue.MaxBackoff != 10*time.Second ||
			p.Queue.MaxInUnschedulable != 5*time.Minute {
			t.Errorf("the queue got %v, %v, %v", p.Queue.InitialBackoff, p.Queue.MaxBackoff, p.Queue.MaxInUnschedulable)
		}
		p.Discard(logr.Discard())
		<-p.Closed()
		e.expectNothingLeft(t)
	})

	t.Run("leaves out the plugins of kube-scheduler's cycle for pod groups", func(t *testing.T) {
		e := newTestEnv(t, nil)
		profile := object("mine", names.GangScheduling, names.PodGroupPodsCount)
		profile.Spec.Plugins.Permit.Enabled = []v1alpha1.Plugin{{Name: names.GangScheduling}}
		p := e.build(t, profile)
		plugins := p.Plugins()
		for name, set := range map[string]schedconfig.PluginSet{"PreEnqueue": plugins.PreEnqueue,
			"Permit": plugins.Permit, "PlacementScore": plugins.PlacementScore} {
			if slices.ContainsFunc(set.Enabled, func(p schedconfig.Plugin) bool { return ofGroups.Has(p.Name) }) {
				t.Errorf("%s runs %v", name, set.Enabled)
			}
		}
		if p.Queue.IgnorePodGroups {
			t.Error("groups are left to a plugin")
		}
		p.Discard(logr.Discard())
		<-p.Closed()
	})

	t.Run("lets groups preempt if DefaultPreemption is enabled for pods and for groups", func(t *testing.T) {
		off := v1alpha1.PluginSet{Disabled: []v1alpha1.Plugin{{Name: names.DefaultPreemption}}}
		for name, test := range map[string]struct {
			plugins      v1alpha1.Plugins
			pods, groups bool
		}{
			"default":        {v1alpha1.Plugins{}, true, true},
			"not for pods":   {v1alpha1.Plugins{PostFilter: off}, false, false},
			"not for groups": {v1alpha1.Plugins{PodGroupPostFilter: off}, true, false},
			"not at all":     {v1alpha1.Plugins{MultiPoint: off}, false, false},
		} {
			e := newTestEnv(t, nil)
			profile := object("mine")
			profile.Spec.Plugins = &test.plugins
			p := e.build(t, profile)
			if pods, groups := p.Preemption() != nil, p.GroupPreemption() != nil; pods != test.pods ||
				groups != test.groups {
				t.Errorf("%s: pods preempt: %v, groups: %v", name, pods, groups)
			}
			p.Discard(logr.Discard())
			<-p.Closed()
		}
	})

	t.Run("makes plugins in the order of their names, with a handle that works until and after the instance is closed",
		func(t *testing.T) {
			var order []string
			note := func(f *fake) error {
				order = append(order, f.name)
				if f.handle.ProfileName() != "mine" || f.handle.ClientSet() == nil || f.handle.Parallelizer() == nil {
					return errors.New("the handle is not complete")
				}
				return nil
			}
			fs := &fakes{}
			e := newTestEnv(t,
				framework.Registry{"Two": fs.factory("Two", note), "One": fs.factory("One", note),
					"Three": fs.factory("Three", note)})
			p := e.build(t, object("mine", "Three", "One", "Two"))
			if want := []string{"One", "Three", "Two"}; !slices.Equal(order, want) {
				t.Errorf("made in the order %v, want %v", order, want)
			}
			p.Discard(logr.Discard())
			<-p.Closed()
			handle := fs.made[0].handle
			handle.Activate(logr.Discard(), map[string]*corev1.Pod{"x": {ObjectMeta: metav1.ObjectMeta{UID: "x"}}})
			if handle.GetWaitingPod("x") != nil || handle.RejectWaitingPod("x") ||
				handle.NominatedPodsForNode("n") != nil {
				t.Error("an old handle knows pods that there are not")
			}
			_, err := handle.SharedInformerFactory().Core().V1().PersistentVolumes().Informer().
				AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
			if err == nil {
				t.Error("a handler was added after the profile was closed")
			}
		})

	t.Run("removes the handlers before it closes the plugins, all of them, once", func(t *testing.T) {
		fs := &fakes{}
		var e *testEnv
		listens := func(f *fake) error {
			_, err := f.handle.SharedInformerFactory().Core().V1().PersistentVolumes().Informer().
				AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
			f.onClose = func() error {
				if handlers := e.Informers.Handlers(); handlers != e.handlers {
					t.Errorf("%d handlers too many when the plugin is closed", handlers-e.handlers)
				}
				panic("cannot be closed")
			}
			return err
		}
		e = newTestEnv(t, fs.registry(listens))
		p := e.build(t, object("mine", "AFirst", "Broken", "ZLast"))
		p.Discard(logr.Discard())
		<-p.Closed()
		fs.expectClosed(t, "AFirst", "Broken", "ZLast")
		e.expectNothingLeft(t)
	})

	t.Run("gives the plugins a context with the caller's values that ends with the instance only", func(t *testing.T) {
		type key struct{}
		fs := &fakes{}
		e := newTestEnv(t, fs.registry(nil))
		ctx, cancel := context.WithCancel(context.WithValue(e.ctx, key{}, "value"))
		p, err := e.builder().Build(ctx, e.resolve(t, object("mine", "AFirst")))
		must(t, err)
		cancel()
		got := fs.made[0].ctx
		if got.Err() != nil || got.Value(key{}) != "value" {
			t.Errorf("the plugin's context has ended (%v) or lost its values (%v)", got.Err(), got.Value(key{}))
		}
		p.Discard(logr.Discard())
		<-p.Closed()
		fs.expectClosed(t, "AFirst")
	})
}

func is(name string) func(schedconfig.Plugin) bool {
	return func(p schedconfig.Plugin) bool { return p.Name == name }
}

func TestABuildThatFails(t *testing.T) {
	asks := func(resource fwk.EventResource) func(*fake) error {
		return func(f *fake) error {
			f.events = func() ([]fwk.ClusterEventWithHint, error) {
				return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: resource, ActionType: fwk.All}}},
					nil
			}
			return nil
		}
	}
	for _, test := range []struct {
		name    string
		adjust  func(*fake) error
		change  func(*testEnv, *resolve.Profile)
		timeout time.Duration // 0: the default
		err     string
		made    []string
	}{{
		name:   "in a factory",
		adjust: func(*fake) error { return errors.New("no luck") },
		err:    `initializing plugin "Broken": no luck`,
		made:   []string{"AFirst"},
	}, {
		name:   "by a panic in a factory",
		adjust: func(*fake) error { panic("no luck") },
		err:    `initializing plugin "Broken": panic: no luck`,
		made:   []string{"AFirst"},
	}, {
		name: "in a factory that returns no plugin",
		change: func(e *testEnv, _ *resolve.Profile) {
			e.Registry["Broken"] = func(context.Context, apiruntime.Object, fwk.Handle) (fwk.Plugin, error) {
				return nil, nil
			}
		},
		err:  `initializing plugin "Broken": the factory returned no plugin`,
		made: []string{"AFirst"},
	}, {
		name: "without a factory",
		change: func(e *testEnv, _ *resolve.Profile) {
			delete(e.Registry, "Broken")
		},
		err:  `plugin "Broken" is not registered`,
		made: []string{"AFirst"},
	}, {
		name: "over a plugin that does not implement its extension point",
		change: func(_ *testEnv, cfg *resolve.Profile) {
			cfg.Config.Plugins.Score.Enabled = append(cfg.Config.Plugins.Score.Enabled,
				schedconfig.Plugin{Name: "Broken"})
		},
		err:  `extension point Score: plugin "Broken" does not implement it`,
		made: []string{"AFirst", "Broken", "ZLast"},
	}, {
		name: "by a panic in a plugin's name",
		change: func(e *testEnv, _ *resolve.Profile) {
			e.Registry["Broken"] = func(context.Context, apiruntime.Object, fwk.Handle) (fwk.Plugin, error) {
				return nameless{}, nil
			}
		},
		err:  "expanding the extension points: panic: no name",
		made: []string{"AFirst", "ZLast"},
	}, {
		name: "when a plugin is asked for its events",
		adjust: func(f *fake) error {
			f.events = func() ([]fwk.ClusterEventWithHint, error) { return nil, errors.New("no luck") }
			return nil
		},
		err:  `plugin "Broken": events to register: no luck`,
		made: []string{"AFirst", "Broken", "ZLast"},
	}, {
		name: "by a panic when a plugin is asked for its events",
		adjust: func(f *fake) error {
			f.events = func() ([]fwk.ClusterEventWithHint, error) { panic("no luck") }
			return nil
		},
		err:  `plugin "Broken": events to register: panic: no luck`,
		made: []string{"AFirst", "Broken", "ZLast"},
	}, {
		name: "because its informers may not list",
		adjust: func(f *fake) error {
			f.handle.SharedInformerFactory().Core().V1().Secrets().Lister()
			return nil
		},
		timeout: 10 * time.Second, // the test takes that long: by then the list must have been rejected
		err:     "waiting for the informers of the plugins: informers did not sync: v1 Secret (failed to list",
		made:    []string{"AFirst", "Broken", "ZLast"},
	}, {
		name:   "because its events are not available",
		adjust: asks("foos.v1.example.com"),
		change: func(e *testEnv, _ *resolve.Profile) { e.sources.err = errors.New("no such events") },
		err:    "waiting for the cluster events of the plugins: no such events",
		made:   []string{"AFirst", "Broken", "ZLast"},
	}} {
		t.Run(test.name+" leaves nothing behind", func(t *testing.T) {
			fs := &fakes{}
			e := newTestEnv(t, fs.registry(test.adjust))
			cfg := e.resolve(t, object("mine", "AFirst", "Broken", "ZLast"))
			if test.change != nil {
				test.change(e, cfg)
			}
			p, err := NewBuilder(e.Environment, test.timeout, clock.RealClock{}).Build(e.ctx, cfg)
			if p != nil || err == nil || !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got profile %v and error %v, want error %q", p, err, test.err)
			}
			e.expectNothingLeft(t)
			eventually(t, e.series.count).Should(gomega.BeZero(), "instances that are not closed")
			fs.expectClosed(t, test.made...)
		})
	}
}

// count returns the number of names in use.
func (s *seriesUsers) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.users)
}

// nameless is a plugin whose Name panics.
type nameless struct{ fwk.FilterPlugin }

func (nameless) Name() string { panic("no name") }

func TestABuildThatHangs(t *testing.T) {
	for _, test := range []struct {
		name  string
		hang  func(*fake, func()) error
		stage string
	}{{
		name: "in a factory",
		hang: func(_ *fake, wait func()) error {
			wait()
			return nil
		},
		stage: `building plugin "Broken"`,
	}, {
		name: "when a plugin is asked for its events",
		hang: func(f *fake, wait func()) error {
			f.events = func() ([]fwk.ClusterEventWithHint, error) {
				wait()
				return nil, nil
			}
			return nil
		},
		stage: "asking the plugins for their cluster events",
	}} {
		t.Run(test.name+" is cut off, and what it made is closed when it returns", func(t *testing.T) {
			fs := &fakes{}
			hangs, goOn := make(chan struct{}), make(chan struct{})
			e := newTestEnv(t, fs.registry(func(f *fake) error {
				return test.hang(f, func() {
					hangs <- struct{}{}
					<-goOn
				})
			}))
			p, err := e.builder().Build(e.ctx, e.resolve(t, object("mine"))) // it starts informers that stay
			must(t, err)
			p.Discard(logr.Discard())
			<-p.Closed()
			goroutines := runtime.NumGoroutine()
			const timeout = time.Minute
			hangingClock := clocktesting.NewFakeClock(time.Now())
			b := NewBuilder(e.Environment, timeout, hangingClock)
			// build starts a build that hangs until its timeout.
			build := func() error {
				cfg, ended := e.resolve(t, object("mine", "AFirst", "Broken")), make(chan error, 1)
				go func() {
					_, err := b.Build(e.ctx, cfg)
					ended <- err
				}()
				select {
				case <-hangs:
					hangingClock.Step(timeout)
					return <-ended
				case err := <-ended:
					return fmt.Errorf("it did not hang: %w", err)
				}
			}
			err = build()
			want := "cut off while " + test.stage + ": the build did not end within 1m0s"
			if err == nil || err.Error() != want {
				t.Errorf("got the error %v, want %s", err, want)
			}
			// The event handlers end immediately; the plugins cannot be closed while a constructor
			// runs.
			if handlers := e.Informers.Handlers(); handlers != e.handlers {
				t.Errorf("%d handlers are left while the build hangs", handlers-e.handlers)
			}
			if fs.made[0].ctx.Err() == nil {
				t.Error("the context of the plugins has not ended")
			}
			if closes := fs.made[0].closes.Load(); closes != 0 {
				t.Errorf("a plugin was closed %d times while the build hangs", closes)
			}
			if held := e.sources.held(); len(held) > 0 {
				t.Errorf("events are required of %v while the build hangs", held)
			}

			// Retries that also hang become less frequent.
			retry := func() error {
				_, err := b.Build(e.ctx, e.resolve(t, object("mine", "AFirst", "Broken")))
				return err
			}
			for hanging := 1; hanging <= 3; hanging++ {
				hangingClock.Step(timeout<<hanging - 1)
				while := runtime.NumGoroutine()
				for range 20 {
					if err := retry(); err == nil ||
						!strings.HasPrefix(err.Error(),
							fmt.Sprintf("%s; it still hangs (%d builds of this revision do)", want, hanging)) {
						t.Fatalf("a retry while %d builds hang ends with the error %v", hanging, err)
					}
				}
				if n := runtime.NumGoroutine(); n >= while+20 {
					t.Errorf("20 retries have left %d goroutines", n-while)
				}
				hangingClock.Step(1)
				if err := build(); err == nil || err.Error() != want {
					t.Errorf("a retry that is due ends with the error %v, want %s", err, want)
				}
			}
			if p, err := b.Build(e.ctx, e.resolve(t, object("mine", "AFirst"))); err != nil {
				t.Errorf("another revision is held up: %v", err)
			} else {
				p.Discard(logr.Discard())
				<-p.Closed()
			}
			if n := hangingOf(b); n != 4 {
				t.Errorf("%d builds hang", n)
			}

			close(goOn)
			eventually(t, func() int { return hangingOf(b) }).Should(gomega.BeZero(), "builds that hang")
			eventually(t, e.series.count).Should(gomega.BeZero(), "instances that are not closed")
			// Four of each from the builds that hung, and one from the other revision.
			fs.expectClosed(t, "AFirst", "AFirst", "AFirst", "AFirst", "AFirst", "Broken", "Broken", "Broken", "Broken")
			e.expectNothingLeft(t)
			eventually(t, runtime.NumGoroutine).Should(gomega.BeNumerically("<=", goroutines+2), "goroutines")
		})
	}

	t.Run("ends with its context, too", func(t *testing.T) {
		fs := &fakes{}
		goOn := make(chan struct{})
		entered := make(chan struct{})
		e := newTestEnv(t, fs.registry(func(*fake) error {
			close(entered)
			<-goOn
			return nil
		}))
		ctx, cancel := context.WithCancelCause(e.ctx)
		go func() {
			<-entered
			cancel(errors.New("the process ends"))
		}()
		_, err := e.builder().Build(ctx, e.resolve(t, object("mine", "Broken")))
		if err == nil || err.Error() != `cut off while building plugin "Broken": the process ends` {
			t.Errorf("got the error %v", err)
		}
		close(goOn)
		eventually(t, e.series.count).Should(gomega.BeZero())
		fs.expectClosed(t, "Broken")
	})
}

// hangingOf returns the number of builds that hang.
func hangingOf(b *Builder) (count int) {
	b.hanging.mu.Lock()
	defer b.hanging.mu.Unlock()
	for _, r := range b.hanging.revisions {
		count += r.count
	}
	return count
}
