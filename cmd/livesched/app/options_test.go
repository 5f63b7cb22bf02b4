// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/livesched/livesched/cmd/livesched/app"
)

func TestFlags(t *testing.T) {
	fs := pflag.NewFlagSet("livesched", pflag.ContinueOnError)
	app.NewOptions().AddFlags(fs)
	got := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no description", f.Name)
		}
		if f.Name != "feature-gates" { // its default lists every gate of Kubernetes
			got[f.Name] = f.DefValue
		}
	})
	want := map[string]string{
		"kubeconfig":                       "",
		"leader-elect":                     "true",
		"leader-election-namespace":        "",
		"leader-election-name":             "livesched",
		"revision-namespace":               "",
		"leader-elect-lease-duration":      "15s",
		"leader-elect-renew-deadline":      "10s",
		"leader-elect-retry-period":        "2s",
		"secure-port":                      "10259",
		"bind-address":                     "0.0.0.0",
		"tls-cert-file":                    "",
		"tls-private-key-file":             "",
		"authorization-always-allow-paths": "[/healthz,/readyz,/livez]",
		"metrics-bind-address":             "0",
		"health-probe-bind-address":        ":8081",
		"kube-api-qps":                     "1000",
		"kube-api-burst":                   "2000",
		"decision-log-size":                "65536",
		"max-concurrent-binds":             "64",
		"pod-group-status":                 "true",
		"profile-build-timeout":            "30s",
		"profiling":                        "false",
		"contention-profiling":             "false",
		"extender-allowed-hosts":           "[*.svc,*.svc.cluster.local]",
		"webhook":                          "false",
		"webhook-bind-address":             ":9443",
		"webhook-cert-dir":                 "",
		"webhook-namespace":                "",
		"webhook-service-name":             "livesched-webhook",
		"yield-to-kube-scheduler":          "true",
		"webhook-secret-name":              "livesched-webhook-cert",
		"webhook-configuration-name":       "livesched",
		"fast-path":                        "on",
		"fast-path-memory-limit":           "0",
		"trim-bound-pods":                  "true",
		"ui":                               "false",
		"ui-prometheus-url":                "",
		"ui-prometheus-token-file":         "",
		"ui-prometheus-ca-file":            "",
		"visibility-api":                   "false",
		"visibility-service-name":          "livesched-visibility",
		"visibility-secret-name":           "livesched-visibility-cert",
		"version":                          "false",
		"v":                                "0",
		"logging-format":                   "json",
		"zap-devel":                        "false",
		"zap-encoder":                      "",
		"zap-log-level":                    "",
		"zap-stacktrace-level":             "",
		"zap-time-encoding":                "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFlagsSetOptions(t *testing.T) {
	o := app.NewOptions()
	fs := pflag.NewFlagSet("livesched", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse([]string{
		"--leader-elect=false", "--leader-election-namespace=ns", "--leader-election-name=lease",
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=1s",
		"--secure-port=5", "--bind-address=::1", "--tls-cert-file=crt", "--tls-private-key-file=key",
		"--authorization-always-allow-paths=/a,/b*", "--visibility-api", "--visibility-service-name=vsvc",
		"--visibility-secret-name=vsecret",
		"--metrics-bind-address=:1", "--health-probe-bind-address=:2", "--kube-api-qps=3.5", "--kube-api-burst=4",
		"--profile-build-timeout=5s",
		"--profiling", "--contention-profiling", "--fast-path=verify", "--fast-path-memory-limit=1.5Gi",
		"--trim-bound-pods=false",
		"--webhook", "--webhook-bind-address=:3", "--webhook-cert-dir=dir", "--webhook-namespace=wns",
		"--webhook-service-name=svc",
		"--webhook-secret-name=secret", "--webhook-configuration-name=configuration",
	}); err != nil {
		t.Fatal(err)
	}
	type settings struct {
		elect               bool
		namespace, name     string
		lease, renew, retry time.Duration
		secure              app.SecureOptions
		metrics, probes     string
		qps                 float32
		burst               int
		buildTimeout        time.Duration
		profiling, blocks   bool
		webhook             app.WebhookOptions
		fastPath            string
		fastPathMemory      int64
		trim                bool
	}
	got := settings{
		o.LeaderElect, o.LeaderElectionNamespace, o.LeaderElectionName, o.LeaseDuration, o.RenewDeadline, o.RetryPeriod,
		o.Secure, o.MetricsBindAddress, o.HealthProbeBindAddress, o.KubeAPIQPS, o.KubeAPIBurst, o.ProfileBuildTimeout,
		o.Profiling, o.ContentionProfiling,
		o.Webhook, o.FastPath, o.FastPathMemoryLimit.Value(), o.TrimBoundPods,
	}
	want := settings{false, "ns", "lease", 3 * time.Second, 2 * time.Second, time.Second,
		app.SecureOptions{Port: 5, BindAddress: "::1", CertFile: "crt", KeyFile: "key",
			AlwaysAllowPaths: []string{"/a", "/b*"},
			Visibility:       app.VisibilityOptions{Enabled: true, ServiceName: "vsvc", SecretName: "vsecret"}},
		":1", ":2", 3.5, 4, 5 * time.Second, true, true,
		app.WebhookOptions{
			Enabled: true, BindAddress: ":3", CertDir: "dir", Namespace: "wns", ServiceName: "svc",
			SecretName: "secret", ConfigurationName: "configuration",
		}, "verify", 3 << 29, false}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Error(diff)
	}
}

func setMemoryLimit(limit string) func(*app.Options) {
	return func(o *app.Options) { o.FastPathMemoryLimit.Quantity = resource.MustParse(limit) }
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*app.Options)
		want   []string // the beginning of each line; none if the options are valid
	}{
		{"the defaults", func(*app.Options) {}, nil},
		{"no requests per second", func(o *app.Options) { o.KubeAPIQPS = 0 },
			[]string{"--kube-api-qps=0: must be greater than 0"}},
		{"no limit, which is -1 in client-go", func(o *app.Options) { o.KubeAPIQPS = -1 },
			[]string{"--kube-api-qps=-1: must be greater than 0"}},
		{"no burst", func(o *app.Options) { o.KubeAPIBurst = 0 }, []string{"--kube-api-burst=0: must be at least 1"}},
		{"a negative log size", func(o *app.Options) { o.DecisionLogSize = -1 },
			[]string{"--decision-log-size=-1: must be from 0 to 16777216"}},
		{"no concurrent binds", func(o *app.Options) { o.MaxConcurrentBinds = 0 },
			[]string{"--max-concurrent-binds=0: must be at least 1"}},
		{"an unknown mode of the fast path", func(o *app.Options) { o.FastPath = "maybe" },
			[]string{"--fast-path=maybe: must be on, off or verify"}},
		{"hardly any memory for the fast path", setMemoryLimit("1000"),
			[]string{"--fast-path-memory-limit=1k: must be 0, or at least 1Mi"}},
		{"negative memory for the fast path", setMemoryLimit("-1Gi"),
			[]string{"--fast-path-memory-limit=-1Gi: must be 0, or at least 1Mi"}},
		{"little memory for the fast path", setMemoryLimit("1Mi"), nil},
		{"no fast path", func(o *app.Options) { o.FastPath = "off" }, nil},
		{"a build timeout of 0", func(o *app.Options) { o.ProfileBuildTimeout = 0 },
			[]string{"--profile-build-timeout=0s: must be greater than 0"}},
		{"profiling without a server", func(o *app.Options) { o.Profiling, o.Secure.Port = true, 0 },
			[]string{"--profiling: requires an endpoint"}},
		{"profiling on the secure port", func(o *app.Options) { o.Profiling = true }, nil},
		{"profiling on the plain port",
			func(o *app.Options) { o.Profiling, o.Secure.Port, o.MetricsBindAddress = true, 0, ":1" }, nil},
		{"a secure port that is none", func(o *app.Options) { o.Secure.Port = 65536 },
			[]string{"--secure-port=65536: must be a number from 0 to 65535"}},
		{"a secure port on a host name", func(o *app.Options) { o.Secure.BindAddress = "localhost" },
			[]string{"--bind-address=localhost: must be an IP address"}},
		{"a certificate without a key", func(o *app.Options) { o.Secure.CertFile = "tls.crt" },
			[]string{"--tls-cert-file and --tls-private-key-file: must be set together"}},
		{"the dashboard with Prometheus", func(o *app.Options) {
			o.Secure.UI, o.Secure.UIPrometheus.URL, o.Secure.UIPrometheus.TokenFile = true, "https://p", "token"
		}, nil},
		{"Prometheus without the dashboard", func(o *app.Options) { o.Secure.UIPrometheus.URL = "http://prometheus" },
			[]string{"--ui-prometheus-url: needs --ui"}},
		{"a token for no Prometheus",
			func(o *app.Options) { o.Secure.UI, o.Secure.UIPrometheus.TokenFile = true, "token" },
			[]string{"--ui-prometheus-token-file, --ui-prometheus-ca-file: need --ui-prometheus-url"}},
		{"a Prometheus without a scheme",
			func(o *app.Options) { o.Secure.UI, o.Secure.UIPrometheus.URL = true, "prometheus:9090" },
			[]string{"--ui-prometheus-url: must be a URL of Prometheus such as http://prometheus.monitoring:9090"}},
		{"the visibility API without a port", func(o *app.Options) { o.Secure.Visibility.Enabled, o.Secure.Port = true, 0 },
			[]string{"--visibility-api: needs --secure-port, which is 0"}},
		{"the visibility API without a Service", func(o *app.Options) {
			o.Secure.Visibility.Enabled, o.Secure.Visibility.ServiceName, o.Secure.Visibility.SecretName = true, "", ""
		}, []string{"--visibility-service-name: must not be empty", "--visibility-secret-name: must not be empty"}},
		{"the visibility API with a certificate", func(o *app.Options) {
			o.Secure.Visibility = app.VisibilityOptions{Enabled: true}
			o.Secure.CertFile, o.Secure.KeyFile = "tls.crt", "tls.key"
		}, nil},
		{"a path with * in the middle", func(o *app.Options) { o.Secure.AlwaysAllowPaths = []string{"/a*/b"} },
			[]string{`--authorization-always-allow-paths: only trailing * allowed in "a*/b"`}},
		{"contention profiling without profiling", func(o *app.Options) { o.ContentionProfiling = true },
			[]string{"--contention-profiling: has no effect without --profiling"}},
		{"a lease without a name", func(o *app.Options) { o.LeaderElectionName = "" },
			[]string{"--leader-election-name: must not be empty"}},
		{"a retry period of 0", func(o *app.Options) { o.RetryPeriod = 0 },
			[]string{"--leader-elect-retry-period=0s: must be greater than 0"}},
		{"a renew deadline that is not longer than the retry period",
			func(o *app.Options) { o.RenewDeadline = o.RetryPeriod },
			[]string{"--leader-elect-renew-deadline=2s: must be longer than --leader-elect-retry-period (2s)"}},
		{"a lease duration that is not longer than the renew deadline",
			func(o *app.Options) { o.LeaseDuration = o.RenewDeadline },
			[]string{"--leader-elect-lease-duration=10s: must be longer than --leader-elect-renew-deadline (10s)"}},
		{"an invalid lease without leader election",
			func(o *app.Options) { o.LeaderElect, o.LeaderElectionName, o.LeaseDuration = false, "", 0 }, nil},
		{"a certificate without a webhook", func(o *app.Options) { o.Webhook.CertDir = "/certs" },
			[]string{"--webhook-cert-dir: has no effect without --webhook"}},
		{"a webhook without a port",
			func(o *app.Options) { o.Webhook.Enabled, o.Webhook.BindAddress = true, "localhost" },
			[]string{"--webhook-bind-address=localhost: address localhost: missing port"}},
		{"a webhook on port 0", func(o *app.Options) { o.Webhook.Enabled, o.Webhook.BindAddress = true, ":0" },
			[]string{`--webhook-bind-address=:0: port "0" is not a number from 1 to 65535`}},
		{"a webhook without a Service", func(o *app.Options) { o.Webhook.Enabled, o.Webhook.ServiceName = true, "" },
			[]string{"--webhook-service-name: must not be empty"}},
		{"a webhook with a certificate directory", func(o *app.Options) {
			o.Webhook.Enabled, o.Webhook.CertDir, o.Webhook.ServiceName, o.Webhook.SecretName,
				o.Webhook.ConfigurationName = true, "/certs", "", "", ""
		}, nil},
		{
			"several errors", func(o *app.Options) { o.KubeAPIQPS, o.KubeAPIBurst, o.LeaseDuration = 0, -1, 0 },
			[]string{"--kube-api-qps=0: ", "--kube-api-burst=-1: ", "--leader-elect-lease-duration=0s: "},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := app.NewOptions()
			test.change(o)
			err := o.Validate()
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], test.want[i]) {
					t.Errorf("got %q, want %q", got[i], test.want[i])
				}
			}
		})
	}
}
