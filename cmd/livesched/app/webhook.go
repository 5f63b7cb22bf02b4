// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/livesched/livesched/internal/admission"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/servingcert"
)

// webhookRestart is the delay after a failure until the webhook is served again.
const webhookRestart = 10 * time.Second

// WebhookOptions configures the validating webhook.
type WebhookOptions struct {
	// Enabled makes every replica serve the webhook.
	Enabled bool
	// BindAddress is host:port.
	BindAddress string
	// CertDir holds tls.crt and tls.key, which the user renews. If it is empty, livesched manages
	// the certificate itself, with the objects below.
	CertDir string
	// Namespace is the namespace of livesched. Empty means the namespace of
	// the process.
	Namespace string
	// ServiceName is the name of the Service that the API server calls; the certificate is valid
	// for it. SecretName is the name of the Secret that holds the certificate. Both are in
	// Namespace. ConfigurationName is the name of the ValidatingWebhookConfiguration.
	ServiceName, SecretName, ConfigurationName string
}

func newWebhookOptions() WebhookOptions {
	return WebhookOptions{
		BindAddress: ":9443", ServiceName: "livesched-webhook", SecretName: "livesched-webhook-cert",
		ConfigurationName: "livesched",
	}
}

func (o *WebhookOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "webhook", o.Enabled, "Serve the validating webhook for SchedulerProfiles and "+
		"SchedulingPolicies, on every replica. See config/webhook.")
	fs.StringVar(&o.BindAddress, "webhook-bind-address", o.BindAddress, "Address of the webhook, as host:port.")
	fs.StringVar(&o.CertDir, "webhook-cert-dir", o.CertDir, "Directory with tls.crt and tls.key, which livesched "+
		"reads again when they change. Empty means that livesched manages a certificate itself.")
	fs.StringVar(&o.Namespace, "webhook-namespace", o.Namespace,
		"Namespace of the webhook's Service and Secret. Empty means the namespace that livesched runs in.")
	fs.StringVar(&o.ServiceName, "webhook-service-name", o.ServiceName,
		"Name of the Service through which the API server calls the webhook.")
	fs.StringVar(&o.SecretName, "webhook-secret-name", o.SecretName,
		"Name of the Secret in which replicas share the certificate.")
	fs.StringVar(&o.ConfigurationName, "webhook-configuration-name", o.ConfigurationName,
		"Name of the ValidatingWebhookConfiguration in which livesched sets the certificate authority.")
}

func (o *WebhookOptions) validate() (errs []error) {
	if !o.Enabled {
		if o.CertDir != "" {
			errs = append(errs, errors.New("--webhook-cert-dir: has no effect without --webhook"))
		}
		return errs
	}
	if err := o.checkAddress(); err != nil {
		errs = append(errs, fmt.Errorf("--webhook-bind-address=%s: %w", o.BindAddress, err))
	}
	if o.CertDir != "" {
		return errs
	}
	for _, name := range []struct{ flag, value string }{
		{"--webhook-service-name", o.ServiceName}, {"--webhook-secret-name", o.SecretName},
		{"--webhook-configuration-name", o.ConfigurationName},
	} {
		if name.value == "" {
			errs = append(errs, fmt.Errorf("%s: must not be empty", name.flag))
		}
	}
	return errs
}

func (o *WebhookOptions) checkAddress() error {
	_, text, err := net.SplitHostPort(o.BindAddress)
	if err != nil {
		return err
	}
	if port, err := strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", text)
	}
	return nil
}

// namespace returns the namespace of livesched's own objects.
func (o *WebhookOptions) namespace() (string, error) {
	if o.Namespace != "" {
		return o.Namespace, nil
	}
	namespace, err := podNamespace()
	if err != nil {
		return "", fmt.Errorf("--webhook-namespace: must be set if livesched does not run in a pod (%w)", err)
	}
	return namespace, nil
}

// addWebhook serves the webhook on every replica. A failure of the webhook does not end the
// manager: without the webhook, the API server admits every change, and the controller reports
// errors. It returns the keeper of the certificate, nil if livesched does not manage one.
func addWebhook(mgr ctrl.Manager, client clientset.Interface, registered sets.Set[string], allowed resolve.AllowedHosts,
	o *WebhookOptions) (keeper *servingcert.Keeper, err error) {
	if !o.Enabled {
		return nil, nil
	}
	if err := o.checkAddress(); err != nil {
		return nil, err
	}
	if o.CertDir == "" {
		if keeper, err = o.keeper(client); err != nil {
			return nil, err
		}
		if err := mgr.Add(keeper); err != nil {
			return nil, err
		}
	}
	validator := &admission.Validator{Reader: mgr.GetClient(), Scheme: mgr.GetScheme(), Registered: registered,
		AllowedHosts: allowed, Clock: clock.RealClock{}}
	handler := measured(validator.Handler())
	return keeper, mgr.Add(everywhere(func(ctx context.Context) error {
		return keepServing(ctx, func(ctx context.Context) error {
			if keeper != nil {
				return admission.Serve(ctx, o.BindAddress, handler,
					&tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: keeper.GetCertificate})
			}
			return serveWithFiles(ctx, o, handler)
		})
	}))
}

// measured returns the handler at its path, with controller-runtime's metrics of webhooks. Only
// controller-runtime's server adds them. That server does not serve, because it cannot limit
// connections.
func measured(handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	webhook.NewServer(webhook.Options{WebhookMux: mux}).Register(admission.Path, handler)
	return mux
}

// serveWithFiles serves with the certificate of the user, which it reads again when it changes.
func serveWithFiles(ctx context.Context, o *WebhookOptions, handler http.Handler) error {
	files, err := certwatcher.New(filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key"))
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		if err := files.Start(watching); err != nil && watching.Err() == nil {
			log.FromContext(ctx).
				Error(err, "Failed to watch the webhook's certificate; a new one takes effect after a restart")
		}
	})
	defer watcher.Wait()
	defer cancel()
	return admission.Serve(ctx, o.BindAddress, handler,
		&tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.GetCertificate})
}

// keeper returns the keeper of the certificate.
func (o *WebhookOptions) keeper(client clientset.Interface) (*servingcert.Keeper, error) {
	namespace, err := o.namespace()
	if err != nil {
		return nil, err
	}
	service := o.ServiceName + "." + namespace + ".svc"
	return &servingcert.Keeper{
		Client:    client,
		Secret:    types.NamespacedName{Namespace: namespace, Name: o.SecretName},
		Callers:   servingcert.WebhookConfiguration{Client: client, Name: o.ConfigurationName},
		Manifests: "config/webhook",
		DNSNames:  []string{service, service + ".cluster.local"},
		Lifetimes: servingcert.DefaultLifetimes,
		Clock:     clock.RealClock{},
	}, nil
}

// keepServing serves until ctx ends. It serves again after a failure, for instance because the port
// is in use or the certificate does not exist yet.
func keepServing(ctx context.Context, serve func(context.Context) error) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := serve(ctx); ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Failed to serve the webhook; retrying", "after", webhookRestart)
		}
	}, webhookRestart)
	return nil
}
