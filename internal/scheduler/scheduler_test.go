// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/internal/informers"
)

func TestTheLoopEndsIfItsLeaderIsTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Config{}).Run(ctx); err != nil { // it never became ready
		t.Error(err)
	}
}

// outage is the RESTMapper of an API server that does not answer.
type outage struct {
	meta.RESTMapper               // nil: methods that are not overridden panic
	asked           chan struct{} // receives an item for each request, without waiting
}

func (o outage) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, o.refuse()
}

func (o outage) KindFor(schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{}, o.refuse()
}

func (o outage) refuse() error {
	select {
	case o.asked <- struct{}{}:
	default:
	}
	return errors.New("connection refused")
}

func TestAStartDuringAnOutageWaits(t *testing.T) {
	mapper := outage{asked: make(chan struct{}, 1)}
	clock := clocktesting.NewFakeClock(time.Now())
	client := fake.NewClientset()
	s := New(Config{
		Client:      client,
		EventClient: client,
		KubeConfig:  &rest.Config{},
		Informers:   informers.NewSource(nil, mapper, scheme.Scheme, logr.Discard()),
		Clock:       clock,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	for range 3 { // it asks again and again
		select {
		case <-mapper.asked:
		case err := <-ended:
			t.Fatalf("Start gave up: %v", err)
		}
		gomega.NewWithT(t).Eventually(clock.HasWaiters, time.Minute).Should(gomega.BeTrue())
		select { // further kinds that were asked for in the same attempt
		case <-mapper.asked:
		default:
		}
		clock.Step(assembleRetry)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the end of the process is an error: %v", err)
	}
	if s.parts != nil {
		t.Error("there are parts without an answer")
	}
}
