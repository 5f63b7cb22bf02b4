// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// desk is a reporter in a bubble of testing/synctest, on a fake API server.
type desk struct {
	*testing.T
	client   client.Client
	recorder *events.FakeRecorder
	reporter *reporter
	// stop ends the reporter and waits for it.
	stop func()
	// report is the report of the objects that changed last.
	latest *report
	// version replaces the resource version in the answers to writes of statuses, unless it is "".
	// It changes only while nothing is written.
	version string

	mu sync.Mutex // guards the fields below
	// before is called before each write, with its verb ("store" or "report") and the name of the
	// object, and before each list of revisions ("list"). An error replaces the request. after
	// replaces the answer of the write.
	before, after func(ctx context.Context, verb, name string) error
	// writes are the writes that took effect.
	writes []string
}

// newDesk returns a desk with a reporter that runs.
func newDesk(t *testing.T) *desk {
	d := &desk{T: t, recorder: events.NewFakeRecorder(10000)}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	d.client = fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.SchedulerProfile{}, &v1alpha1.SchedulingPolicy{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object,
				options ...client.CreateOption) error {
				if _, ok := object.(*appsv1.ControllerRevision); !ok {
					return c.Create(ctx, object, options...)
				}
				return d.write(ctx, "store", object.GetLabels()[history.LabelName],
					func() error { return c.Create(ctx, object, options...) })
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				d.mu.Lock()
				before := d.before
				d.mu.Unlock()
				if _, ok := list.(*appsv1.ControllerRevisionList); ok && before != nil {
					if err := before(ctx, "list", ""); err != nil {
						return err
					}
				}
				return c.List(ctx, list, options...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object,
				options ...client.DeleteOption) error {
				if _, ok := object.(*appsv1.ControllerRevision); !ok {
					return c.Delete(ctx, object, options...)
				}
				return d.write(ctx, "delete", object.GetName(),
					func() error { return c.Delete(ctx, object, options...) })
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				return d.write(ctx, "report", object.GetName(), func() error {
					err := c.SubResource(sub).Patch(ctx, object, patch, options...)
					if d.version != "" && err == nil {
						object.SetResourceVersion(d.version)
					}
					return err
				})
			},
		}).Build()
	d.reporter = newReporter(Config{
		Client: d.client, Recorder: d.recorder, Archive: &history.Archive{Client: d.client, Namespace: "default"},
		Clock: clock.RealClock{},
	})
	d.latest = &report{
		state: state{
			resolution: &resolve.Resolution{Profiles: map[string]*resolve.Profile{},
				ProfileResults: map[string]resolve.Result{}, PolicyResults: map[string]resolve.Result{}},
			running: map[string]*running{},
		},
		profiles: map[types.UID]*v1alpha1.SchedulerProfile{}, policies: map[types.UID]*v1alpha1.SchedulingPolicy{},
		good: map[string][]resolve.GoodPolicy{}, settled: true,
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.reporter.Start(ctx); err != nil {
			t.Errorf("the reporter has ended with %v", err)
		}
	}()
	d.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(d.stop)
	return d
}

func (d *desk) write(ctx context.Context, verb, name string, do func() error) error {
	d.mu.Lock()
	before, after := d.before, d.after
	d.mu.Unlock()
	if before != nil {
		if err := before(ctx, verb, name); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	d.mu.Lock()
	d.writes = append(d.writes, verb+" "+name)
	d.mu.Unlock()
	if after != nil {
		return after(ctx, verb, name)
	}
	return nil
}

// answer sets what happens before and after writes take effect.
func (d *desk) answer(before, after func(ctx context.Context, verb, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.after = before, after
}

// written returns the writes that took effect since the last call.
func (d *desk) written() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	writes := d.writes
	d.writes = nil
	return writes
}

// run makes a generation of profiles run, on a policy unless its name is empty. It does not report
// that.
func (d *desk) run(policy string, generation int64, names ...string) {
	d.Helper()
	next := *d.latest
	next.running, next.profiles, next.resolution = clone(next.running), clone(next.profiles), &resolve.Resolution{
		Profiles: clone(next.resolution.Profiles), ProfileResults: clone(next.resolution.ProfileResults),
		PolicyResults: clone(next.resolution.PolicyResults),
	}
	for _, name := range names {
		object := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		d.apply(object, generation)
		cfg := &resolve.Profile{
			Name: name, UID: object.UID, Generation: generation, SchedulerName: name,
			Revision: fmt.Sprintf("%s-%d", name, generation),
			Source: resolve.GoodProfile{UID: object.UID, Generation: generation,
				Spec: v1alpha1.SchedulerProfileSpec{PercentageOfNodesToScore: new(int32(generation))}},
		}
		if good := next.good[policy]; len(good) > 0 {
			cfg.PolicyName, cfg.PolicyGeneration, cfg.Source.Policy = policy, good[0].Generation, &good[0]
		}
		next.profiles[object.UID] = object
		next.resolution.Profiles[name] = cfg
		next.resolution.ProfileResults[name] = resolve.Result{Generation: generation, Accepted: true,
			Reason: v1alpha1.ReasonAccepted, SchedulerName: name}
		next.running[name] = &running{config: cfg, built: time.Now(), plugins: &schedconfig.Plugins{}}
	}
	d.latest = &next
}

// accept makes a generation of a policy accepted. It does not report that.
func (d *desk) accept(name string, generation int64) {
	d.Helper()
	next := *d.latest
	object := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	d.apply(object, generation)
	next.policies, next.good = clone(next.policies), clone(next.good)
	next.policies[object.UID] = object
	next.good[name] = []resolve.GoodPolicy{{Name: name, UID: object.UID, Generation: generation,
		Spec: v1alpha1.SchedulingPolicySpec{Parallelism: new(int32(generation))}}}
	next.resolution = &resolve.Resolution{Profiles: next.resolution.Profiles,
		ProfileResults: next.resolution.ProfileResults, PolicyResults: clone(next.resolution.PolicyResults)}
	next.resolution.PolicyResults[name] = resolve.Result{Generation: generation, Accepted: true,
		Reason: v1alpha1.ReasonAccepted}
	d.latest = &next
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// apply creates an object, or gives it another generation.
func (d *desk) apply(object client.Object, generation int64) {
	d.Helper()
	if err := d.client.Get(d.Context(), client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
		object.SetGeneration(generation)
		if err := d.client.Create(d.Context(), object); err != nil {
			d.Fatal(err)
		}
		return
	} else if err != nil {
		d.Fatal(err)
	}
	object.SetGeneration(generation)
	if err := d.client.Update(d.Context(), object); err != nil {
		d.Fatal(err)
	}
}

// report reports what runs.
func (d *desk) report() { d.reporter.report(d.latest) }

// programmed returns the condition Programmed of a profile.
func (d *desk) programmed(name string) metav1.Condition {
	d.Helper()
	synctest.Wait()
	var p v1alpha1.SchedulerProfile
	if err := d.client.Get(d.Context(), client.ObjectKey{Name: name}, &p); err != nil {
		d.Fatal(err)
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// expect expects the status, reason and generation of Programmed.
func (d *desk) expect(name string, want string) {
	d.Helper()
	c := d.programmed(name)
	if got := fmt.Sprintf("%s %s %d", c.Status, c.Reason, c.ObservedGeneration); got != want {
		d.Errorf("%s: Programmed is %s, want %s", name, got, want)
	}
}

// told returns the Events since the last call.
func (d *desk) told() (all []string) {
	synctest.Wait()
	for {
		select {
		case e := <-d.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// elapse lets time pass in the bubble.
func elapse(d time.Duration) { <-time.After(d) }

const unreported = "  0"

// hangs never answers the writes of some objects, until their context ends.
func hangs(verb string, names ...string) func(ctx context.Context, v, name string) error {
	return func(ctx context.Context, v, name string) error {
		if v != verb || !slices.Contains(names, name) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

func TestWritesThatHangDelayNoOtherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.answer(func(ctx context.Context, verb, name string) error {
			return errors.Join(hangs("store", "unstored")(ctx, verb, name), hangs("report", "untold")(ctx, verb, name))
		}, nil)
		d.run("", 1, "unstored", "untold", "quick")
		d.report()
		d.expect("quick", "True Programmed 1")
		d.run("", 2, "quick")
		d.report()
		d.expect("quick", "True Programmed 2")
		d.expect("unstored", unreported)
		d.expect("untold", unreported)

		elapse(firstTimeout)
		d.expect("unstored", "False NotStored 1")

		elapse(time.Hour)
		d.answer(nil, nil)
		elapse(lastTimeout + lastRetry)
		d.expect("unstored", "True Programmed 1")
		d.expect("untold", "True Programmed 1")
	})
}

func TestManyWritesThatHangDelayAnotherObjectBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var stuck []string
		for i := range 3 * writers {
			stuck = append(stuck, fmt.Sprint("stuck-", i))
		}
		d.answer(hangs("store", stuck...), nil)
		d.run("", 1, stuck...)
		d.report()
		synctest.Wait()
		d.run("", 1, "quick")
		d.report()
		elapse(slowAfter)
		d.expect("quick", "True Programmed 1")
	})
}

func TestAStatusThatIsRefusedDelaysNoOtherAndIsRetriedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var tries []time.Duration
		began := time.Now()
		d.answer(func(_ context.Context, verb, name string) error {
			if verb == "report" && name == "one" {
				tries = append(tries, time.Since(began))
				return apierrors.NewBadRequest("denied by a webhook")
			}
			return nil
		}, nil)
		d.run("", 1, "one", "two")
		d.report()
		d.expect("two", "True Programmed 1")
		elapse(100 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{0, 1, 3, 7, 15, 31, 61, 91}, seconds(tries)); diff != "" {
			t.Errorf("tried after so many seconds:\n%s", diff)
		}
		tries, began = nil, time.Now()
		d.run("", 1, "three") // a report without news about the object
		d.report()
		d.expect("three", "True Programmed 1")
		d.run("", 2, "one")
		d.report()
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{0}, seconds(tries)); diff != "" {
			t.Errorf("another spec is tried after so many seconds:\n%s", diff)
		}
	})
}

func seconds(all []time.Duration) (rounded []time.Duration) {
	for _, d := range all {
		rounded = append(rounded, d/time.Second)
	}
	return rounded
}

func TestAStatusIsWrittenAgainOnceTheCacheHasTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		conflicts := 3
		d.answer(func(_ context.Context, verb, name string) error {
			if verb == "report" && name == "one" && conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "schedulerprofiles"}, name,
					errors.New("changed"))
			}
			return nil
		}, nil)
		d.run("", 1, "one", "two")
		d.report()
		d.expect("two", "True Programmed 1")
		d.expect("one", unreported)
		elapse(8 * staleRetry)
		d.expect("one", "True Programmed 1")
	})
}

func TestAStatusThatAlwaysMeetsAConflictIsRetriedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var tries atomic.Int32
		var current atomic.Bool
		d.answer(func(_ context.Context, verb, name string) error {
			if verb == "report" && name == "one" {
				tries.Add(1)
				if !current.Load() {
					return apierrors.NewConflict(schema.GroupResource{Resource: "schedulerprofiles"}, name,
						errors.New("changed"))
				}
			}
			return nil
		}, nil)
		d.run("", 1, "one")
		d.report()
		elapse(maxStaleRetry)
		early := tries.Load()
		elapse(10 * maxStaleRetry)
		if later := tries.Load() - early; early < 5 || early > 10 || later < 9 || later > 12 {
			t.Errorf("%d tries in %v, %d in ten times that", early, maxStaleRetry, later)
		}
		current.Store(true)
		elapse(maxStaleRetry)
		d.expect("one", "True Programmed 1")
	})
}

// As when etcd was restored from a backup: what was written has a later version than the API
// server.
func TestAStatusIsWrittenWithTheVersionThatTheAPIServerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.version = "1000000"
		d.run("", 1, "one")
		d.report()
		d.expect("one", "True Programmed 1")
		synctest.Wait()
		d.version = ""
		d.run("", 2, "one")
		d.report()
		elapse(2 * staleRetry)
		synctest.Wait()
		d.expect("one", "True Programmed 2")
	})
}

// TestWhatEtcdHasLostIsWrittenAgain has an etcd that was restored from a backup right after the
// writes, so that the cache has never had them.
func TestWhatEtcdHasLostIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.version = "1000"
		d.run("", 1, "a")
		d.report()
		if diff := cmp.Diff([]string{"store a", "report a"}, d.written()); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
		d.version = ""
		lost := &v1alpha1.SchedulerProfile{}
		if err := d.client.Get(t.Context(), client.ObjectKey{Name: "a"}, lost); err != nil {
			t.Fatal(err)
		}
		lost.Status = v1alpha1.SchedulerProfileStatus{}
		if err := errors.Join(d.client.Status().Update(t.Context(), lost),
			d.client.DeleteAllOf(t.Context(), &appsv1.ControllerRevision{},
				client.InNamespace("default"))); err != nil {
			t.Fatal(err)
		}
		elapse(confirmAfter - time.Second)
		if got := d.written(); len(got) > 0 {
			t.Errorf("written before anything can be known: %v", got)
		}
		elapse(time.Second)
		if diff := cmp.Diff([]string{"store a", "report a"}, d.written()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		elapse(10 * confirmAfter)
		if got := d.written(); len(got) > 0 {
			t.Errorf("written once more: %v", got)
		}
	})
}

func TestStatusesAreWrittenAlthoughTheRevisionsCannotBeReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.run("", 1, "a")
		d.report()
		d.written()
		lists := 0
		d.answer(func(_ context.Context, verb, _ string) error {
			if verb == "list" {
				lists++
				return errors.New("the answer is too large")
			}
			return nil
		}, nil)
		elapse(2 * confirmAfter)
		d.run("", 2, "a")
		d.report()
		elapse(lastRetry)
		if diff := cmp.Diff([]string{"store a", "report a"}, d.written()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if lists < 2 || lists > 20 {
			t.Errorf("tried to list the revisions %d times", lists)
		}
	})
}

func TestOnlyTheLatestReportIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		release := make(chan struct{})
		d.answer(func(_ context.Context, verb, _ string) error {
			if verb == "store" {
				<-release
			}
			return nil
		}, nil)
		for generation := range int64(5) {
			d.run("", generation+1, "one")
			d.report()
			synctest.Wait()
		}
		close(release)
		// The first was under way, and its generation is outdated when it was stored.
		if diff := cmp.Diff([]string{"store one", "store one", "report one"}, d.written()); diff != "" {
			t.Error(diff)
		}
		d.expect("one", "True Programmed 5")
		d.report()
		if more := d.written(); len(more) != 0 {
			t.Errorf("nothing has changed, and these were written: %v", more)
		}
	})
}

func TestWhatHasJustChangedIsWrittenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var many []string
		for i := range 100 {
			many = append(many, fmt.Sprintf("many-%02d", i))
		}
		release := make(chan struct{})
		d.answer(func(context.Context, string, string) error {
			<-release
			return nil
		}, nil)
		d.run("", 1, many...)
		d.report()
		synctest.Wait()
		d.run("", 1, "mine")
		d.report()
		synctest.Wait()
		close(release)
		writes := d.written()
		if at := slices.Index(writes, "report mine"); at < 0 || at > len(many) {
			t.Errorf("mine was write %d of %v", at, writes)
		}
		if len(writes) != 2*(len(many)+1) {
			t.Errorf("%d writes", len(writes))
		}
	})
}

func TestAProfileIsStoredAfterItsPolicyAndNamesItsRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var refused atomic.Bool
		refused.Store(true)
		d.answer(func(_ context.Context, verb, name string) error {
			if verb == "store" && name == "shared" && refused.Load() {
				return apierrors.NewInternalError(errors.New("out of order"))
			}
			return nil
		}, nil)
		policyOf := func() string {
			d.Helper()
			synctest.Wait()
			all, err := history.List(t.Context(), d.client, "default", history.KindProfile, "mine")
			if err != nil || len(all) != 1 {
				t.Fatalf("stored are %v, %v", all, err)
			}
			return all[0].Policy.Revision
		}
		d.accept("shared", 1)
		d.run("shared", 1, "mine")
		d.report()
		if got := policyOf(); got != "" {
			t.Errorf("names revision %q of a policy that was not stored", got)
		}
		d.expect("mine", "True Programmed 1")
		refused.Store(false)
		elapse(firstRetry)
		if got := policyOf(); !strings.HasPrefix(got, "spol-shared-") {
			t.Errorf("names revision %q of the policy", got)
		}
	})
}

func TestAProfileThatAppearsWhileItsPolicyIsStoredIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		release := make(chan struct{})
		d.answer(func(_ context.Context, verb, name string) error {
			if verb == "store" && name == "shared" {
				<-release
			}
			return nil
		}, nil)
		d.accept("shared", 1)
		d.run("shared", 1, "first")
		d.report()
		synctest.Wait()
		d.run("shared", 1, "second")
		d.report()
		d.expect("first", unreported)
		d.expect("second", unreported)
		close(release)
		d.expect("first", "True Programmed 1")
		d.expect("second", "True Programmed 1")
	})
}

func TestTheStatusOfAProfileThatIsBuiltInALaterPassIsNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.accept("shared", 1)
		d.latest.resolution.PolicyResults["shared"] = resolve.Result{Generation: 1, Accepted: true,
			Reason: v1alpha1.ReasonAccepted, Profiles: []string{"late", "quick"}}
		d.run("shared", 1, "late", "quick")
		running := d.latest.running["late"]
		delete(d.latest.running, "late")
		d.latest.pending, d.latest.waiting = map[string]string{"late": stillBuilding}, map[string]bool{"late": true}
		d.report()
		if diff := cmp.Diff([]string{"store shared", "store quick", "report quick"}, d.written()); diff != "" {
			t.Error(diff)
		}
		next := *d.latest
		next.pending, next.waiting = nil, nil
		next.running = clone(next.running)
		next.running["late"] = running
		d.latest = &next
		d.report()
		if diff := cmp.Diff([]string{"report late", "report shared", "store late"},
			slices.Sorted(slices.Values(d.written()))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnEventIsRecordedIfTheAnswerToItsStatusIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.answer(nil, func(_ context.Context, verb, _ string) error {
			if verb == "report" {
				return errors.New("connection reset by peer")
			}
			return nil
		})
		d.run("", 1, "one")
		d.report()
		d.expect("one", "True Programmed 1")
		if told := d.told(); len(told) != 0 {
			t.Errorf("told without an answer: %v", told)
		}
		d.answer(nil, nil)
		elapse(lastRetry)
		if told := d.told(); len(told) != 1 || !strings.Contains(told[0], "Normal Programmed") {
			t.Errorf("told: %v", told)
		}
	})
}

func TestOldRevisionsAreDeletedOnceTheStatusIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var refused atomic.Bool
		d.answer(func(_ context.Context, verb, _ string) error {
			if verb == "report" && refused.Load() {
				return apierrors.NewBadRequest("denied by a webhook")
			}
			return nil
		}, nil)
		stored := func() int {
			d.Helper()
			synctest.Wait()
			all, err := history.List(t.Context(), d.client, "default", history.KindProfile, "one")
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		for generation := range int64(defaultHistoryLimit + 1) {
			d.run("", generation+1, "one")
			d.report()
			synctest.Wait()
		}
		refused.Store(true)
		d.run("", defaultHistoryLimit+2, "one")
		d.report()
		if got := stored(); got != defaultHistoryLimit+2 {
			t.Errorf("%d revisions while status names an older one", got)
		}
		refused.Store(false)
		elapse(firstRetry)
		if got := stored(); got != defaultHistoryLimit+1 {
			t.Errorf("%d revisions are left", got)
		}
	})
}

func TestAStatusDoesNotWaitForTheDeletionOfOldRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.answer(func(ctx context.Context, verb, _ string) error {
			if verb != "delete" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		for generation := range int64(defaultHistoryLimit + 4) {
			d.run("", generation+1, "one")
			d.report()
			d.expect("one", fmt.Sprintf("True Programmed %d", generation+1))
		}
		d.answer(nil, nil)
		d.run("", defaultHistoryLimit+5, "one")
		d.report()
		synctest.Wait()
		all, err := history.List(t.Context(), d.client, "default", history.KindProfile, "one")
		if err != nil || len(all) != defaultHistoryLimit+1 {
			t.Errorf("%d revisions are left, %v", len(all), err)
		}
	})
}

func TestAReporterThatStopsWritesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.answer(hangs("report", "one"), nil)
		d.run("", 1, "one", "two")
		d.report()
		d.written()
		began := time.Now()
		d.stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("stopping took %v", took)
		}
		d.answer(nil, nil)
		d.run("", 2, "one", "two")
		d.report()
		elapse(time.Hour)
		if writes := d.written(); len(writes) != 0 {
			t.Errorf("written: %v", writes)
		}
	})
}

func TestWhatWasReportedBeforeTheStartIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.stop()
		d.run("", 1, "one")
		next := newReporter(Config{Client: d.client, Recorder: d.recorder,
			Archive: &history.Archive{Client: d.client, Namespace: "default"}, Clock: clock.RealClock{}})
		next.report(d.latest)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		var running sync.WaitGroup
		running.Go(func() { _ = next.Start(ctx) })
		d.expect("one", "True Programmed 1")
		cancel()
		running.Wait()
	})
}

func TestADeletedObjectIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.answer(hangs("report", "one"), nil)
		d.run("", 1, "one")
		d.report()
		d.written()
		if err := d.client.Delete(t.Context(),
			&v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "one"}}); err != nil {
			t.Fatal(err)
		}
		d.latest = &report{state: state{resolution: &resolve.Resolution{}}, settled: true}
		d.report()
		d.answer(nil, nil)
		elapse(time.Hour)
		if writes := d.written(); len(writes) != 0 {
			t.Errorf("written: %v", writes)
		}
		if left := len(d.reporter.subjects); left != 0 {
			t.Errorf("%d objects are remembered", left)
		}
	})
}
