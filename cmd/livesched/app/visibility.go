// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/secureserving"
	"github.com/livesched/livesched/internal/servingcert"
)

// VisibilityOptions configures the visibility API: the API server passes questions of its users on
// to livesched's secure port.
type VisibilityOptions struct {
	// Enabled makes every replica answer what the API server passes on.
	Enabled bool
	// ServiceName is the name of the Service by which the API server reaches the secure port; the
	// certificate is valid for it. SecretName is the name of the Secret that holds the certificate.
	// Both are in the namespace of livesched, and are not used with SecureOptions.CertFile.
	ServiceName, SecretName string
}

func newVisibilityOptions() VisibilityOptions {
	return VisibilityOptions{ServiceName: "livesched-visibility", SecretName: "livesched-visibility-cert"}
}

func (o *VisibilityOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "visibility-api", o.Enabled, "Answer questions that the API server passes on for its "+
		"users, as "+apiserving.VisibilityGroupVersion.String()+" on --secure-port. Needs an APIService: see "+
		"config/visibility-api.")
	fs.StringVar(&o.ServiceName, "visibility-service-name", o.ServiceName, "Name of the Service through which the API "+
		"server reaches --secure-port for --visibility-api.")
	fs.StringVar(&o.SecretName, "visibility-secret-name", o.SecretName, "Name of the Secret in which replicas share "+
		"the certificate of --secure-port with --visibility-api, unless --tls-cert-file has it.")
}

func (o *VisibilityOptions) validate(secure *SecureOptions) (errs []error) {
	if !o.Enabled {
		return nil
	}
	if secure.Port == 0 {
		errs = append(errs, errors.New("--visibility-api: needs --secure-port, which is 0"))
	}
	if secure.CertFile != "" {
		return errs
	}
	for _, name := range []struct{ flag, value string }{
		{"--visibility-service-name", o.ServiceName}, {"--visibility-secret-name", o.SecretName},
	} {
		if name.value == "" {
			errs = append(errs, fmt.Errorf("%s: must not be empty", name.flag))
		}
	}
	return errs
}

// handler returns the handler of the secure port.
func (o *VisibilityOptions) handler(handlers *http.ServeMux, guard *secureserving.Guard) http.Handler {
	if !o.Enabled {
		return guard.Protect(handlers)
	}
	for path, handler := range apiserving.Discovery() {
		handlers.Handle(path, handler)
	}
	return apiserving.Visibility(guard.Protect(handlers))
}

// addVisibilityKeeper returns the keeper of the certificate of the secure port: that of the
// webhook, nil if livesched manages none, unless the API server must trust another one for the
// visibility API.
func addVisibilityKeeper(mgr ctrl.Manager, cfg *rest.Config, client clientset.Interface, webhook *servingcert.Keeper,
	o *Options) (*servingcert.Keeper, error) {
	if !o.Secure.Visibility.Enabled || o.Secure.CertFile != "" {
		return webhook, nil
	}
	namespace := o.leaseNamespace()
	if namespace == "" {
		return nil, errors.New("--visibility-api: the API server accepts only a certificate that it can verify, and " +
			"livesched has no namespace to keep one in, since it does not run in a pod: set " +
			"--leader-election-namespace, or --tls-cert-file")
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating the client for the APIService: %w", err)
	}
	service := o.Secure.Visibility.ServiceName + "." + namespace + ".svc"
	version := apiserving.VisibilityGroupVersion
	keeper := &servingcert.Keeper{
		Client: client,
		Secret: types.NamespacedName{Namespace: namespace, Name: o.Secure.Visibility.SecretName},
		Callers: servingcert.APIService{Client: client, Dynamic: objects,
			Name: version.Version + "." + version.Group},
		Manifests: "config/visibility-api",
		DNSNames:  []string{service, service + ".cluster.local"},
		Lifetimes: servingcert.DefaultLifetimes,
		Clock:     clock.RealClock{},
	}
	return keeper, mgr.Add(keeper)
}
