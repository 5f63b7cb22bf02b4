// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

// sampleFile returns the path of a profile's file in config/samples.
func sampleFile(profile string) string {
	return "livesched_v1alpha1_schedulerprofile_" + profile + ".yaml"
}

const policySampleFile = "livesched_v1alpha1_schedulingpolicy_default.yaml"

// withScoringStrategy returns a profile with another scoring strategy for NodeResourcesFit.
func withScoringStrategy(profile *unstructured.Unstructured, strategy string) (*unstructured.Unstructured, error) {
	profile = profile.DeepCopy()
	configs, _, err := unstructured.NestedSlice(profile.Object, "spec", "pluginConfig")
	if err != nil {
		return nil, err
	}
	for _, config := range configs {
		entry, ok := config.(map[string]any)
		if !ok || entry["name"] != "NodeResourcesFit" {
			continue
		}
		if err := unstructured.SetNestedField(entry, strategy, "args", "scoringStrategy", "type"); err != nil {
			return nil, err
		}
		return profile, unstructured.SetNestedSlice(profile.Object, configs, "spec", "pluginConfig")
	}
	return nil, fmt.Errorf("profile %s has no arguments for NodeResourcesFit to change", profile.GetName())
}

// withScorePlugin returns a profile with one more score plugin.
func withScorePlugin(profile *unstructured.Unstructured, plugin string) (*unstructured.Unstructured, error) {
	profile = profile.DeepCopy()
	path := []string{"spec", "plugins", "score", "enabled"}
	enabled, _, err := unstructured.NestedSlice(profile.Object, path...)
	if err != nil {
		return nil, err
	}
	return profile, unstructured.SetNestedSlice(profile.Object, append(enabled, map[string]any{"name": plugin}),
		path...)
}

// condition returns a condition of the profile's current generation, or nil.
func condition(profile *v1alpha1.SchedulerProfile, kind string) *metav1.Condition {
	found := meta.FindStatusCondition(profile.Status.Conditions, kind)
	if found == nil || found.ObservedGeneration != profile.Generation {
		return nil
	}
	return found
}

// isProgrammed reports whether the current generation of a profile is programmed. It returns an
// error if that will not happen.
func isProgrammed(profile *v1alpha1.SchedulerProfile) (bool, error) {
	if accepted := condition(profile, v1alpha1.ConditionAccepted); accepted != nil &&
		accepted.Status == metav1.ConditionFalse {
		return false, fmt.Errorf("profile %s is not accepted: %s: %s", profile.Name, accepted.Reason, accepted.Message)
	}
	programmed := condition(profile, v1alpha1.ConditionProgrammed)
	if programmed != nil && programmed.Reason == v1alpha1.ReasonBuildFailed {
		return false, fmt.Errorf("profile %s could not be built: %s", profile.Name, programmed.Message)
	}
	if programmed == nil || programmed.Status != metav1.ConditionTrue {
		return false, nil
	}
	if active := profile.Status.Active; active == nil || active.Generation != profile.Generation ||
		active.Revision == "" {
		return false, fmt.Errorf("profile %s is programmed with generation %d, but its status has active: %+v",
			profile.Name, profile.Generation, active)
	}
	return true, nil
}

// isRefused reports whether a profile is not accepted.
func isRefused(profile *v1alpha1.SchedulerProfile) (bool, error) {
	accepted, programmed := condition(profile, v1alpha1.ConditionAccepted),
		condition(profile, v1alpha1.ConditionProgrammed)
	if accepted == nil || programmed == nil {
		return false, nil
	}
	if accepted.Status != metav1.ConditionFalse {
		return false, fmt.Errorf("profile %s has Accepted=%s, though it names a plugin that does not exist",
			profile.Name, accepted.Status)
	}
	return true, nil
}

// applyProfile applies a profile and waits until the applied generation meets the condition. It
// returns the profile and the time since the apply. The watch starts before the apply, so that the
// time does not include the request for the watch.
func (s *sandbox) applyProfile(ctx context.Context, profile *unstructured.Unstructured,
	met func(*v1alpha1.SchedulerProfile) (bool, error)) (*v1alpha1.SchedulerProfile, time.Duration, error) {
	w, err := follow(ctx, s.client, &v1alpha1.SchedulerProfileList{}, client.ObjectKeyFromObject(profile))
	if err != nil {
		return nil, 0, err
	}
	defer w.Stop()
	began := time.Now()
	applied, err := s.apply(ctx, profile)
	if err != nil {
		return nil, 0, err
	}
	var got *v1alpha1.SchedulerProfile
	err = next(ctx, w, func(p *v1alpha1.SchedulerProfile) (bool, error) {
		if p.Generation < applied.GetGeneration() {
			return false, nil
		}
		got = p
		return met(p)
	})
	return got, time.Since(began), err
}
