// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/controlplane/process"
	"github.com/livesched/livesched/test/network"
)

// asCommand is an environment variable that makes the test binary the livesched command.
const asCommand = "LIVESCHED_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(app.Main(os.Args[1:], nil))
	}
	os.Exit(m.Run())
}

// crew runs the replicas as processes, each behind a proxy of its own. Each has a slot, in which
// another one follows when it ends.
type crew struct {
	counts *counts
	// programs has the program of each slot, and flags has flags that are not known to all versions
	// of livesched.
	programs [replicas]string
	flags    [replicas][]string
	// server is the address of the API server, kubeconfig the file with the rights of livesched.
	server, kubeconfig string
	// dir is for kubeconfigs and logs.
	dir string

	// turn is held while members are started and ended.
	turn sync.Mutex

	mu       sync.Mutex // guards what follows
	slots    [replicas]*member
	started  int
	problems []string
}

// member is one livesched in a process of its own.
type member struct {
	*process.Process
	number  int
	link    *network.Proxy
	probes  string // host:port of /livez and /readyz
	metrics string // host:port of /metrics

	// busy is held by the actor that suspends the process or impairs its link.
	busy sync.Mutex
}

// lockedStart starts a member in a slot.
func (c *crew) lockedStart(slot int) error {
	c.mu.Lock()
	c.started++
	m := &member{number: c.started}
	c.mu.Unlock()
	var err error
	if m.link, err = network.NewProxy(c.server); err != nil {
		return err
	}
	name := fmt.Sprintf("replica-%d", m.number)
	kubeconfig := filepath.Join(c.dir, name+".kubeconfig")
	if err := m.link.Kubeconfig(c.kubeconfig, kubeconfig); err != nil {
		return err
	}
	for _, address := range []*string{&m.probes, &m.metrics} {
		port, err := process.FreePort()
		if err != nil {
			return err
		}
		*address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	m.Process, err = process.Start(process.Config{
		Name: name, Path: c.programs[slot], LogFile: filepath.Join(c.dir, name+".log"),
		Env: []string{asCommand + "=1", "GORACE=halt_on_error=1"},
		Args: append([]string{
			"--kubeconfig=" + kubeconfig,
			"--health-probe-bind-address=" + m.probes, "--metrics-bind-address=" + m.metrics,
			"--leader-election-namespace=kube-system", "--leader-election-name=churn",
			// As short as a busy machine allows.
			"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms",
			"--profile-build-timeout=20s",
		}, c.flags[slot]...),
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots[slot] = m
	return nil
}

// lockedEnd ends the member in a slot with SIGTERM or SIGKILL, unless it has ended by itself.
func (c *crew) lockedEnd(slot int, kill bool) {
	c.mu.Lock()
	m := c.slots[slot]
	c.slots[slot] = nil
	c.mu.Unlock()
	if m == nil {
		return
	}
	defer m.link.Stop()
	var err error
	if err = m.Err(); err == nil && kill {
		m.Kill()
	} else if err == nil {
		err = m.Stop(stopTimeout)
	}
	if err != nil && !c.explained(err) {
		c.problem("%v", err)
	}
	if text, err := os.ReadFile(m.LogFile()); err != nil {
		c.problem("reading the log of replica %d: %v", m.number, err)
	} else if i := strings.Index(string(text), "WARNING: DATA RACE"); i >= 0 {
		c.problem("replica %d: %.6000s", m.number, text[i:])
	}
}

// explained reports whether a process may end like this. livesched ends with status 1 and a message
// when it loses its lease, or when an earlier version starts while it cannot reach the API server.
// A panic ends it with status 2, a data race with 66.
func (c *crew) explained(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return false
	}
	what := "replicas that ended by themselves"
	if strings.Contains(err.Error(), "leader election lost") {
		what = "replicas that lost the lease"
	}
	c.counts.add(what, 1)
	return true
}

func (c *crew) problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *crew) verdict() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.problems)
}

// stop ends all members.
func (c *crew) stop() {
	c.turn.Lock()
	defer c.turn.Unlock()
	for slot := range c.slots {
		c.lockedEnd(slot, false)
	}
}

// restart replaces a member with a new one.
func (c *crew) restart(slot int, kill bool) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.lockedEnd(slot, kill)
	return c.lockedStart(slot)
}

// revive fills the slots of members that have ended by themselves.
func (c *crew) revive() error {
	c.turn.Lock()
	defer c.turn.Unlock()
	for slot := range c.slots {
		c.mu.Lock()
		m := c.slots[slot]
		c.mu.Unlock()
		if m != nil {
			select {
			case <-m.Done():
			default:
				continue
			}
		}
		c.lockedEnd(slot, false)
		if err := c.lockedStart(slot); err != nil {
			return err
		}
	}
	return nil
}

func (c *crew) all() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.slots[:]), func(m *member) bool { return m == nil })
}

// leader returns the member that schedules, nil if there is none at the moment.
func (c *crew) leader(ctx context.Context) *member {
	for _, m := range c.all() {
		if value, err := m.metric(ctx, "leader_election_master_status", nil); err == nil && value == 1 {
			return m
		}
	}
	return nil
}

// crewCare revives and probes. It acts all the time.
var crewCare = act{"care for replicas", 300 * time.Millisecond, func(ctx context.Context, a *actor) error {
	for _, m := range a.crew.all() {
		if code, body := fetch(ctx, "http://"+m.probes+"/livez"); code != 0 && code != 200 {
			a.crew.problem("livez of replica %d: %d: %s", m.number, code, body)
		}
	}
	return a.crew.revive()
}}
