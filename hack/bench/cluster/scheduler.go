// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/test/controlplane/process"
)

// Scheduler is the process of a scheduler.
type Scheduler struct {
	*process.Process
	// MetricsURL is the address of its metrics.
	MetricsURL string
}

// Program describes the scheduler to start.
type Program struct {
	// Path is that of the program, and Flags are added to its flags.
	Path  string
	Flags []string
	// Kubeconfig is the path of the configuration of its client.
	Kubeconfig string
	// Dir is where its log goes.
	Dir string
}

// StartKubeScheduler starts kube-scheduler with a KubeSchedulerConfiguration. The function sets how
// it reaches the API server, and turns leader election off.
func StartKubeScheduler(p Program, configuration map[string]any) (*Scheduler, error) {
	config := map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	maps.Copy(config, configuration)
	config["leaderElection"] = map[string]any{"leaderElect": false}
	config["clientConnection"] = map[string]any{
		"kubeconfig": p.Kubeconfig, "qps": QPS, "burst": QPS, "contentType": "application/vnd.kubernetes.protobuf",
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(p.Dir, "kube-scheduler.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	return p.start("kube-scheduler", fmt.Sprintf("https://127.0.0.1:%d/metrics", port),
		"--config="+file, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--authorization-always-allow-paths=/metrics")
}

// StartLivesched starts livesched.
func StartLivesched(p Program) (*Scheduler, error) {
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	return p.start("livesched", fmt.Sprintf("http://127.0.0.1:%d/metrics", port),
		"--kubeconfig="+p.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--health-probe-bind-address=0",
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", port),
		fmt.Sprintf("--kube-api-qps=%d", QPS), fmt.Sprintf("--kube-api-burst=%d", QPS))
}

func (p Program) start(name, metrics string, args ...string) (*Scheduler, error) {
	child, err := process.Start(process.Config{
		Name: name, Path: p.Path, Args: slices.Concat(args, p.Flags), LogFile: filepath.Join(p.Dir, name+".log"),
	})
	if err != nil {
		return nil, err
	}
	return &Scheduler{child, metrics}, nil
}

// Usage returns the usage of the scheduler so far.
func (s *Scheduler) Usage() (Usage, error) { return UsageOf(s.PID()) }

// metricsClient does not check certificates: kube-scheduler signs its own, and the benchmark asks
// the loopback interface alone.
var metricsClient = &http.Client{
	Timeout:   10 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // see above
}

// Metrics reads the metrics of the scheduler.
func (s *Scheduler) Metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.MetricsURL, nil)
	if err != nil {
		return nil, err
	}
	response, err := metricsClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", s.MetricsURL, response.Status)
	}
	return ParseMetrics(response.Body)
}

// ParseMetrics reads metrics in the text format of Prometheus.
func ParseMetrics(text io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(text)
}
