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

// KubeSchedulerEnv names a kube-scheduler program. Where it is set, specs that are about what
// kube-scheduler does as well run it in the place of livesched, so that what they say can be
// checked.
const KubeSchedulerEnv = "LIVESCHED_TEST_KUBE_SCHEDULER"

// KubeScheduler is what a kube-scheduler is configured with.
type KubeScheduler struct {
	// Profiles are specs of SchedulerProfiles in YAML, by scheduler name.
	Profiles map[string]string
	// Extenders are in YAML as well, none if empty.
	Extenders string
}

// StartKubeScheduler starts a kube-scheduler. dir is for its configuration file, log receives its
// log. The caller calls stop, once.
func (c *Cluster) StartKubeScheduler(program, dir string, configuration KubeScheduler, log io.Writer) (stop func() error, err error) {
	text, err := c.configurationFile(configuration)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler's configuration: %w", err)
	}
	file := filepath.Join(dir, "kube-scheduler.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing kube-scheduler's configuration: %w", err)
	}
	command := exec.Command(program, "--config="+file, "--secure-port=0")
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
