// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/livesched/livesched/test/controlplane/process"
)

// dashboardGrace is the time in which the dashboard must stop: it only reads.
const dashboardGrace = 5 * time.Second

// startDashboard runs `kubectl livesched dashboard` until the end, and prints where it is.
func (s *sandbox) startDashboard(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	s.dashboardURL = "http://" + address + "/"
	if s.dashboard, err = process.Start(process.Config{
		Name: "dashboard",
		Path: filepath.Join(s.root, "bin", "kubectl-livesched"),
		Args: []string{"dashboard", "--port", port}, Env: s.environment(),
		LogFile: filepath.Join(s.dir, "dashboard.log"),
	}); err != nil {
		return err
	}
	s.endWhenDead(s.dashboard.Done(), s.dashboard.Err)
	if err := s.dashboard.WaitReady(ctx, process.HTTPReady(s.dashboardURL)); err != nil {
		return err
	}
	s.out.printf("to watch in a browser, open the dashboard:\n%s\n", s.dashboardURL)
	return nil
}
