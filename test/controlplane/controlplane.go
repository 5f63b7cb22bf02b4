// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/livesched/livesched/test/controlplane/binaries"
	"github.com/livesched/livesched/test/controlplane/process"
)

const (
	defaultStartTimeout = time.Minute
	// stopGrace is the time in which each process must stop. etcd and kube-apiserver take about a
	// second, and they hold nothing that is worth a longer wait.
	stopGrace = 15 * time.Second
)

// Options configures a control plane.
type Options struct {
	// Dir holds data, credentials and logs (<component>.log). It is created if missing and must not
	// be in use by another control plane. Default: a temporary directory, which Stop removes.
	Dir string
	// WithControllerManager runs kube-controller-manager, WithKwok runs kwok for all nodes.
	WithControllerManager, WithKwok bool
	// WithPodGroups serves the PodGroups of Kubernetes, a feature that is off by default. Since
	// Kubernetes 1.37, Jobs can have them, too, they can have ResourceClaims, and devices can take
	// from the resources of their node. API servers before 1.36 run without PodGroups.
	WithPodGroups bool
	// APIServerFlags and ControllerManagerFlags are appended to the default flags. A flag with one
	// value overrides the default, and a flag with a list adds to it.
	APIServerFlags, ControllerManagerFlags []string
	// Processors is the number of processors that each component uses at the same time. Default: 1,
	// because components that share a machine with several suites need a fifth less CPU time then.
	Processors int
	// StartTimeout is the time in which each component must be ready. Default: one minute.
	StartTimeout time.Duration
	// Progress receives one line for each component that is built or started. Default: discarded.
	Progress io.Writer
}

// ControlPlane is a running control plane. Its methods may be called from any goroutine, Stop once.
type ControlPlane struct {
	opts    Options
	ownsDir bool
	files   *credentials
	config  *rest.Config

	mu       sync.Mutex
	children []*process.Process // guarded by mu; in order of start
	stopping bool               // guarded by mu; if true, no component is started any more
	// restarts start components again at their addresses, by name. Guarded by mu.
	restarts map[string]func(context.Context) error

	failOnce sync.Once
	failed   chan struct{} // closed after failure is set
	failure  error
	watchers sync.WaitGroup // one goroutine for each child, which ends with the child
}

// Start builds the missing programs and starts a control plane. ctx bounds only the start: a
// control plane runs until Stop, or until the process that started it ends. If a component does not
// become ready, Start stops everything again, and the error contains the end of that component's
// log.
func Start(ctx context.Context, opts Options) (_ *ControlPlane, err error) {
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = defaultStartTimeout
	}
	if opts.Processors == 0 {
		opts.Processors = 1
	}
	c := &ControlPlane{opts: opts, failed: make(chan struct{})}
	defer func() {
		if err != nil {
			err = fmt.Errorf("control plane: %w", err)
			if stopErr := c.Stop(); stopErr != nil && c.Err() == nil {
				err = errors.Join(err, stopErr)
			}
		}
	}()
	if err := c.prepareDir(); err != nil {
		return nil, err
	}
	set, err := binaries.Ensure(ctx, binaries.Config{Progress: opts.Progress}, c.programs()...)
	if err != nil {
		return nil, err
	}
	if c.files, err = writeCredentials(c.opts.Dir); err != nil {
		return nil, err
	}
	for _, name := range c.programs() {
		if err := c.startComponent(ctx, name, set.Paths[name]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *ControlPlane) prepareDir() (err error) {
	if c.opts.Dir == "" {
		c.opts.Dir, err = os.MkdirTemp("", "livesched-controlplane-")
		c.ownsDir = err == nil
		return err
	}
	if c.opts.Dir, err = filepath.Abs(c.opts.Dir); err != nil {
		return err
	}
	return os.MkdirAll(c.opts.Dir, 0o755)
}

// programs returns the programs in the order in which they are started.
func (c *ControlPlane) programs() []string {
	names := []string{binaries.Etcd, binaries.APIServer}
	if c.opts.WithControllerManager {
		names = append(names, binaries.ControllerManager)
	}
	if c.opts.WithKwok {
		names = append(names, binaries.Kwok)
	}
	return names
}

func (c *ControlPlane) startComponent(ctx context.Context, name, path string) error {
	switch name {
	case binaries.Etcd:
		return c.startEtcd(ctx, path)
	case binaries.APIServer:
		return c.startAPIServer(ctx, path)
	case binaries.ControllerManager:
		return c.startControllerManager(ctx, path)
	case binaries.Kwok:
		return c.startKwok(ctx, path)
	default:
		return fmt.Errorf("%s is not a component of a control plane", name)
	}
}

// Config returns a configuration for clients with all rights and with rate limits that are too high
// for a test to notice. The caller owns the copy.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of a kubeconfig file with all rights.
func (c *ControlPlane) Kubeconfig() string { return c.files.kubeconfig }

// KubeconfigAs writes a kubeconfig file for a client that impersonates another user at the API
// server, and returns its path. It replaces a component's own credentials, so that a test can show
// that the component's own rights are sufficient.
func (c *ControlPlane) KubeconfigAs(user string, groups ...string) (string, error) {
	return c.files.writeKubeconfigAs(c.config.Host, user, groups)
}

// Dir returns the directory with data, credentials and logs.
func (c *ControlPlane) Dir() string { return c.opts.Dir }

// Done returns a channel that is closed when a component has ended without a request to stop.
func (c *ControlPlane) Done() <-chan struct{} { return c.failed }

// Err returns nil while every component runs, and after Stop. Otherwise it returns a
// *process.ExitError for the first component that ended.
func (c *ControlPlane) Err() error {
	select {
	case <-c.failed:
		return c.failure
	default:
		return nil
	}
}

// Suspend keeps kube-controller-manager or another component from running until resume is called,
// as if it hung. It simulates slow components, so that a test can act before the component does.
func (c *ControlPlane) Suspend(name string) (resume func() error, err error) {
	child, err := c.running(name)
	if err != nil {
		return nil, fmt.Errorf("suspending %w", err)
	}
	return child.Resume, child.Suspend()
}

// End ends a component: with SIGTERM, or with SIGKILL if kill is set or SIGTERM takes too long.
// restart starts it again at the same address and with the same data, and returns when it is ready.
// Until then the control plane counts as complete.
func (c *ControlPlane) End(name string, kill bool) (restart func(context.Context) error, err error) {
	child, err := c.running(name)
	if err != nil {
		return nil, fmt.Errorf("ending %w", err)
	}
	c.mu.Lock()
	restart = c.restarts[name]
	c.mu.Unlock()
	if kill {
		child.Kill()
	} else {
		_ = child.Stop(stopGrace) // it may serve requests for longer, and is killed then
	}
	return restart, nil
}

func (c *ControlPlane) setRestart(name string, restart func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restarts == nil {
		c.restarts = map[string]func(context.Context) error{}
	}
	c.restarts[name] = restart
}

// PID returns the process ID of a component, such as binaries.Etcd.
func (c *ControlPlane) PID(name string) (int, error) {
	child, err := c.running(name)
	if err != nil {
		return 0, fmt.Errorf("looking for %w", err)
	}
	return child.PID(), nil
}

// running returns the process of a component. The error begins with the component's name.
func (c *ControlPlane) running(name string) (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, child := range c.children {
		if child.Name() != name {
			continue
		}
		select {
		case <-child.Done():
		default:
			return child, nil
		}
	}
	return nil, fmt.Errorf("%s: it does not run", name)
}

// InstallCRDs creates or updates the CustomResourceDefinitions in the YAML files of a directory and
// waits until they are served.
func (c *ControlPlane) InstallCRDs(ctx context.Context, dir string) error {
	opts := envtest.CRDInstallOptions{Paths: []string{dir}, ErrorIfPathMissing: true, MaxTime: c.opts.StartTimeout}
	if deadline, ok := ctx.Deadline(); ok {
		opts.MaxTime = min(opts.MaxTime, time.Until(deadline))
	}
	if _, err := envtest.InstallCRDs(c.Config(), opts); err != nil {
		return fmt.Errorf("installing the CRDs of %s: %w", dir, err)
	}
	return nil
}

// Stop ends all components, in the reverse order of their start. It returns when all are gone and a
// temporary directory is removed. The error names those that had to be killed or had ended before.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	c.stopping = true
	children := slices.Clone(c.children)
	c.mu.Unlock()
	var errs []error
	for _, child := range slices.Backward(children) {
		errs = append(errs, child.Stop(stopGrace))
	}
	c.watchers.Wait()
	if c.ownsDir {
		errs = append(errs, os.RemoveAll(c.opts.Dir))
	}
	return errors.Join(errs...)
}

// run starts a child process.
func (c *ControlPlane) run(name, path string, args []string) (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil, fmt.Errorf("%s is not started: the control plane was stopped", name)
	}
	child, err := process.Start(process.Config{
		Name:    name,
		Path:    path,
		Args:    args,
		Env:     []string{"GOMAXPROCS=" + strconv.Itoa(c.opts.Processors)},
		LogFile: filepath.Join(c.opts.Dir, name+".log"),
	})
	if err != nil {
		return nil, err
	}
	c.children = append(c.children, child)
	return child, nil
}

// forgetEnded forgets a child that has ended before it was ready. The caller returns the reason,
// and Stop does not return it again: another attempt, at another port, may have succeeded since.
func (c *ControlPlane) forgetEnded(child *process.Process) {
	select {
	case <-child.Done():
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.children = slices.DeleteFunc(c.children, func(p *process.Process) bool { return p == child })
}

// watch reports the end of a child that had become ready as the control plane's failure.
func (c *ControlPlane) watch(child *process.Process) {
	c.watchers.Go(func() {
		<-child.Done()
		if err := child.Err(); err != nil {
			c.failOnce.Do(func() {
				c.failure = err
				close(c.failed)
			})
		}
	})
}
