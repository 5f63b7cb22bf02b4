// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// unsyncedCache is a cache whose API server does not answer.
type unsyncedCache struct{ cache.Cache }

func (unsyncedCache) WaitForCacheSync(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

func TestTheWaitForTheCacheEndsWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		c := &managerCache{Cache: unsyncedCache{}, stopping: wait.ContextForChannel(stopping)}
		synced := make(chan bool, 1)
		go func() { synced <- c.WaitForCacheSync(t.Context()) }()
		synctest.Wait()
		if len(synced) > 0 {
			t.Fatal("the wait ended before the cache had synced")
		}
		close(stopping)
		if !<-synced {
			t.Error("the cache is not reported as synced, so the manager would go on to wait")
		}
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	c := &managerCache{Cache: unsyncedCache{}, stopping: t.Context()}
	if c.WaitForCacheSync(canceled) {
		t.Error("a cache that has not synced is reported as synced, although the process goes on")
	}
}

func TestAnInformerThatNeverSyncsDoesNotKeepControllersFromStarting(t *testing.T) {
	c := &managerCache{Cache: syncedCache{}, stopping: t.Context()}
	if !c.WaitForCacheSync(t.Context()) { // the manager's
		t.Fatal("the cache has not synced")
	}
	c.Cache = unsyncedCache{} // there is a new informer, which does not
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !c.WaitForCacheSync(soon) {
		t.Error("a controller waits for the informer of somebody else")
	}
}

// syncedCache is a cache without informers.
type syncedCache struct{ cache.Cache }

func (syncedCache) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (syncedCache) WaitForCacheSync(context.Context) bool { return true }

func TestAManagerThatStopsLogsNoError(t *testing.T) {
	for range 50 {
		errors := make(chan string, 10)
		log := funcr.New(func(_, line string) {
			if strings.Contains(line, `"error"`) {
				errors <- line
			}
		}, funcr.Options{})
		mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
			Logger:  log,
			Metrics: server.Options{BindAddress: "0"},
			MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
				return meta.NewDefaultRESTMapper(nil), nil
			},
			NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) { return syncedCache{}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop() // before it starts
		m := &Manager{Manager: mgr, stopping: make(chan struct{})}
		if err := m.Start(ctx); err != nil {
			t.Errorf("a manager that is stopped returns %v", err)
		}
		if len(errors) > 0 {
			t.Fatalf("logged as an error: %s", <-errors)
		}
	}
}
