// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics serves kube-scheduler's metrics and livesched's own on the manager's metrics
// endpoint.
//
// Two registries exist in the process. controller-runtime's
// (sigs.k8s.io/controller-runtime/pkg/metrics) is the one that the manager serves:
// controller_runtime_*, workqueue_*, rest_client_requests_total, leader_election_*, go_* and
// process_*. The plugins and everything else that comes from Kubernetes count in component-base's
// legacyregistry: scheduler_*, under the names, labels and buckets of kube-scheduler, so that its
// dashboards work. Each of them registers the Go and process collectors, so that the two cannot
// simply be appended to each other.
//
// [Register] makes the endpoint serve controller-runtime's registry in full, and every metric
// family of legacyregistry whose name the first does not have when metrics are read. A family is
// never merged from both: client-go and workqueue know one provider per process, so one of the two
// copies is always empty, and empty families are not gathered.
//
// livesched's own metrics start with livesched_ and live in controller-runtime's registry.
package metrics
