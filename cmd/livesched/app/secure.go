// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authorization/path"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/dashboard"
	"github.com/livesched/livesched/internal/loadhistory"
	"github.com/livesched/livesched/internal/passon"
	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/secureserving"
	"github.com/livesched/livesched/internal/servingcert"
)

// Limits of a connection to the secure port. There is none for writing an answer: a profile takes
// as long as its reader asks for.
const (
	secureHeaderTimeout   = 10 * time.Second
	secureIdleTimeout     = 90 * time.Second
	secureHeaderBytes     = 64 << 10
	secureShutdownTimeout = time.Second
)

// Reviews must not be held up by the limits of the clients that schedule, nor without a limit: each
// unknown token costs one request to the API server. kube-scheduler has the same values.
const (
	reviewQPS   = 200
	reviewBurst = 400
)

// getCertificate is the function of that name in tls.Config.
type getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// SecureOptions configures the HTTPS endpoint, whose flags have the names of kube-scheduler's.
type SecureOptions struct {
	// Port is the port; 0 turns the endpoint off. BindAddress is the IP address.
	Port        int
	BindAddress string
	// CertFile and KeyFile hold the certificate. Without them, livesched uses the certificate
	// of the webhook, if it manages one, or makes one in memory.
	CertFile, KeyFile string
	// AlwaysAllowPaths are served without authentication and authorization. They may end in *.
	AlwaysAllowPaths []string
	// UI serves the dashboard. UIPrometheus is where it reads the load of days, if it has a URL.
	UI           bool
	UIPrometheus loadhistory.Config
	// Visibility configures the API that the API server passes questions on to.
	Visibility VisibilityOptions
}

func newSecureOptions() SecureOptions {
	return SecureOptions{Port: 10259, BindAddress: "0.0.0.0",
		AlwaysAllowPaths: []string{"/healthz", "/readyz", "/livez"}, Visibility: newVisibilityOptions()}
}

func (o *SecureOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Port, "secure-port", o.Port, "Port on which to serve metrics, /configz, health, profiles and "+
		"explanations over HTTPS, to those whom the API server permits. 0 turns it off.")
	fs.StringVar(&o.BindAddress, "bind-address", o.BindAddress,
		"IP address of --secure-port. 0.0.0.0 and :: mean all interfaces and IP families.")
	fs.StringVar(&o.CertFile, "tls-cert-file", o.CertFile, "File with the certificate of --secure-port, followed by "+
		"the certificates of intermediate authorities. livesched reads it again when it changes. Empty means the "+
		"certificate of the webhook if livesched manages one, else one that livesched makes in memory.")
	fs.StringVar(&o.KeyFile, "tls-private-key-file", o.KeyFile, "File with the private key of --tls-cert-file.")
	fs.StringSliceVar(&o.AlwaysAllowPaths, "authorization-always-allow-paths", o.AlwaysAllowPaths,
		"Paths on --secure-port that are served to everybody. A path may end in *, which stands for any rest.")
	fs.BoolVar(&o.UI, "ui", o.UI, "Serve the dashboard at /ui/ on --secure-port, for browsers whose requests carry "+
		"the credentials of their user: a proxy that signs users in adds a bearer token. Everyone sees what they may "+
		"see. `kubectl livesched dashboard` needs neither this flag nor a proxy.")
	fs.StringVar(&o.UIPrometheus.URL, "ui-prometheus-url", o.UIPrometheus.URL, "URL of a Prometheus that scrapes "+
		"livesched with the job label livesched: the charts of --ui then show up to 30 days. livesched asks it for "+
		"all who may see the charts; browsers do not get to know the URL.")
	fs.StringVar(&o.UIPrometheus.TokenFile, "ui-prometheus-token-file", o.UIPrometheus.TokenFile,
		"File with a bearer token for --ui-prometheus-url. livesched reads it again when it changes.")
	fs.StringVar(&o.UIPrometheus.CAFile, "ui-prometheus-ca-file", o.UIPrometheus.CAFile, "File with the certificate "+
		"authorities that verify --ui-prometheus-url. Empty means the authorities of the system.")
	o.Visibility.addFlags(fs)
}

func (o *SecureOptions) validate() (errs []error) {
	if o.Port < 0 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port=%d: must be a number from 0 to 65535", o.Port))
	}
	if net.ParseIP(o.BindAddress) == nil {
		errs = append(errs, fmt.Errorf("--bind-address=%s: must be an IP address", o.BindAddress))
	}
	if o.UI && o.Port == 0 {
		errs = append(errs, errors.New("--ui: needs --secure-port, which is 0"))
	}
	errs = append(errs, o.validatePrometheus()...)
	errs = append(errs, o.Visibility.validate(o)...)
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file: must be set together"))
	}
	if _, err := path.NewAuthorizer(o.AlwaysAllowPaths); err != nil {
		errs = append(errs, fmt.Errorf("--authorization-always-allow-paths: %w", err))
	}
	return errs
}

func (o *SecureOptions) validatePrometheus() (errs []error) {
	p := &o.UIPrometheus
	if p.URL == "" {
		if p.TokenFile != "" || p.CAFile != "" {
			errs = append(errs,
				errors.New("--ui-prometheus-token-file, --ui-prometheus-ca-file: need --ui-prometheus-url"))
		}
		return errs
	}
	if !o.UI {
		errs = append(errs, errors.New("--ui-prometheus-url: needs --ui"))
	}
	if err := p.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--ui-prometheus-url: %w", err))
	}
	return errs
}

// listen opens the port.
func (o *SecureOptions) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(o.BindAddress, strconv.Itoa(o.Port)))
	if err != nil {
		return nil, fmt.Errorf("--secure-port=%d: %w", o.Port, err)
	}
	return listener, nil
}

// serveTLS returns a server and its listener on top of another one.
func serveTLS(listener net.Listener, get getCertificate, handler http.Handler) (*http.Server, net.Listener) {
	server := &http.Server{
		// A failed handshake is no problem of livesched: scanners and closed connections cause it.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(klog.Background().WithName("secure-serving").V(2)),
			slog.LevelInfo),
		Handler: handler, ReadHeaderTimeout: secureHeaderTimeout, IdleTimeout: secureIdleTimeout,
		MaxHeaderBytes: secureHeaderBytes,
	}
	return server, tls.NewListener(listener, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},  // one request at a time is enough
		ClientAuth:     tls.RequestClientCert, // the guard verifies it
		GetCertificate: get,
	})
}

// selfSigned returns a certificate in memory.
func selfSigned(host string) getCertificate {
	return (&servingcert.SelfSigned{Names: []string{host}, Clock: clock.RealClock{}}).GetCertificate
}

// host returns the host name, which in a pod is the pod's name.
func (o *Options) host() string {
	host, _ := os.Hostname()
	return cmp.Or(o.Host, host, "livesched")
}

// certificate returns the certificate of the endpoint. keeper is the keeper of the visibility API
// or the webhook, nil if livesched does not manage one. host is the host name of this replica.
func (o *SecureOptions) certificate(mgr ctrl.Manager, keeper *servingcert.Keeper, host string) (getCertificate, error) {
	switch fallback := selfSigned(host); {
	case o.CertFile != "":
		files, err := certwatcher.New(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
		}
		return files.GetCertificate, mgr.Add(files)
	case keeper != nil:
		return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c, err := keeper.GetCertificate(hello); err == nil {
				return c, nil
			}
			return fallback(hello) // there is none yet, and probes must not wait for it
		}, nil
	default:
		return fallback, nil
	}
}

// addSecureServing serves the handlers, and answers about the scheduler, on every replica, to those
// whom the API server permits. The endpoint is served before the manager's caches have synced, as
// the health probes are.
func addSecureServing(mgr ctrl.Manager, restConfig *rest.Config, handlers *http.ServeMux, sched *scheduler.Scheduler,
	keeper *servingcert.Keeper, election *election, o *Options) error {
	if o.Secure.Port == 0 {
		return nil
	}
	cfg := rest.CopyConfig(restConfig)
	cfg.QPS, cfg.Burst = reviewQPS, reviewBurst
	client, err := newClient(cfg, "secure-serving")
	if err != nil {
		return fmt.Errorf("creating the client for authentication: %w", err)
	}
	guard, err := secureserving.NewGuard(client,
		secureserving.Options{AlwaysAllow: o.Secure.AlwaysAllowPaths, FrontProxy: o.Secure.Visibility.Enabled})
	if err != nil {
		return err
	}
	leader, err := addLeader(mgr, cfg, client, sched, election, o)
	if err != nil {
		return err
	}
	answers := apiserving.NewHandler(sched, guard, leader)
	handlers.Handle(apiserving.Path, answers)
	if o.Secure.UI {
		history, err := o.uiHistory()
		if err != nil {
			return err
		}
		handlers.Handle(uiPrefix+"/", newUI(answers, guard, mgr.GetClient(), history))
	}
	if keeper, err = addVisibilityKeeper(mgr, cfg, client, keeper, o); err != nil {
		return err
	}
	get, err := o.Secure.certificate(mgr, keeper, o.host())
	if err != nil {
		return err
	}
	listener, err := o.Secure.listen()
	if err != nil {
		return err
	}
	server, tlsListener := serveTLS(listener, get, o.Secure.Visibility.handler(handlers, guard))
	return errors.Join(mgr.Add(guard), addPublisher(mgr, client, get, o), mgr.Add(&manager.Server{
		Name: "secure", Server: server, Listener: tlsListener, ShutdownTimeout: ptr.To(secureShutdownTimeout),
	}))
}

// uiHistory returns what asks Prometheus for the dashboard, nil if none is named.
func (o *Options) uiHistory() (dashboard.History, error) {
	prometheus := o.Secure.UIPrometheus
	if prometheus.URL == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	prometheus.Namespace = o.leaseNamespace()
	client, err := loadhistory.New(&prometheus)
	if err != nil {
		return nil, fmt.Errorf("--ui-prometheus-url: %w", err)
	}
	return client, nil
}

// addLeader returns what passes questions on to the replica that leads, nil if this replica has to
// answer all of them: without leader election, there is no other one, and a replica that acts as
// somebody else at the API server is nobody whom the leader knows.
func addLeader(mgr ctrl.Manager, cfg *rest.Config, client clientset.Interface, sched *scheduler.Scheduler,
	election *election, o *Options) (apiserving.Leader, error) {
	if election == nil || cfg.Impersonate.UserName != "" {
		return nil, nil
	}
	leader := passon.New(passon.Config{Rest: cfg, Client: client, Namespace: o.leaseNamespace(),
		Lease: o.LeaderElectionName, Host: o.host(), Holder: election.holder, Leading: sched.Leading})
	return leader, mgr.Add(leader)
}

// addPublisher publishes the certificate of the endpoint, so that clients can verify it. Without a
// namespace, livesched does not run as config/ deploys it, and there is no place for the
// certificate.
func addPublisher(mgr ctrl.Manager, client clientset.Interface, get getCertificate, o *Options) error {
	namespace := o.leaseNamespace()
	if namespace == "" {
		return nil
	}
	return mgr.Add(&servingcert.Publisher{
		Client: client, Namespace: namespace, Host: o.host(), GetCertificate: get, Clock: clock.RealClock{},
	})
}
