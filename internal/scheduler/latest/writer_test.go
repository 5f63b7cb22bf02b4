// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package latest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	leaks.Main(m)
}

var (
	errBroken = errors.New("broken")
	resource  = schema.GroupResource{Resource: "things"}
)

// world is a Writer of strings with an API server. Everything runs in a bubble of synctest.
type world struct {
	*WithT
	*Writer[string, string]
	ctx context.Context

	mu sync.Mutex // guards the fields below
	// writes are the calls of Write, with the time since begin.
	writes []string
	begin  time.Time
	// busy are the keys that are being written.
	busy map[string]bool
	// answer answers writes. It may block or fail.
	answer func(ctx context.Context) error
}

// Merge implements Target.
func (w *world) Merge(earlier, next string) string { return earlier + "+" + next }

// Write implements Target. What it writes is remembered in parentheses.
func (w *world) Write(ctx context.Context, key, value, last string) (*string, error) {
	w.mu.Lock()
	if w.busy[key] {
		panic("a key is written twice at the same time")
	}
	w.busy[key] = true
	w.writes = append(w.writes, fmt.Sprintf("%v %s=%s after %s", time.Since(w.begin), key, value, last))
	answer := w.answer
	w.mu.Unlock()
	err := answer(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[key] = false
	if err != nil {
		return nil, err
	}
	written := "(" + value + ")"
	return &written, nil
}

func (w *world) answerWith(answer func(context.Context) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// expect compares the writes since the last call.
func (w *world) expect(writes ...string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Expect(w.writes).To(HaveExactElements(writes))
	w.writes, w.begin = nil, time.Now()
}

// inWorld runs a test in a world of its own, whose Writer has started unless the test starts it. At
// the end it must have forgotten all keys.
func inWorld(t *testing.T, workers int, start bool, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{WithT: NewWithT(t), ctx: klog.NewContext(t.Context(), logr.Discard()), begin: time.Now(),
			busy: map[string]bool{}}
		w.answerWith(func(context.Context) error { return nil })
		w.Writer = New(Config{What: "things", Workers: workers, Attempts: 4, FirstRetry: time.Second,
			LastRetry: 3 * time.Second}, w)
		if start {
			w.Start(w.ctx)
		}
		f(w)
		w.Close(w.ctx)
		w.Expect(w.pending).To(BeEmpty())
		w.Expect(w.writing).To(BeEmpty())
	})
}

func TestOneWriteForAllValuesThatWait(t *testing.T) {
	inWorld(t, 2, false, func(w *world) {
		w.Set("k", "a")
		w.Set("k", "b")
		w.expect()
		w.Start(w.ctx)
		w.expect("0s k=a+b after ")

		answers := make(chan error)
		w.answerWith(func(context.Context) error { return <-answers })
		w.Set("k", "c")
		w.expect("0s k=c after (a+b)")
		w.Set("k", "d")
		w.Set("k", "e")
		w.expect()
		answers <- nil
		w.expect("0s k=d+e after (c)")
		answers <- nil
	})
}

func TestAFailedWriteIsRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		writes []string
	}{
		"a few times": {errBroken,
			[]string{"0s k=a after ", "1s k=a after ", "3s k=a after ", "6s k=a after "}},
		"unless the API server forbids it": {apierrors.NewForbidden(resource, "k", nil),
			[]string{"0s k=a after "}},
		"unless the API server does not accept it": {apierrors.NewInvalid(schema.GroupKind{}, "k", nil),
			[]string{"0s k=a after "}},
		"also if the API server is busy": {apierrors.NewTooManyRequestsError("busy"),
			[]string{"0s k=a after ", "1s k=a after ", "3s k=a after ", "6s k=a after "}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, true, func(w *world) {
				w.answerWith(func(context.Context) error { return test.err })
				w.Set("k", "a")
				<-time.After(time.Hour)
				w.expect(test.writes...)
				w.Set("k", "b")
				<-time.After(1500 * time.Millisecond)
				w.answerWith(func(context.Context) error { return nil })
				<-time.After(time.Hour)
				w.Expect(w.writes).To(ContainElement("0s k=b after "), "a later value is tried anew")
			})
		})
	}
}

func TestANewValueDoesNotWaitForARetry(t *testing.T) {
	inWorld(t, 2, true, func(w *world) {
		answers := make(chan error)
		w.answerWith(func(context.Context) error { return <-answers })
		w.Set("k", "a")
		w.expect("0s k=a after ")
		answers <- errBroken
		synctest.Wait()
		w.Set("k", "b")
		w.expect("0s k=a+b after ")
		w.Set("k", "c")
		answers <- errBroken
		w.expect("0s k=a+b+c after ")
		answers <- nil
		<-time.After(time.Hour)
		w.expect()
	})
}

func TestSettle(t *testing.T) {
	inWorld(t, 1, true, func(w *world) {
		answers := make(chan error)
		w.answerWith(func(context.Context) error { return <-answers })
		w.Set("other", "a")
		synctest.Wait() // the worker waits for the API server
		w.Set("k", "a")
		w.Settle(w.ctx, "k")
		answers <- nil
		w.expect("0s other=a after ")

		w.Set("k", "b")
		synctest.Wait()
		ended := make(chan struct{})
		go func() { defer close(ended); w.Settle(w.ctx, "k") }()
		synctest.Wait()
		w.Expect(ended).NotTo(BeClosed(), "the API server has not answered yet")
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		w.Settle(ctx, "k")
		w.Expect(ctx.Err()).To(HaveOccurred())
		answers <- errBroken
		<-ended
		<-time.After(time.Hour)
		w.expect("0s k=b after ")
		w.Set("k", "c")
		w.expect("0s k=c after ")
		answers <- nil
	})
}

func TestCloseWritesWhatIsLeft(t *testing.T) {
	inWorld(t, 2, true, func(w *world) {
		w.answerWith(func(context.Context) error { <-time.After(time.Second); return nil })
		for i := range 10 {
			w.Set(fmt.Sprint(i), "a")
		}
		w.Close(w.ctx)
		w.Expect(w.writes).To(HaveLen(10))
		w.Set("k", "a")
		w.Expect(w.pending).To(BeEmpty())
	})
}

func TestCloseEndsWithItsContext(t *testing.T) {
	inWorld(t, 2, true, func(w *world) {
		w.answerWith(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		for i := range 10 {
			w.Set(fmt.Sprint(i), "a")
		}
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		w.Close(ctx)
		w.Expect(time.Since(w.begin)).To(Equal(time.Second))
		w.Expect(w.writes).To(HaveLen(2))
	})
}

func TestTheLastValueIsTheOneThatAKeyGets(t *testing.T) {
	inWorld(t, 1, true, func(w *world) {
		last := func(want string) {
			t.Helper()
			synctest.Wait()
			w.Expect(w.Last("k")).To(Equal(want))
		}
		last("")
		answer := make(chan struct{})
		w.answerWith(func(context.Context) error { <-answer; return nil })
		w.Set("k", "a")
		last("+a") // is being written
		w.Set("k", "b")
		last("+a+b") // is pending
		answer <- struct{}{}
		last("(a)+b")
		answer <- struct{}{}
		last("(b)")
		w.Expect(w.Last("other")).To(BeEmpty())
		w.expect("0s k=a after ", "0s k=b after (a)")
	})
}
