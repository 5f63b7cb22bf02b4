// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// KubeSchedulerEnv names the environment variable with the path of a kube-scheduler program. If it
// is set, specs about behavior that kube-scheduler shares run kube-scheduler instead of livesched,
// which checks their expectations.
const KubeSchedulerEnv = "LIVESCHED_TEST_KUBE_SCHEDULER"

// KubeScheduler is the configuration of a kube-scheduler.
type KubeScheduler struct {
	// Profiles are specs of SchedulerProfiles in YAML, by scheduler name.
	Profiles map[string]string
	// Extenders is a list of extenders in YAML, or empty.
	Extenders string
	// FeatureGates is the value of the flag, or empty.
	FeatureGates string
}

// StartKubeScheduler starts a kube-scheduler. It writes the configuration file into dir and the log
// to log. The caller must call stop once.
func (c *Cluster) StartKubeScheduler(program, dir string, configuration KubeScheduler,
	log io.Writer) (stop func() error, err error) {
	text, err := c.configurationFile(configuration)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler's configuration: %w", err)
	}
	file := filepath.Join(dir, "kube-scheduler.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing kube-scheduler's configuration: %w", err)
	}
	command := exec.Command(program, "--config="+file, "--secure-port=0", "--feature-gates="+configuration.FeatureGates)
	command.Stderr = log
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting kube-scheduler: %w", err)
	}
	return func() error {
		if err := command.Process.Kill(); err != nil {
			return fmt.Errorf("kube-scheduler ended by itself: %w", err)
		}
		if err := command.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			return fmt.Errorf("kube-scheduler ended by itself: %w", err)
		}
		return nil
	}, nil
}

func (c *Cluster) configurationFile(configuration KubeScheduler) ([]byte, error) {
	var profiles []map[string]any
	for name, spec := range configuration.Profiles {
		profile := map[string]any{}
		if err := yaml.Unmarshal([]byte(spec), &profile); err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
		profile["schedulerName"] = name
		profiles = append(profiles, profile)
	}
	var extenders []any
	if err := yaml.Unmarshal([]byte(configuration.Extenders), &extenders); err != nil {
		return nil, fmt.Errorf("extenders: %w", err)
	}
	return yaml.Marshal(map[string]any{
		"apiVersion":       "kubescheduler.config.k8s.io/v1",
		"kind":             "KubeSchedulerConfiguration",
		"leaderElection":   map[string]any{"leaderElect": false},
		"clientConnection": map[string]any{"kubeconfig": c.Kubeconfig(), "qps": 1000, "burst": 2000},
		"profiles":         profiles,
		"extenders":        extenders,
	})
}
