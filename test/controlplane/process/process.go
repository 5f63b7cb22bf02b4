// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package process runs child processes that must not outlive their parent and whose death must not
// go unnoticed.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// tailLines is how much of its log an ExitError shows.
const tailLines = 12

// Config is what to run.
type Config struct {
	// Name is what the process is called in errors.
	Name string
	// Path is the program, Args its arguments without the program's own name.
	Path string
	Args []string
	// LogFile receives standard output and error; it is replaced if it exists.
	LogFile string
}

// Process is a running or ended child. It is the leader of a process group of its own, so that a
// Ctrl-C in the terminal does not reach it and Stop reaches its own children; on Linux the kernel
// kills it when this process dies. Its methods may be called from any goroutine.
type Process struct {
	cfg  Config
	pid  int
	done chan struct{} // closed when the process has ended
	exit error         // what Wait returned; readable once done is closed

	// stopping is set by Stop before the first signal: an end after that was asked for.
	stopping atomic.Bool
}

// ExitError is the end of a process that nobody asked to end.
type ExitError struct {
	Name    string
	LogFile string
	// Exit is why: nil for exit status 0.
	Exit error
	// LogTail is the end of the log at that time.
	LogTail string
}

func (e *ExitError) Error() string {
	how := "with exit status 0"
	if e.Exit != nil {
		how = "with " + e.Exit.Error()
	}
	return fmt.Sprintf("%s ended %s; the end of %s:\n%s", e.Name, how, e.LogFile, e.LogTail)
}

func (e *ExitError) Unwrap() error { return e.Exit }

// Start starts a process and returns once it runs.
func Start(cfg Config) (*Process, error) {
	log, err := os.Create(cfg.LogFile)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", cfg.Name, err)
	}
	cmd := exec.Command(cfg.Path, cfg.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	p := &Process{cfg: cfg, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ties "kill it when its parent dies" to the thread that forked. This one is kept
		// until the child has ended, and thrown away with the goroutine.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.exit = cmd.Wait()
		close(p.done)
	}()
	err = <-started
	closeErr := log.Close() // the child has its own copy
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", cfg.Name, errors.Join(err, closeErr))
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// Name is the name the process was started under.
func (p *Process) Name() string { return p.cfg.Name }

// PID is the process id, also after its end.
func (p *Process) PID() int { return p.pid }

// LogFile is where the process's output goes.
func (p *Process) LogFile() string { return p.cfg.LogFile }

// Done is closed when the process has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil while the process runs and after a Stop; an *ExitError once it has ended by itself.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.stopping.Load() {
		return nil
	}
	return &ExitError{Name: p.cfg.Name, LogFile: p.cfg.LogFile, Exit: p.exit, LogTail: Tail(p.cfg.LogFile, tailLines)}
}

// Suspend keeps the process from running until Resume, as if its machine hung. Children of it run
// on.
func (p *Process) Suspend() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a suspended process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(signal syscall.Signal) error {
	select {
	case <-p.done: // its id may be somebody else's by now
		return fmt.Errorf("%s has ended and takes no signals", p.cfg.Name)
	default:
	}
	if err := syscall.Kill(p.pid, signal); err != nil {
		return fmt.Errorf("sending %s to %s: %w", signal, p.cfg.Name, err)
	}
	return nil
}

// Stop asks the process to end, kills it when it has not done so after the grace period, and
// returns when it is gone, children included. The error says that it had to be killed or had ended
// by itself before. A second Stop returns nil.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Err(); err != nil {
		p.stopping.Store(true) // said once
		return err
	}
	if p.stopping.Swap(true) {
		<-p.done
		return nil
	}
	// The group is signalled rather than the process. It can be gone already, which Done tells.
	_ = syscall.Kill(-p.pid, syscall.SIGTERM)
	_ = syscall.Kill(-p.pid, syscall.SIGCONT) // a suspended one would not see it
	timer := time.NewTimer(grace)
	defer timer.Stop()
	var err error
	select {
	case <-p.done:
	case <-timer.C:
		err = fmt.Errorf("%s did not end within %s of SIGTERM and was killed; its log is %s", p.cfg.Name, grace, p.cfg.LogFile)
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // whatever of the group is left; nothing, as a rule
	<-p.done
	return err
}
