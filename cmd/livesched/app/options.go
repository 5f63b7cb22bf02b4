// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// unsupportedGates change the core of a scheduler, not only its plugins, and are off by default in
// Kubernetes 1.36. Turning one on without the core's part would break promises silently.
var unsupportedGates = []featuregate.Feature{
	features.DRANodeAllocatableResources,
	features.DRAWorkloadResourceClaims,
	features.GangScheduling,
	features.GenericWorkload,
	features.SchedulerAsyncAPICalls,
	features.TopologyAwareWorkloadScheduling,
	features.WorkloadAwarePreemption,
}

// Options are the settings of the manager. The flags of the same names are described in
// docs/reference/flags.md.
type Options struct {
	// MetricsBindAddress and HealthProbeBindAddress are host:port; "0" turns the endpoint off.
	MetricsBindAddress     string
	HealthProbeBindAddress string

	// Profiling serves /debug/pprof/ beside /metrics. Off by default, unlike kube-scheduler's,
	// since anybody who reaches the port may read it. ContentionProfiling, with Profiling, has it
	// show where goroutines block.
	Profiling           bool
	ContentionProfiling bool

	// LeaderElect makes replicas elect the one that schedules. Without it there must be only one.
	LeaderElect bool
	// LeaderElectionNamespace holds the Lease. Empty means the namespace that the process runs in.
	LeaderElectionNamespace string
	// LeaderElectionName is the name of the Lease.
	LeaderElectionName string
	LeaseDuration      time.Duration
	RenewDeadline      time.Duration
	RetryPeriod        time.Duration

	// RevisionNamespace holds the ControllerRevisions of profiles and policies. Empty means the
	// namespace of the Lease or, where none is given, the one that the process runs in, outside of
	// a cluster "default".
	RevisionNamespace string

	// KubeAPIQPS and KubeAPIBurst limit the requests of each client to the API server. The defaults
	// do not throttle a scheduler; those of client-go would cap it near 70 pods per second.
	KubeAPIQPS   float32
	KubeAPIBurst int

	// MaxConcurrentBinds is how many pods are bound at the same time.
	MaxConcurrentBinds int

	// ProfileBuildTimeout bounds the build of one profile.
	ProfileBuildTimeout time.Duration

	// Webhook is off by default.
	Webhook WebhookOptions
	// FastPath is one of scheduler.FastPathOn, FastPathOff and FastPathVerify.
	FastPath string
	// TrimBoundPods keeps of pods on nodes only what a scheduler reads.
	TrimBoundPods bool

	// OutOfTree holds plugins in addition to kube-scheduler's. Not a flag.
	OutOfTree framework.Registry

	showVersion bool
	logging     zap.Options
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		MetricsBindAddress:     ":8080",
		HealthProbeBindAddress: ":8081",
		LeaderElect:            true,
		LeaderElectionName:     "livesched",
		LeaseDuration:          15 * time.Second,
		RenewDeadline:          10 * time.Second,
		RetryPeriod:            2 * time.Second,
		KubeAPIQPS:             1000,
		KubeAPIBurst:           2000,
		MaxConcurrentBinds:     binding.DefaultLimit,
		ProfileBuildTimeout:    profile.DefaultBuildTimeout,
		Webhook:                newWebhookOptions(),
		FastPath:               string(scheduler.FastPathOn),
		TrimBoundPods:          true,
	}
}

// AddFlags registers the flags. --kubeconfig and the --zap-* ones are those of controller-runtime,
// --feature-gates takes kube-scheduler's gates.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress, `Address to serve metrics on, as host:port. "0" turns it off.`)
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress, `Address to serve /livez and /readyz on, as host:port. "0" turns it off.`)
	fs.BoolVar(&o.Profiling, "profiling", o.Profiling, "Serve /debug/pprof/ on the metrics address. Whoever reaches that address can then read profiles and slow livesched down.")
	fs.BoolVar(&o.ContentionProfiling, "contention-profiling", o.ContentionProfiling, "With --profiling, record where goroutines wait for each other (/debug/pprof/block). Costs some CPU.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Elect the one replica that schedules. Turn it off only where there is a single replica.")
	fs.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", o.LeaderElectionNamespace, "Namespace of the Lease. Empty means the namespace that livesched runs in.")
	fs.StringVar(&o.LeaderElectionName, "leader-election-name", o.LeaderElectionName, "Name of the Lease.")
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", o.LeaseDuration, "How long the other replicas wait, after the leader's last renewal, before they take over.")
	fs.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", o.RenewDeadline, "How long the leader tries to renew its lease before it gives up and exits. Shorter than the lease duration.")
	fs.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", o.RetryPeriod, "How long to wait between attempts to take or renew the lease.")
	fs.StringVar(&o.RevisionNamespace, "revision-namespace", o.RevisionNamespace, `Namespace of the ControllerRevisions that the specs of profiles and policies are kept in. Empty means --leader-election-namespace or, without it, the namespace that livesched runs in, outside of a cluster "default".`)
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS, "Requests per second to the API server.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst, "Requests to the API server that may exceed --kube-api-qps for a moment.")
	fs.IntVar(&o.MaxConcurrentBinds, "max-concurrent-binds", o.MaxConcurrentBinds, "How many pods are bound at the same time. More helps only where the API server is far away, so that a binding takes long without costing anything.")
	fs.DurationVar(&o.ProfileBuildTimeout, "profile-build-timeout", o.ProfileBuildTimeout, "How long the build of one profile may take, the first list of the informers that it brings included.")
	o.Webhook.addFlags(fs)
	fs.StringVar(&o.FastPath, "fast-path", o.FastPath, `How decisions are made, which are the same ones in any case. "on" keeps what plugins say of nodes and asks again where something has changed, "off" asks every plugin about every node for every pod, "verify" does both and counts the differences.`)
	fs.BoolVar(&o.TrimBoundPods, "trim-bound-pods", o.TrimBoundPods, "Keep of pods on nodes only what schedulers read: no commands, environment, probes, mounts and files, and of what kubelets report of containers neither states nor ids. Turn it off for a plugin or an extender that misses something there; a pod then takes about five times as much memory.")
	fs.BoolVar(&o.showVersion, "version", false, "Print the version, and that of Kubernetes it is built on, and exit.")
	utilfeature.DefaultMutableFeatureGate.AddFlag(fs)

	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	ctrlconfig.RegisterFlags(goFlags)
	o.logging.BindFlags(goFlags)
	fs.AddGoFlagSet(goFlags)
}

// Validate returns an error that names every flag with a value that it cannot have.
func (o *Options) Validate() error {
	var errs []error
	if o.KubeAPIQPS <= 0 {
		errs = append(errs, fmt.Errorf("--kube-api-qps=%v: must be greater than 0", o.KubeAPIQPS))
	}
	if o.KubeAPIBurst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst=%d: must be at least 1", o.KubeAPIBurst))
	}
	if o.MaxConcurrentBinds < 1 {
		errs = append(errs, fmt.Errorf("--max-concurrent-binds=%d: must be at least 1", o.MaxConcurrentBinds))
	}
	if o.ProfileBuildTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--profile-build-timeout=%v: must be greater than 0", o.ProfileBuildTimeout))
	}
	switch scheduler.FastPath(o.FastPath) {
	case scheduler.FastPathOn, scheduler.FastPathOff, scheduler.FastPathVerify:
	default:
		errs = append(errs, fmt.Errorf("--fast-path=%s: must be on, off or verify", o.FastPath))
	}
	if o.Profiling && o.MetricsBindAddress == "0" {
		errs = append(errs, errors.New("--profiling: needs the metrics server, which --metrics-bind-address=0 turns off"))
	}
	if o.ContentionProfiling && !o.Profiling {
		errs = append(errs, errors.New("--contention-profiling: has no effect without --profiling"))
	}
	for _, gate := range unsupportedGates {
		if utilfeature.DefaultFeatureGate.Enabled(gate) {
			errs = append(errs, fmt.Errorf("--feature-gates=%s=true: livesched does not implement this feature", gate))
		}
	}
	if o.LeaderElect {
		errs = append(errs, o.validateLeaderElection()...)
	}
	errs = append(errs, o.Webhook.validate()...)
	return errors.Join(errs...)
}

func (o *Options) validateLeaderElection() (errs []error) {
	if o.LeaderElectionName == "" {
		errs = append(errs, errors.New("--leader-election-name: must not be empty"))
	}
	if o.RetryPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period=%v: must be greater than 0", o.RetryPeriod))
	}
	if o.RenewDeadline <= o.RetryPeriod {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline=%v: must be longer than --leader-elect-retry-period (%v)", o.RenewDeadline, o.RetryPeriod))
	}
	if o.LeaseDuration <= o.RenewDeadline {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration=%v: must be longer than --leader-elect-renew-deadline (%v)", o.LeaseDuration, o.RenewDeadline))
	}
	return errs
}

// podNamespaceFile is where a pod finds the name of its namespace.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// requireLeaseNamespace returns an error if there is no namespace for the Lease.
func (o *Options) requireLeaseNamespace() error {
	if !o.LeaderElect || o.LeaderElectionNamespace != "" {
		return nil
	}
	if _, err := os.Stat(podNamespaceFile); err != nil {
		return fmt.Errorf("--leader-election-namespace: must be set where livesched does not run in a pod (%w); or set --leader-elect=false for a single replica", err)
	}
	return nil
}

// revisionNamespace is the namespace of the ControllerRevisions.
func (o *Options) revisionNamespace() string {
	if namespace := cmp.Or(o.RevisionNamespace, o.LeaderElectionNamespace); namespace != "" {
		return namespace
	}
	if text, err := os.ReadFile(podNamespaceFile); err == nil && len(bytes.TrimSpace(text)) > 0 {
		return string(bytes.TrimSpace(text))
	}
	return metav1.NamespaceDefault
}

// throttled returns a copy of a client configuration with the rate limits of the options.
func (o *Options) throttled(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = o.KubeAPIQPS, o.KubeAPIBurst
	return cfg
}
