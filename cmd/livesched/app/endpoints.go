// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"maps"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"

	"k8s.io/kubernetes/pkg/scheduler/metrics/resources"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/livesched/livesched/internal/scheduler"
)

// addEndpoints adds the endpoints to the metrics server that kube-scheduler serves besides
// /metrics.
func addEndpoints(mgr ctrl.Manager, sched *scheduler.Scheduler, o *Options) error {
	if o.MetricsBindAddress == "0" {
		return nil
	}
	handlers := map[string]http.Handler{"/metrics/resources": resourceMetrics(sched), "/configz": configz(sched, o)}
	if o.Profiling {
		maps.Copy(handlers, profilingHandlers())
	}
	if o.Profiling && o.ContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	var errs []error
	for path, handler := range handlers {
		errs = append(errs, mgr.AddMetricsServerExtraHandler(path, handler))
	}
	return errors.Join(errs...)
}

// profilingHandlers returns the handlers of net/http/pprof.
func profilingHandlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/cmdline": http.HandlerFunc(pprof.Cmdline),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

// resourceMetrics serves kube_pod_resource_request and kube_pod_resource_limit, as kube-scheduler
// does under /metrics/resources. Only the leader serves them, so that no pod is counted twice.
func resourceMetrics(sched *scheduler.Scheduler) http.Handler {
	handler := sync.OnceValue(func() http.Handler { return resources.Handler(sched.Pods()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sched.Leading() {
			handler().ServeHTTP(w, r)
		}
	})
}
