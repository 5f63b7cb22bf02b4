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

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/kubernetes/pkg/scheduler/metrics/resources"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livesched/livesched/internal/scheduler"
)

// endpoints are the handlers of one process by path, /metrics apart.
func endpoints(sched *scheduler.Scheduler, o *Options) map[string]http.Handler {
	handlers := map[string]http.Handler{"/metrics/resources": resourceMetrics(sched), "/configz": configz(sched, o)}
	if o.Profiling {
		maps.Copy(handlers, profilingHandlers())
	}
	return handlers
}

// addEndpoints adds the endpoints to the metrics server that kube-scheduler serves besides
// /metrics.
func addEndpoints(mgr ctrl.Manager, handlers map[string]http.Handler, o *Options) error {
	if o.ContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	if o.MetricsBindAddress == "0" {
		return nil
	}
	var errs []error
	for path, handler := range handlers {
		errs = append(errs, mgr.AddMetricsServerExtraHandler(path, handler))
	}
	return errors.Join(errs...)
}

// secureHandler returns what the secure port serves: the endpoints, metrics and health checks.
func secureHandler(handlers map[string]http.Handler, checks *checks) *http.ServeMux {
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.Handle(path, handler)
	}
	mux.Handle("/metrics", promhttp.HandlerFor(ctrlmetrics.Registry,
		promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	for path, of := range map[string]map[string]healthz.Checker{"/livez": checks.live, "/healthz": checks.live,
		"/readyz": checks.ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: of})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return mux
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
	var once sync.Once // a handler has a registry, which is never freed
	var handler http.Handler
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, err := sched.Parts(); err == nil && sched.Leading() {
			once.Do(func() { handler = resources.Handler(p.Pods) })
			handler.ServeHTTP(w, r)
		}
	})
}
