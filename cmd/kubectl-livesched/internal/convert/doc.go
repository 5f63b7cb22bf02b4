// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert turns kube-scheduler's configuration into SchedulerProfiles and
// SchedulingPolicies:
//
//   - KubeSchedulerConfigurations of kubescheduler.config.k8s.io/v1, v1beta3, v1beta2 and v1beta1;
//   - legacy policies: kind Policy, apiVersion v1, of kube-scheduler 1.22 and before;
//   - what holds either of them: ConfigMaps, whatever the key, and SchedulerConfigurations of AKS.
//
// Convert is a pure function. It reads its input field by field, and remarks on each that has no
// counterpart or that means something else. Defaults that have changed since the version of a
// configuration are written out, so that they stay.
package convert
