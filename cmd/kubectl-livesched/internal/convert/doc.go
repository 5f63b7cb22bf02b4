// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert converts the configuration of kube-scheduler to SchedulerProfiles and
// SchedulingPolicies. It accepts
//
//   - KubeSchedulerConfigurations of kubescheduler.config.k8s.io/v1, v1beta3, v1beta2 and v1beta1;
//   - legacy policies of kube-scheduler up to 1.22 (kind Policy, apiVersion v1);
//   - objects that contain either of them: ConfigMaps, with any key, and SchedulerConfigurations of
//     AKS.
//
// Convert is a pure function. It reads its input field by field, and remarks on each field that has
// no counterpart or another meaning. It writes out the defaults that have changed since the version
// of a configuration, so that they remain in effect.
package convert
