// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/clock"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// unsupportedGates are feature gates for which plugins need a part of the scheduler's core that
// livesched does not have. They are off by default in Kubernetes 1.37.
var unsupportedGates = []featuregate.Feature{
	features.InterPodAffinityHostnameFastPath,
}

// minFastPathMemory is the lowest limit that is accepted: what one class takes in a cluster of
// 50,000 nodes.
var minFastPathMemory = resource.MustParse("1Mi")

// maxDecisionLogSize is the highest number of decisions that can be recorded: they take 2 GiB.
const maxDecisionLogSize = 1 << 24

// Options configures the manager. docs/reference/flags.md describes the flags of the same names.
type Options struct {
	// Secure configures the HTTPS endpoint.
	Secure SecureOptions
	// MetricsBindAddress and HealthProbeBindAddress are host:port of plain HTTP; "0" turns the
	// endpoint off.
	MetricsBindAddress     string
	HealthProbeBindAddress string

	// Profiling serves /debug/pprof/ next to /metrics. Unlike in kube-scheduler, it is off by
	// default, since a profile slows livesched down. ContentionProfiling requires Profiling and
	// adds a profile of blocked goroutines.
	Profiling           bool
	ContentionProfiling bool

	// LeaderElect makes replicas elect the one that schedules. Without it, run only one replica.
	LeaderElect bool
	// LeaderElectionNamespace is the namespace of the Lease. Empty means the namespace
	// of the process.
	LeaderElectionNamespace string
	// LeaderElectionName is the name of the Lease.
	LeaderElectionName string
	LeaseDuration      time.Duration
	RenewDeadline      time.Duration
	RetryPeriod        time.Duration

	// RevisionNamespace is the namespace of the ControllerRevisions of profiles and policies. Empty
	// means LeaderElectionNamespace; if that is empty, too, the namespace of the process, or
	// "default" outside of a cluster.
	RevisionNamespace string

	// KubeAPIQPS and KubeAPIBurst limit the requests of each client to the API server. The defaults
	// do not throttle scheduling; client-go's would limit it to about 70 pods per second.
	KubeAPIQPS   float32
	KubeAPIBurst int

	// DecisionLogSize is the number of decisions that are recorded. 0: none.
	DecisionLogSize int
	// MaxConcurrentBinds limits the number of pods that are bound at the same time.
	MaxConcurrentBinds int

	// PodGroupStatus keeps the status of scheduler-plugins' PodGroups.
	PodGroupStatus bool

	// ProfileBuildTimeout limits the time for the build of one profile.
	ProfileBuildTimeout time.Duration

	// YieldToKubeScheduler: see controllers.Config.
	YieldToKubeScheduler bool

	// ExtenderAllowedHosts are the hosts that extenders may be at; see config.ParseAllowedHosts.
	ExtenderAllowedHosts []string

	// Webhook configures the validating webhook, which is off by default.
	Webhook WebhookOptions
	// FastPath is one of scheduler.FastPathOn, FastPathOff and FastPathVerify.
	FastPath string
	// FastPathMemoryLimit limits the memory that the fast path takes. 0 means
	// fastpath.DefaultMemoryLimit.
	FastPathMemoryLimit resource.QuantityValue
	// TrimBoundPods keeps only the fields of bound pods that schedulers read.
	TrimBoundPods bool

	// Host is the host name of this replica, by which others find it: in a pod, the pod's name.
	// Empty means that of the machine. There is no flag for it.
	Host string
	// OutOfTree holds plugins in addition to kube-scheduler's. There is no flag for it.
	OutOfTree framework.Registry
	// Clock is the clock of the scheduler and the controllers, by default the real one. There is no
	// flag for it.
	Clock clock.WithTickerAndDelayedExecution

	showVersion bool
	logging     logging
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Secure:                 newSecureOptions(),
		MetricsBindAddress:     "0",
		HealthProbeBindAddress: ":8081",
		LeaderElect:            true,
		LeaderElectionName:     "livesched",
		LeaseDuration:          15 * time.Second,
		RenewDeadline:          10 * time.Second,
		RetryPeriod:            2 * time.Second,
		KubeAPIQPS:             1000,
		KubeAPIBurst:           2000,
		MaxConcurrentBinds:     binding.DefaultLimit,
		DecisionLogSize:        decisionlog.DefaultSize,
		PodGroupStatus:         true,
		ProfileBuildTimeout:    profile.DefaultBuildTimeout,
		YieldToKubeScheduler:   true,
		ExtenderAllowedHosts:   resolve.DefaultAllowedHosts(),
		Webhook:                newWebhookOptions(),
		FastPath:               string(scheduler.FastPathOn),
		TrimBoundPods:          true,
		Clock:                  clock.RealClock{},
	}
}

// AddFlags registers the flags. --kubeconfig and --zap-* are controller-runtime's flags;
// --feature-gates accepts kube-scheduler's gates.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Secure.addFlags(fs)
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress,
		`Address on which to serve the endpoints of --secure-port over plain HTTP as well, health apart, as `+
			`host:port. Everybody who reaches it can read them. "0" turns it off.`)
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress,
		`Address of the health endpoints /livez and /readyz, as host:port. "0" turns them off.`)
	fs.BoolVar(&o.Profiling, "profiling", o.Profiling,
		"Serve /debug/pprof/ next to /metrics. Reading profiles slows livesched down.")
	fs.BoolVar(&o.ContentionProfiling, "contention-profiling", o.ContentionProfiling,
		"Record where goroutines block, for /debug/pprof/block. Requires --profiling and costs some CPU.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"Elect the one replica that schedules. Turn it off only if there is a single replica.")
	fs.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", o.LeaderElectionNamespace,
		"Namespace of the Lease. Empty means the namespace that livesched runs in.")
	fs.StringVar(&o.LeaderElectionName, "leader-election-name", o.LeaderElectionName, "Name of the Lease.")
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", o.LeaseDuration,
		"How long other replicas wait after the leader's last renewal before they take over.")
	fs.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", o.RenewDeadline,
		"How long the leader tries to renew the lease before it exits. Must be shorter than the lease duration.")
	fs.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", o.RetryPeriod,
		"Time between attempts to take or renew the lease.")
	fs.StringVar(&o.RevisionNamespace, "revision-namespace", o.RevisionNamespace,
		`Namespace of the ControllerRevisions of profiles and policies. Empty means --leader-election-namespace; if `+
			`that is empty, too, the namespace that livesched runs in, or "default" outside of a cluster.`)
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS,
		"Limit of requests per second to the API server, for each client.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst,
		"Number of requests to the API server that may briefly exceed --kube-api-qps, for each client.")
	fs.IntVar(&o.DecisionLogSize, "decision-log-size", o.DecisionLogSize,
		"Number of decisions that the leader keeps in memory, to explain why a pod is on its node. 0 turns this off.")
	fs.IntVar(&o.MaxConcurrentBinds, "max-concurrent-binds", o.MaxConcurrentBinds,
		"Maximum number of pods that are bound at the same time. A higher value helps only if bindings are slow "+
			"because of the latency to the API server.")
	fs.BoolVar(&o.PodGroupStatus, "pod-group-status", o.PodGroupStatus,
		"Keep the status of PodGroups of scheduler-plugins: their phase, and how many of their pods run, have "+
			"succeeded and have failed. Turn it off if the controller of scheduler-plugins runs, which does the same.")
	fs.DurationVar(&o.ProfileBuildTimeout, "profile-build-timeout", o.ProfileBuildTimeout,
		"Maximum time for the build of one profile, including the first list of informers that the profile adds.")
	fs.BoolVar(&o.YieldToKubeScheduler, "yield-to-kube-scheduler", o.YieldToKubeScheduler,
		"Do not begin to schedule pods with the scheduler name default-scheduler while a kube-scheduler holds the "+
			"Lease kube-system/kube-scheduler. A profile that scheduled them before goes on. Turn it off if the "+
			"profiles of that kube-scheduler have other scheduler names.")
	fs.StringSliceVar(&o.ExtenderAllowedHosts, strings.TrimPrefix(resolve.FlagAllowedHosts, "--"),
		o.ExtenderAllowedHosts, `Hosts that extenders may be at: names such as scheduler.example.com, all names `+
			`below a domain such as *.example.com, and IP addresses, each with an optional port. Only HTTPS is `+
			`allowed, unless an entry begins with http://, such as http://127.0.0.1:8888, which allows both. The `+
			`default is the names of Services. "off" allows HTTP and HTTPS to any host. Policies with other `+
			`extenders are not accepted.`)
	o.Webhook.addFlags(fs)
	fs.StringVar(&o.FastPath, "fast-path", o.FastPath, `How livesched makes decisions. The decisions are the same in `+
		`all modes. "on" keeps the answers of plugins and asks again only where something has changed, "off" asks `+
		`every plugin about every node for every pod, "verify" does both, uses the result of "off", and counts the `+
		`differences.`)
	fs.Var(&o.FastPathMemoryLimit, "fast-path-memory-limit", "Maximum memory for the answers of plugins that the "+
		"fast path keeps, such as 512Mi. Beyond it, livesched evicts those about classes of pods that it has not "+
		"seen for a while. 0 means an eighth of GOMEMLIMIT, but at least 128Mi.")
	fs.BoolVar(&o.TrimBoundPods, "trim-bound-pods", o.TrimBoundPods, "Keep only the fields of bound pods that "+
		"schedulers read: drop commands, environment, probes, mounts, files, and the states and ids of containers. "+
		"Turn it off if an out-of-tree plugin or an extender needs these fields; a bound pod then takes about five "+
		"times as much memory.")
	fs.BoolVar(&o.showVersion, "version", false,
		"Print the versions of livesched and of Kubernetes, on which it is built, and exit.")
	utilfeature.DefaultMutableFeatureGate.AddFlag(fs)

	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	ctrlconfig.RegisterFlags(goFlags)
	fs.AddGoFlagSet(goFlags)
	o.logging.addFlags(fs)
}

// Validate returns an error that names every flag with an invalid value.
func (o *Options) Validate() error {
	var errs []error
	if o.KubeAPIQPS <= 0 {
		errs = append(errs, fmt.Errorf("--kube-api-qps=%v: must be greater than 0", o.KubeAPIQPS))
	}
	if o.KubeAPIBurst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst=%d: must be at least 1", o.KubeAPIBurst))
	}
	if o.DecisionLogSize < 0 || o.DecisionLogSize > maxDecisionLogSize {
		errs = append(errs, fmt.Errorf("--decision-log-size=%d: must be from 0 to %d", o.DecisionLogSize,
			maxDecisionLogSize))
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
	if limit := &o.FastPathMemoryLimit; limit.Sign() != 0 && limit.Cmp(minFastPathMemory) < 0 {
		errs = append(errs, fmt.Errorf("--fast-path-memory-limit=%s: must be 0, or at least %s", limit,
			&minFastPathMemory))
	}
	if _, err := resolve.ParseAllowedHosts(o.ExtenderAllowedHosts); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", resolve.FlagAllowedHosts, err))
	}
	errs = append(errs, o.Secure.validate()...)
	if o.Profiling && o.MetricsBindAddress == "0" && o.Secure.Port == 0 {
		errs = append(errs, errors.New("--profiling: requires an endpoint, and --secure-port=0 and "+
			"--metrics-bind-address=0 turn both off"))
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
		errs = append(errs,
			fmt.Errorf("--leader-elect-renew-deadline=%v: must be longer than --leader-elect-retry-period (%v)",
				o.RenewDeadline, o.RetryPeriod))
	}
	if o.LeaseDuration <= o.RenewDeadline {
		errs = append(errs,
			fmt.Errorf("--leader-elect-lease-duration=%v: must be longer than --leader-elect-renew-deadline (%v)",
				o.LeaseDuration, o.RenewDeadline))
	}
	return errs
}

// requireLeaseNamespace returns an error if leader election has no namespace for its Lease.
func (o *Options) requireLeaseNamespace() error {
	if !o.LeaderElect || o.LeaderElectionNamespace != "" {
		return nil
	}
	if _, err := podNamespace(); err != nil {
		return fmt.Errorf("--leader-election-namespace: must be set if livesched does not run in a pod (%w); a "+
			"single replica can use --leader-elect=false instead", err)
	}
	return nil
}

// lease returns the name of the Lease of leader election, zero without leader election.
func (o *Options) lease() types.NamespacedName {
	if !o.LeaderElect {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: o.leaseNamespace(), Name: o.LeaderElectionName}
}

// revisionNamespace returns the namespace of the ControllerRevisions.
func (o *Options) revisionNamespace() string {
	return cmp.Or(o.RevisionNamespace, o.leaseNamespace(), metav1.NamespaceDefault)
}

// throttled returns a copy of a client configuration with the rate limits of the options.
func (o *Options) throttled(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = o.KubeAPIQPS, o.KubeAPIBurst
	return cfg
}

// podNamespaceFile contains the namespace of the pod that the process runs in.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace returns the namespace of the pod that the process runs in, or an error if it does
// not run in a pod.
func podNamespace() (string, error) {
	text, err := os.ReadFile(podNamespaceFile)
	if err != nil {
		return "", err
	}
	namespace := strings.TrimSpace(string(text))
	if namespace == "" {
		return "", fmt.Errorf("%s is empty", podNamespaceFile)
	}
	return namespace, nil
}
