// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins/gpufragmentation"
)

// The policies.
const (
	// Random takes any node.
	Random = "Random"
	// Default are the default plugins, which spread pods by CPU and memory.
	Default = "default"
	// MostAllocated packs pods by CPU and memory, as NodeResourcesFit can.
	MostAllocated = "MostAllocated"
	// Fragmentation is the plugin GPUFragmentation alone, and Packed prefers, of the nodes that are
	// equal to it, those whose GPUs are allocated most.
	Fragmentation = "GPUFragmentation"
	Packed        = "GPUFragmentation+GPUMostAllocated"
)

// Policies are all policies.
var Policies = []string{Random, Default, MostAllocated, Fragmentation, Packed}

// fragmentationWeight is the weight of GPUFragmentation in Packed: a difference of 1 counts more
// than the other score.
const fragmentationWeight = 101

// randomWeight is the weight of the numbers in Random. The sum of the weights does not exceed that
// up to which the fast path keeps nodes sorted.
const randomWeight = 70

// randomTie is the plugin that tells nodes apart to which Random gives the same number: there are
// only 101 scores.
const randomTie = "RandomTie"

// profileOf returns the profile of a policy. Typical pods are those of the trace.
func profileOf(policy string, t *trace) (configv1.KubeSchedulerProfile, error) {
	profile := configv1.KubeSchedulerProfile{SchedulerName: ptr.To(schedulerName), Plugins: &configv1.Plugins{
		// Pods that fit nowhere leave: nobody is evicted.
		PostFilter: configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "*"}}},
	}}
	switch policy {
	case Random:
		score(&profile, Random, randomWeight)
		score(&profile, randomTie, 1)
	case MostAllocated:
		score(&profile, names.NodeResourcesFit, 1)
	case Fragmentation:
		score(&profile, gpufragmentation.Name, 1)
	case Packed:
		score(&profile, gpufragmentation.Name, fragmentationWeight)
		score(&profile, gpufragmentation.MostAllocatedName, 1)
	}
	args := map[string]any{}
	if policy == MostAllocated {
		args[names.NodeResourcesFit] = map[string]any{"scoringStrategy": map[string]any{"type": MostAllocated}}
	}
	if policy == Fragmentation || policy == Packed {
		args[gpufragmentation.Name] = argsFor(t)
	}
	if policy == Packed {
		args[gpufragmentation.MostAllocatedName] = gpus
	}
	for name, value := range args {
		raw, err := json.Marshal(value)
		if err != nil {
			return profile, err
		}
		profile.PluginConfig = append(profile.PluginConfig, configv1.PluginConfig{Name: name,
			Args: runtime.RawExtension{Raw: raw}})
	}
	return profile, nil
}

// score adds a plugin to those that score, instead of the default ones.
func score(profile *configv1.KubeSchedulerProfile, name string, weight int32) {
	plugins := profile.Plugins
	none := []configv1.Plugin{{Name: "*"}}
	plugins.PreScore.Disabled, plugins.Score.Disabled = none, none
	plugins.Score.Enabled = append(plugins.Score.Enabled, configv1.Plugin{Name: name, Weight: ptr.To(weight)})
	if !strings.HasPrefix(name, Random) {
		plugins.PreScore.Enabled = append(plugins.PreScore.Enabled, configv1.Plugin{Name: name})
	}
}

// popularity is the share of all pods that are typical, as in the paper's experiments.
const popularity = 0.95

// gpus says what the GPUs are.
var gpus = gpufragmentation.Devices{Driver: driver, Capacity: capacity}

// argsFor returns the arguments of GPUFragmentation for the pods of a trace.
func argsFor(t *trace) *gpufragmentation.Args {
	args := &gpufragmentation.Args{Devices: gpus, ModelAttribute: modelAttribute}
	for _, kind := range t.popular(popularity) {
		pod := gpufragmentation.TypicalPod{MilliCPU: kind.milliCPU, GPUs: int(kind.gpus), Weight: kind.pods}
		if kind.gpus > 0 {
			pod.MilliGPU = kind.milliGPU
		}
		if kind.models != "" {
			pod.Models = strings.Split(kind.models, "|")
		}
		args.TypicalPods = append(args.TypicalPods, pod)
	}
	return args
}

// randomScore gives each node a number for each pod, which depends on the seed.
type randomScore struct {
	name string
	seed uint64
}

// registry returns the plugins of the policy Random.
func registry(seed uint64) framework.Registry {
	all := framework.Registry{}
	for _, name := range []string{Random, randomTie} {
		all[name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return randomScore{name, seed}, nil
		}
	}
	return all
}

func (r randomScore) Name() string { return r.name }

func (r randomScore) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	node fwk.NodeInfo) (int64, *fwk.Status) {
	hash := fnv.New64a()
	fmt.Fprint(hash, r.name, " ", r.seed, " ", pod.Name, " ", node.Node().Name)
	return int64(hash.Sum64() >> 32 % (uint64(fwk.MaxScore) + 1)), nil
}

func (randomScore) ScoreExtensions() fwk.ScoreExtensions { return nil }

// NodeLocalKey makes the fast path keep the scores of a pod.
func (randomScore) NodeLocalKey(pod *corev1.Pod) (string, bool) { return pod.Name, true }
