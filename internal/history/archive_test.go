// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// apiServer is a fake that counts writes and can fail.
type apiServer struct {
	client.WithWatch
	writes int
	fails  error
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &apiServer{}
	write := func() error {
		s.writes++
		return s.fails
	}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return errors.Join(write(), createUnless(ctx, s, c, o, opts))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if err := write(); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := write(); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	return s
}

func createUnless(ctx context.Context, s *apiServer, c client.WithWatch, o client.Object,
	opts []client.CreateOption) error {
	if s.fails != nil {
		return nil
	}
	return c.Create(ctx, o, opts...)
}

// loaded returns an archive that has read the stored revisions.
func loaded(t *testing.T, s *apiServer) *Archive {
	t.Helper()
	a := &Archive{Client: s, Namespace: namespace}
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *apiServer) stored(t *testing.T) []Revision {
	t.Helper()
	all, err := List(t.Context(), s, namespace, KindProfile, "mine")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// percent returns the revision of a profile that its percentage identifies.
func percent(t *testing.T, generation int64, percentage int) *Revision {
	r := ran(t, 0, generation, fmt.Sprint("h", percentage),
		fmt.Sprintf("percentageOfNodesToScore: %d", percentage), nil)
	r.Name = ""
	return &r
}

func mustStore(t *testing.T, a *Archive, want *Revision, limit int) *Stored {
	t.Helper()
	stored, err := a.Store(t.Context(), want, true)
	if err != nil {
		t.Fatal(err)
	}
	a.Trim(t.Context(), want.UID, limit)
	return stored
}

func TestAnArchiveWritesARevisionOnce(t *testing.T) {
	s := newAPIServer(t)
	a := loaded(t, s)
	for i := range 5 {
		mustStore(t, a, percent(t, int64(i+1), i+1), 10)
	}
	if s.writes != 5 {
		t.Errorf("%d writes for 5 revisions", s.writes)
	}
	restarted := loaded(t, s)
	for _, a := range []*Archive{a, restarted} {
		if got := mustStore(t, a, percent(t, 5, 5), 10); got.Number != 5 || s.writes != 5 {
			t.Errorf("revision %d, %d writes", got.Number, s.writes)
		}
	}
}

func TestAReloadTakesTwoWritesHoweverLongTheHistoryIs(t *testing.T) {
	s := newAPIServer(t)
	a := loaded(t, s)
	for i := range 60 {
		before := s.writes
		mustStore(t, a, percent(t, int64(i+1), i+1), 10)
		if s.writes-before > 2 {
			t.Fatalf("reload %d took %d writes", i, s.writes-before)
		}
	}
	if got := numbers(s.stored(t)); got != "[50 51 52 53 54 55 56 57 58 59 60]" {
		t.Errorf("kept are %s", got)
	}
}

func TestGoingBackReusesTheRevision(t *testing.T) {
	s := newAPIServer(t)
	a := loaded(t, s)
	first := mustStore(t, a, percent(t, 1, 1), 10)
	mustStore(t, a, percent(t, 2, 2), 10)
	back := mustStore(t, a, percent(t, 3, 1), 10)
	if back.Name != first.Name || back.Number != 3 || back.Generation != 3 || back.Again == nil ||
		back.Again.Number != 1 || back.Again.Generation != 1 {
		t.Errorf("stored %+v", back)
	}
	if got := s.stored(t); numbers(got) != "[2 3]" || got[1].Generation != 3 {
		t.Errorf("the API server has %+v", got)
	}
}

func TestAFailedWriteIsRepeatedByTheNextStore(t *testing.T) {
	s := newAPIServer(t)
	a := loaded(t, s)
	mustStore(t, a, percent(t, 1, 1), 10)
	s.fails = errors.New("away")
	for _, want := range []*Revision{percent(t, 2, 2), percent(t, 2, 1)} {
		if _, err := a.Store(t.Context(), want, true); !errors.Is(err, s.fails) {
			t.Errorf("stored: %v", err)
		}
	}
	s.fails = nil
	mustStore(t, a, percent(t, 3, 3), 10)
	if got := numbers(s.stored(t)); got != "[1 2]" {
		t.Errorf("kept are %s", got)
	}
}

func TestARevisionThatCannotBeDeletedIsDeletedLater(t *testing.T) {
	s := newAPIServer(t)
	a := loaded(t, s)
	for i := range 3 {
		mustStore(t, a, percent(t, int64(i+1), i+1), 10)
	}
	s.fails = errors.New("away")
	mustStore(t, a, percent(t, 3, 3), 1)
	s.fails = nil
	mustStore(t, a, percent(t, 3, 3), 1)
	if got := numbers(s.stored(t)); got != "[2 3]" {
		t.Errorf("kept are %s", got)
	}
}

func TestTwoReplicasThatStoreTheSameSpecShareOneRevision(t *testing.T) {
	s := newAPIServer(t)
	one, other := loaded(t, s), loaded(t, s)
	a, b := mustStore(t, one, percent(t, 1, 1), 10), mustStore(t, other, percent(t, 1, 1), 10)
	if a.Name != b.Name || b.Number != 1 || len(s.stored(t)) != 1 {
		t.Errorf("%+v and %+v", a, b)
	}
	// One archive has written more, which the other does not know.
	mustStore(t, one, percent(t, 2, 2), 10)
	if got := mustStore(t, other, percent(t, 2, 2), 10); got.Number != 2 || got.Again != nil {
		t.Errorf("stored %+v", got)
	}
}

func TestARevisionThatSomebodyDeletedOrBrokeIsWrittenAgain(t *testing.T) {
	s := newAPIServer(t)
	a := loaded(t, s)
	first := mustStore(t, a, percent(t, 1, 1), 10)
	object := &appsv1.ControllerRevision{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: first.Name}, object); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if got := mustStore(t, a, percent(t, 2, 1), 10); got.Number != 1 || got.Generation != 2 || len(s.stored(t)) != 1 {
		t.Errorf("stored %+v", got)
	}

	// Another object has taken its place.
	if err := s.Delete(t.Context(), object.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	object.ResourceVersion, object.Data.Raw = "", []byte(`{"spec":{}}`)
	if err := s.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	restarted := loaded(t, s)
	got := mustStore(t, restarted, percent(t, 3, 1), 10)
	if got.Name == first.Name || len(s.stored(t)) != 1 {
		t.Errorf("stored %+v", got)
	}
}

// A leader reads the revisions again when etcd was restored, while it stores others.
func TestARevisionThatIsStoredDuringALoadIsNotForgotten(t *testing.T) {
	s := newAPIServer(t)
	a := loaded(t, s)
	mustStore(t, a, percent(t, 1, 1), 10)
	lists := 0
	a.Client = interceptor.NewClient(s, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if lists++; lists == 1 {
				mustStore(t, a, percent(t, 2, 2), 10)
			}
			return err
		},
	})
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if have := a.Revisions(percent(t, 1, 1).UID); len(have) != 2 || lists != 2 {
		t.Errorf("after %d lists, the archive has %d revisions", lists, len(have))
	}
}

func TestDeletedObjectsAreForgotten(t *testing.T) {
	s := newAPIServer(t)
	a := loaded(t, s)
	mustStore(t, a, percent(t, 1, 1), 10)
	a.Keep(sets.New(percent(t, 1, 1).UID).Has)
	if len(a.Revisions("u")) != 1 {
		t.Error("forgotten while it exists")
	}
	a.Keep(sets.New[types.UID]().Has)
	if len(a.Revisions("u")) != 0 {
		t.Error("not forgotten")
	}
}

// TestTheIndexIsWhatIsStored stores revisions at random, with an API server that sometimes fails,
// and compares the index with the stored ones.
func TestTheIndexIsWhatIsStored(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	s := newAPIServer(t)
	a := loaded(t, s)
	running := 0
	for step := range 500 {
		if random.Intn(20) == 0 {
			a = loaded(t, s)
		}
		s.fails = nil
		if random.Intn(6) == 0 {
			s.fails = apierrors.NewInternalError(errors.New("no"))
		}
		percentage, limit := 1+random.Intn(8), 1+random.Intn(5)
		stored, err := a.Store(t.Context(), percent(t, int64(step+1), percentage), true)
		if err == nil {
			a.Trim(t.Context(), "u", limit)
		}
		failed := s.fails != nil
		s.fails = nil
		if err == nil {
			running = percentage
		} else if !failed {
			t.Fatalf("step %d: %v", step, err)
		}
		got := s.stored(t)
		if diff := numbers(got); diff != numbers(a.Revisions("u")) {
			t.Fatalf("step %d: the API server has %s, the index %s", step, diff, numbers(a.Revisions("u")))
		}
		if running == 0 {
			continue
		}
		newest := got[len(got)-1]
		if int(*newest.Profile.PercentageOfNodesToScore) != running {
			t.Fatalf("step %d: the newest is %d, running is %d", step, *newest.Profile.PercentageOfNodesToScore,
				running)
		}
		if err == nil && (stored.Name != newest.Name || newest.Generation != int64(step+1) ||
			!failed && len(got) > limit+1) {
			t.Fatalf("step %d: stored %+v, limit %d, kept %s", step, stored, limit, numbers(got))
		}
	}
}
