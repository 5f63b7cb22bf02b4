// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/admission"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

const aReview = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"kind":"SchedulerProfile"},"operation":"CREATE","object":{"metadata":{"name":"p"}}}}`

// gate is a reader that holds back reviews until it is opened.
type gate struct {
	objects
	now, most atomic.Int32
	opened    chan struct{}
}

func (g *gate) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	now := g.now.Add(1)
	for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); {
		most = g.most.Load()
	}
	defer g.now.Add(-1)
	<-g.opened
	return g.objects.List(ctx, list, options...)
}

func TestReviewsAtTheSameTimeAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValidator(t, &objects{})
		held := &gate{opened: make(chan struct{})}
		v.Reader = held
		handler := v.Handler()
		responses := make(chan *httptest.ResponseRecorder)
		post := func() {
			r := httptest.NewRequest(http.MethodPost, admission.Path, strings.NewReader(aReview))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			responses <- w
		}
		began := time.Now()
		for range 20 {
			go post()
		}
		for range 18 {
			w := <-responses
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" ||
				!strings.Contains(w.Body.String(), "too many requests") {
				t.Errorf("HTTP %d, %v, %s", w.Code, w.Header(), w.Body)
			}
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("they waited %v for their turn", waited)
		}
		go post() // this one has its turn in time
		synctest.Wait()
		close(held.opened)
		for range 3 {
			if w := <-responses; w.Code != http.StatusOK {
				t.Errorf("HTTP %d, %s", w.Code, w.Body)
			}
		}
		if most := held.most.Load(); most != 2 {
			t.Errorf("%d reviews at the same time", most)
		}
	})
}

func TestRequestsThatAreTooLargeAreRefused(t *testing.T) {
	w := httptest.NewRecorder()
	newValidator(t, &objects{}).Handler().
		ServeHTTP(w, httptest.NewRequest(http.MethodPost, admission.Path, bytes.NewReader(make([]byte, 4<<20))))
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "larger than") {
		t.Errorf("HTTP %d, %s", w.Code, w.Body)
	}
}

// Reading a request costs little in comparison with 200 profiles.
func TestAReviewResolvesOnce(t *testing.T) {
	present := &objects{}
	for i := range 200 {
		present.profiles = append(present.profiles, *profile(fmt.Sprint("p", i), i, v1alpha1.SchedulerProfileSpec{}))
	}
	v := newValidator(t, present)
	once := testing.AllocsPerRun(2, func() {
		resolve.Objects(resolve.Input{Profiles: present.profiles, SecretsUnknown: true, Registered: v.Registered})
	})
	request := change(t, nil, profile("new", 0, v1alpha1.SchedulerProfileSpec{}))
	review := testing.AllocsPerRun(2, func() {
		if response, code := post(t, v, request); response == nil || !response.Allowed {
			t.Errorf("HTTP %d", code)
		}
	})
	if review > 1.5*once {
		t.Errorf("a review makes %.0f allocations, resolving makes %.0f", review, once)
	}
}
