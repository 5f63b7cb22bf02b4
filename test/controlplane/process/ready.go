// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// readyInterval is the time between the checks of WaitReady.
const readyInterval = 50 * time.Millisecond

// WaitReady returns when check succeeds. If the process ends first, it returns the process's
// *ExitError, and ends the context of check. If ctx ends first, it returns the last error of check.
func (p *Process) WaitReady(ctx context.Context, check func(context.Context) error) error {
	whileItRuns, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-whileItRuns.Done():
		}
	}()
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		err := check(whileItRuns)
		select {
		case <-p.done: // if check succeeds, it is another process that is ready
			return p.endedEarly()
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.endedEarly()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w); the end of %s:\n%s", p.cfg.Name, context.Cause(ctx), err,
				p.cfg.LogFile, Tail(p.cfg.LogFile, tailLines))
		case <-ticker.C:
		}
	}
}

func (p *Process) endedEarly() error {
	if exit := p.Err(); exit != nil {
		return exit
	}
	return fmt.Errorf("%s was stopped before it was ready", p.cfg.Name)
}

// HTTPReady returns a check for WaitReady that succeeds if the URL responds with status 200.
func HTTPReady(url string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, resp.Status)
		}
		return nil
	}
}

// Ports that FreePort returns are below those that systems give to outgoing connections, which come
// and go all the time: Linux gives those from 32768 on.
const lowestPort, highestPort = 20000, 32000

// FreePort returns a TCP port of 127.0.0.1 on which no process listens. It does not reserve the
// port: another process can take it before the caller's process does, which then ends and logs the
// error. That is unlikely, since the port is drawn.
func FreePort() (int, error) {
	const tries = 100
	var err error
	for range tries {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("looking for a free port, %d times: %w", tries, err)
}
