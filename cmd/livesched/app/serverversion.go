// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/version"
)

// addServerVersion makes every replica report the version of the API server once, when it starts.
// Nothing waits for that, and nothing depends on it.
func addServerVersion(mgr ctrl.Manager, cfg *rest.Config) error {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = askTimeout
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("creating the client for discovery: %w", err)
	}
	return mgr.Add(everywhere(func(context.Context) error {
		reportServerVersion(mgr.GetLogger(), client)
		return nil
	}))
}

// reportServerVersion sets the metric of the API server's version, and logs a version that
// livesched is not tested with.
func reportServerVersion(logger logr.Logger, client discovery.ServerVersionInterface) {
	const tested = version.OldestTested + " to " + version.NewestTested
	metrics.APIServerVersion.Reset()
	info, err := client.ServerVersion()
	if err != nil {
		logger.Info("The version of the API server is unknown", "tested", tested, "err", err.Error())
		metrics.APIServerVersion.WithLabelValues("", string(version.SkewUnknown)).Set(1)
		return
	}
	skew := version.SkewOf(info.GitVersion)
	if skew != version.SkewTested {
		logger.Info("livesched is not tested with the version of the API server", "version", info.GitVersion, "skew",
			skew, "tested", tested)
	}
	metrics.APIServerVersion.WithLabelValues(info.GitVersion, string(skew)).Set(1)
}
