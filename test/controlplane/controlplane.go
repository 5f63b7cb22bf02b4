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
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/livesched/livesched/test/controlplane/binaries"
	"github.com/livesched/livesched/test/controlplane/process"
)

const (
	defaultStartTimeout = time.Minute
	// stopGrace is for each process. etcd and kube-apiserver take about a second; nothing they hold
	// is worth waiting longer for.
	stopGrace = 15 * time.Second
)

// Options is what to run and where.
type Options struct {
	// Dir keeps data, credentials and logs (<component>.log). It is created if missing and must not
	// be in use by another control plane. Default: a temporary directory, which Stop removes.
	Dir string
	// WithControllerManager runs kube-controller-manager, WithKwok runs kwok for all nodes.
	WithControllerManager, WithKwok bool
	// APIServerFlags and ControllerManagerFlags are appended to ours: a flag that takes one value
	// overrides, one that takes a list adds to it.
	APIServerFlags, ControllerManagerFlags []string
	// StartTimeout is for each component, from its start until it is ready. Default: one minute.
	StartTimeout time.Duration
	// Progress receives a line per component that is built or started. Default: discarded.
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
	stopping bool               // guarded by mu; nothing is started any more

	failOnce sync.Once
	failed   chan struct{} // closed after failure is set
	failure  error
	watchers sync.WaitGroup // a goroutine per child, which ends with the child
}

// Start builds what is missing and starts a control plane. ctx bounds the start alone: a control
// plane runs until Stop, or until the process that started it is gone. If a component does not come
// up everything is stopped again, and the error has the end of that component's log.
func Start(ctx context.Context, opts Options) (_ *ControlPlane, err error) {
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = defaultStartTimeout
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

// programs are in the order in which they are started.
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

// Config is for a client with all rights and without rate limits that a test would notice. The
// caller owns the copy.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the path of a kubeconfig file with all rights.
func (c *ControlPlane) Kubeconfig() string { return c.files.kubeconfig }

// KubeconfigAs writes a kubeconfig file with which a client has the rights of somebody else (the
// API server's impersonation), and returns its path. It stands for a component's own credentials,
// so that a component can be seen to live with its own rights.
func (c *ControlPlane) KubeconfigAs(user string, groups ...string) (string, error) {
	return c.files.writeKubeconfigAs(c.config.Host, user, groups)
}

// Dir has data, credentials and logs.
func (c *ControlPlane) Dir() string { return c.opts.Dir }

// Done is closed when a component has ended that was not told to.
func (c *ControlPlane) Done() <-chan struct{} { return c.failed }

// Err is nil as long as every component runs or was stopped by us; otherwise a *process.ExitError
// of the first one that ended.
func (c *ControlPlane) Err() error {
	select {
	case <-c.failed:
		return c.failure
	default:
		return nil
	}
}

// Suspend keeps kube-controller-manager or another component from running until resume is called,
// as if it hung. It stands for whatever is slow in a cluster: what the component does becomes a
// thing that a test can wait before.
func (c *ControlPlane) Suspend(name string) (resume func() error, err error) {
	child, err := c.running(name)
	if err != nil {
		return nil, fmt.Errorf("suspending %w", err)
	}
	return child.Resume, child.Suspend()
}

// PID is the process id of a component, such as binaries.Etcd.
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
		if child.Name() == name && child.Err() == nil {
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

// Stop ends all components, last started first, and returns when they are gone, with a temporary
// directory. The error says which of them had to be killed or had ended before.
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

// run starts a child and has its end noticed.
func (c *ControlPlane) run(name, path string, args []string) (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil, fmt.Errorf("%s is not started: the control plane was stopped", name)
	}
	child, err := process.Start(process.Config{Name: name, Path: path, Args: args, LogFile: filepath.Join(c.opts.Dir, name+".log")})
	if err != nil {
		return nil, err
	}
	c.children = append(c.children, child)
	return child, nil
}

// watch makes the end of a child that had come up the control plane's failure.
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
