// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/livesched/livesched/api/v1alpha1"
)

// askTimeout bounds one request to the API server that is awaited.
const askTimeout = 10 * time.Second

// askBackoff is the time between the requests: it doubles up to the cap, and stays there.
var askBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 10, Cap: 5 * time.Second, Jitter: 0.2}

// errNotInstalled is the definite answer that the custom resources are missing.
var errNotInstalled = errors.New("install the custom resource definitions first (kubectl apply -k config/crd)")

// awaitAPI returns when the API server serves livesched's kinds, or ctx has ended. Until then the
// process is alive and not ready: see unready. It returns an error only if the API server is ready
// and does not serve the kinds, or if an address of the probes is in use.
//
// Everything else may be an outage, and exiting would not end it. That includes rejected
// credentials: an API server also rejects valid ones while the webhook that checks them is down.
func awaitAPI(ctx context.Context, logger logr.Logger, cfg *rest.Config, o *Options) error {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("creating the client for discovery: %w", err)
	}
	probes, err := startUnready(o)
	if err != nil {
		return err
	}
	defer probes.stop()
	var last error
	err = askBackoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := askForKinds(ctx, client.RESTClient())
		if err == nil || errors.Is(err, errNotInstalled) {
			return true, err
		}
		// Retries usually fail for the same reason, but not always with the same text.
		if ctx.Err() == nil && (last == nil || apierrors.ReasonForError(err) != apierrors.ReasonForError(last)) {
			logger.Info("Waiting for the API server", "server", cfg.Host, "err", err.Error())
		}
		last = err
		probes.because(err)
		return false, nil
	})
	if err == nil && last != nil {
		logger.Info("The API server answers")
	}
	return err
}

// askForKinds returns nil if the API server serves livesched's kinds, and an error that wraps
// errNotInstalled if it does not. An API server that has just started does not serve custom
// resources yet, so its answer counts only after it has said that it is ready.
func askForKinds(ctx context.Context, client rest.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := requireKinds(ctx, client)
	if !errors.Is(err, errNotInstalled) {
		return err
	}
	readyErr := client.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
	if readyErr != nil && !apierrors.IsForbidden(readyErr) && !apierrors.IsNotFound(readyErr) {
		return fmt.Errorf("the API server is not ready: %w", readyErr)
	}
	return requireKinds(ctx, client)
}

// requireKinds asks once for livesched's kinds.
func requireKinds(ctx context.Context, client rest.Interface) error {
	served := &metav1.APIResourceList{}
	group := v1alpha1.GroupVersion
	err := client.Get().AbsPath("apis", group.Group, group.Version).MaxRetries(0).Do(ctx).Into(served)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking up %s: %w", group, err)
	}
	for _, kind := range []string{"SchedulerProfile", "SchedulingPolicy"} {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
			return fmt.Errorf("the API server does not serve %s in %s: %w", kind, group, errNotInstalled)
		}
	}
	return nil
}

// unready answers health probes until the manager does: /livez succeeds, because a restart would
// not help, and /readyz fails.
type unready struct {
	servers []*http.Server
	serving sync.WaitGroup
	reason  atomic.Pointer[string]
}

// startUnready serves on the addresses of the probes until stop: plain HTTP, and the secure port.
func startUnready(o *Options) (*unready, error) {
	address := o.HealthProbeBindAddress
	u := &unready{}
	u.because(errors.New("the API server has not answered"))
	mux := http.NewServeMux()
	alive := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }
	mux.HandleFunc("/livez", alive)
	mux.HandleFunc("/healthz", alive)
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "waiting for the API server: "+*u.reason.Load(), http.StatusInternalServerError)
	})
	if address != "0" {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("--health-probe-bind-address: %w", err)
		}
		u.serve(&http.Server{Handler: mux, ReadHeaderTimeout: askTimeout}, listener)
	}
	if o.Secure.Port != 0 {
		listener, err := o.Secure.listen()
		if err != nil {
			u.stop()
			return nil, err
		}
		// A client that verifies the certificate has to wait for the manager.
		u.serve(serveTLS(listener, selfSigned(o.host()), mux))
	}
	return u, nil
}

func (u *unready) serve(server *http.Server, listener net.Listener) {
	u.servers = append(u.servers, server)
	u.serving.Go(func() { _ = server.Serve(listener) }) // it ends with stop
}

// because sets what /readyz says.
func (u *unready) because(err error) {
	reason := err.Error()
	u.reason.Store(&reason)
}

// stop frees the addresses.
func (u *unready) stop() {
	for _, server := range u.servers {
		_ = server.Close() // fails only if the listener is closed already
	}
	u.serving.Wait()
}
