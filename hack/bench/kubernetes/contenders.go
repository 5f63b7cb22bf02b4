// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/test/controlplane"
	childprocess "github.com/livesched/livesched/test/controlplane/process"
)

// The contenders.
const (
	livesched     = "livesched"
	kubeScheduler = "kube-scheduler"
	ceiling       = "ceiling"
)

var contenders = []string{ceiling, kubeScheduler, livesched}

// schedulerName is the name of the scheduler of the templates' pods, which name none.
const schedulerName = "default-scheduler"

// stopGrace is the time in which a scheduler must end.
const stopGrace = 12 * time.Second

// contender is a started contender.
type contender interface {
	Usage() (cluster.Usage, error)
	// Done is closed when the contender has ended, and Err then says why.
	Done() <-chan struct{}
	Err() error
	// stop ends it. It returns the number of decisions that --fast-path=verify found to differ.
	stop(ctx context.Context) (differences float64, err error)
}

// process is a contender with a process of its own.
type process struct{ *cluster.Scheduler }

// differencesMetric counts the decisions that differ with --fast-path=verify.
const differencesMetric = "livesched_fast_path_differences_total"

func (p process) stop(ctx context.Context) (differences float64, err error) {
	var metrics map[string]*dto.MetricFamily
	if p.MetricsURL != "" {
		metrics, err = p.Metrics(ctx)
	}
	for _, m := range metrics[differencesMetric].GetMetric() {
		differences += m.GetCounter().GetValue()
	}
	return differences, errors.Join(err, p.Stop(stopGrace))
}

// skipped returns why a contender cannot run a plan, or "" if it can.
func (p *plan) skipped(name string) string {
	switch name {
	case livesched:
		if on, ok := p.gates()["NodeDeclaredFeatures"]; ok && !on {
			return "the gate NodeDeclaredFeatures is locked since 1.37, and livesched cannot emulate 1.36"
		}
	case ceiling:
		return p.noCeiling()
	}
	return ""
}

// gateFlags returns the flags of a component of Kubernetes for the gates of a plan. A gate that is
// locked now needs the version before it was.
func (p *plan) gateFlags() []string {
	var flags, pairs []string
	for _, name := range slices.Sorted(maps.Keys(p.gates())) {
		pairs = append(pairs, fmt.Sprintf("%s=%t", name, p.gates()[name]))
	}
	if len(pairs) > 0 {
		flags = append(flags, "--feature-gates="+strings.Join(pairs, ","))
	}
	if on, ok := p.gates()["NodeDeclaredFeatures"]; ok && !on {
		flags = append(flags, "--emulated-version=1.36")
	}
	return flags
}

// start starts a control plane for a plan.
func (p *plan) start(ctx context.Context, dir string) (*controlplane.ControlPlane, error) {
	flags := append(p.gateFlags(),
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority", // as upstream
		"--request-timeout=10m", // for the deletion of all pods at once
	)
	var apis []string
	if p.gates()["DynamicResourceAllocation"] {
		for _, version := range []string{"v1", "v1beta2", "v1beta1", "v1alpha3"} {
			apis = append(apis, "resource.k8s.io/"+version+"=true")
		}
	}
	if p.gates()["GenericWorkload"] {
		apis = append(apis, "scheduling.k8s.io/v1beta1=true")
	}
	if len(apis) > 0 {
		flags = append(flags, "--runtime-config="+strings.Join(apis, ","))
	}
	return controlplane.Start(ctx, controlplane.Options{
		Dir: dir, Processors: goruntime.GOMAXPROCS(0), WithControllerManager: true, APIServerFlags: flags,
		// Upstream runs the same controllers. The one for service accounts only shows that the
		// process works.
		ControllerManagerFlags: append(p.gateFlags(), "--kube-api-qps=5000", "--kube-api-burst=5000",
			"--controllers=garbage-collector-controller,namespace-controller,resourceclaim-controller,"+
				"serviceaccount-controller"),
	})
}

// program describes the scheduler of a plan.
func (p *plan) program(c *controlplane.ControlPlane, path string, flags ...string) cluster.Program {
	return cluster.Program{Path: path, Kubeconfig: c.Kubeconfig(), Dir: c.Dir(), Flags: flags}
}

// startKubeScheduler runs kube-scheduler with the configuration of the case.
func (p *plan) startKubeScheduler(c *controlplane.ControlPlane, path string) (*cluster.Scheduler, error) {
	config := map[string]any{}
	if p.of.SchedulerConfigPath != "" {
		if err := newTemplates(p.of.dir).plain(p.of.SchedulerConfigPath, &config); err != nil {
			return nil, err
		}
	}
	return cluster.StartKubeScheduler(p.program(c, path, p.gateFlags()...), config)
}

// startLivesched runs livesched with a profile that has the configuration of the case.
func (p *plan) startLivesched(ctx context.Context, c *controlplane.ControlPlane, path string,
	flags []string) (*cluster.Scheduler, error) {
	if err := c.InstallCRDs(ctx, filepath.Join("config", "crd", "bases")); err != nil {
		return nil, err
	}
	profile, err := p.profile()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	writer, err := client.New(c.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	if err := writer.Create(ctx, profile); err != nil {
		return nil, err
	}
	return cluster.StartLivesched(p.program(c, path, slices.Concat(p.gateFlags(), flags)...))
}

// profile returns the SchedulerProfile with the content of the case's KubeSchedulerConfiguration.
func (p *plan) profile() (*v1alpha1.SchedulerProfile, error) {
	profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: schedulerName}}
	if p.of.SchedulerConfigPath == "" {
		return profile, nil
	}
	text, err := newTemplates(p.of.dir).read(p.of.SchedulerConfigPath)
	if err != nil {
		return nil, err
	}
	if err := convert(text, profile); err != nil {
		return nil, fmt.Errorf("%s: %w", p.of.SchedulerConfigPath, err)
	}
	return profile, nil
}

// convert copies a configuration with one profile into a SchedulerProfile. It knows the fields that
// the benchmark's configurations have; another one is an error.
func convert(text []byte, into *v1alpha1.SchedulerProfile) error {
	var config configv1.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return err
	}
	if len(config.Profiles) != 1 {
		return fmt.Errorf("there are %d profiles", len(config.Profiles))
	}
	from := config.Profiles[0]
	if name := from.SchedulerName; name != nil && *name != schedulerName {
		return fmt.Errorf("the profile is of %s", *name)
	}
	into.Spec.PercentageOfNodesToScore = config.PercentageOfNodesToScore
	if from.PercentageOfNodesToScore != nil {
		into.Spec.PercentageOfNodesToScore = from.PercentageOfNodesToScore
	}
	for _, plugin := range from.PluginConfig {
		into.Spec.PluginConfig = append(into.Spec.PluginConfig,
			v1alpha1.PluginConfig{Name: plugin.Name, Args: plugin.Args})
	}
	var left configv1.KubeSchedulerConfiguration
	left.TypeMeta, left.PercentageOfNodesToScore = config.TypeMeta, config.PercentageOfNodesToScore
	left.Profiles = []configv1.KubeSchedulerProfile{{SchedulerName: from.SchedulerName,
		PercentageOfNodesToScore: from.PercentageOfNodesToScore, PluginConfig: from.PluginConfig}}
	copied, err := yaml.Marshal(left)
	if err != nil {
		return err
	}
	all, err := yaml.Marshal(config)
	if err == nil && string(copied) != string(all) {
		err = errors.New("it has fields that are not copied to SchedulerProfiles")
	}
	return err
}

// startContender starts a contender, and waits until it works.
func (b *bench) startContender(ctx context.Context, name string, e *executor,
	c *controlplane.ControlPlane) (contender, error) {
	var s *cluster.Scheduler
	var err error
	switch name {
	case ceiling:
		return b.startCeiling(ctx, c)
	case kubeScheduler:
		s, err = e.startKubeScheduler(c, b.kubeScheduler)
	case livesched:
		s, err = e.startLivesched(ctx, c, b.livesched, b.liveschedArgs)
	}
	if err != nil {
		return nil, err
	}
	err = s.WaitReady(ctx, func(ctx context.Context) error { _, err := s.Metrics(ctx); return err })
	if err != nil {
		return nil, errors.Join(err, s.Stop(stopGrace))
	}
	return process{s}, nil
}

// startCeiling runs the ceiling as a process of this program, or in this process if that is a test.
func (b *bench) startCeiling(ctx context.Context, c *controlplane.ControlPlane) (contender, error) {
	if b.self == "" {
		return startBinder(ctx, c.Config())
	}
	p, err := childprocess.Start(childprocess.Config{
		Name: ceiling, Path: b.self, Args: []string{command, ceiling, "--kubeconfig=" + c.Kubeconfig()},
		LogFile: filepath.Join(c.Dir(), ceiling+".log"),
	})
	return process{&cluster.Scheduler{Process: p}}, err
}

// keepLog copies the log of a contender that failed to a directory where it stays.
func keepLog(from, to, workload, name string) string {
	text, err := os.ReadFile(filepath.Join(from, name+".log"))
	if err != nil {
		return ""
	}
	file := filepath.Join(to, strings.NewReplacer("/", "_").Replace(workload)+"-"+name+".log")
	if os.MkdirAll(to, 0o755) != nil || os.WriteFile(file, text, 0o644) != nil {
		return ""
	}
	return file
}
