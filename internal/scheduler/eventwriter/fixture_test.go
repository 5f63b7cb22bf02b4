// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/objects"
)

func TestMain(m *testing.M) {
	leaks.Main(m)
}

// memorySink stores Events in memory as the API server does.
type memorySink struct {
	mu     sync.Mutex // guards the fields below
	events map[string]*eventsv1.Event
	// calls are the calls in order: "create note", "patch note".
	calls []string
	// fail returns the error of a call, nil for success. It may block.
	fail func(call string) error
}

func newSink() *memorySink { return &memorySink{events: map[string]*eventsv1.Event{}} }

var groupResource = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}

func (s *memorySink) call(what string) error {
	s.mu.Lock()
	s.calls = append(s.calls, what)
	fail := s.fail
	s.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(what)
}

func (s *memorySink) Create(_ context.Context, event *eventsv1.Event) error {
	if err := s.call("create " + event.Note); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := event.Namespace + "/" + event.Name
	if s.events[name] != nil {
		return apierrors.NewAlreadyExists(groupResource, event.Name)
	}
	s.events[name] = event.DeepCopy()
	return nil
}

func (s *memorySink) Patch(_ context.Context, namespace, name string, patch []byte) error {
	s.mu.Lock()
	event := s.events[namespace+"/"+name]
	s.mu.Unlock()
	if event == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, "patch nothing")
		return apierrors.NewNotFound(groupResource, name)
	}
	if err := s.call("patch " + event.Note); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Unmarshal(patch, event)
}

// made returns the calls so far.
func (s *memorySink) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// counts returns the number of occurrences of each note, as stored in the sink.
func (s *memorySink) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, e := range s.events {
		if e.Series == nil {
			counts[e.Note]++
		} else {
			counts[e.Note] += int(e.Series.Count)
		}
	}
	return counts
}

func (s *memorySink) failWith(fail func(call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// fixture is a Writer in a bubble of synctest.
type fixture struct {
	*Writer
	t        *testing.T
	sink     *memorySink
	busy     atomic.Bool
	recorder events.EventRecorderLogger
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, sink: newSink()}
	f.Writer = New(Config{Sink: f.sink, Busy: f.busy.Load})
	f.recorder = f.NewRecorder("mine")
	f.Start(klog.NewContext(t.Context(), klog.Logger{}))
	return f
}

// end closes the Writer, which writes the remaining Events.
func (f *fixture) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	f.Close(ctx)
}

func pod(name string) *corev1.Pod {
	return objects.Stored("ns", name, func(p *corev1.Pod) { p.ResourceVersion = "7" })
}

// fails records that a pod was not scheduled.
func (f *fixture) fails(name, note string) {
	f.recorder.Eventf(pod(name), nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", note)
}

// scheduled records that a pod was scheduled.
func (f *fixture) scheduled(name string) {
	f.recorder.Eventf(pod(name), nil, corev1.EventTypeNormal, "Scheduled", "Binding", "assigned %s", name)
}

func (f *fixture) expectCalls(want ...string) {
	f.t.Helper()
	if got := f.sink.made(); !slices.Equal(got, want) {
		f.t.Errorf("calls\n%q, want\n%q", got, want)
	}
}

func (f *fixture) expectCounts(want map[string]int) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.sink.counts()); diff != "" {
		f.t.Errorf("counts at the API server (-want +got):\n%s", diff)
	}
}
