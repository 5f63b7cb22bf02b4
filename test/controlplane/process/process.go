// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package process runs child processes that do not outlive their parent, and reports their death.
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

// tailLines is the number of log lines that an ExitError shows.
const tailLines = 12

// Config describes a process.
type Config struct {
	// Name is the name of the process in errors.
	Name string
	// Path is the program, and Args are its arguments without the program's own name.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// LogFile receives standard output and error; it is replaced if it exists.
	LogFile string
}

// Process is a running or ended child. It leads a process group of its own: a Ctrl-C in the
// terminal does not reach it, and Stop reaches its children. On Linux, the kernel kills it when
// this process dies. Its methods may be called from any goroutine.
type Process struct {
	cfg  Config
	pid  int
	done chan struct{} // closed when the process has ended
	exit error         // the result of Wait; readable once done is closed

	// stopping is set by Stop and Kill before the first signal. An end after that is not an error.
	stopping atomic.Bool
}

// ExitError reports that a process ended without a call of Stop.
type ExitError struct {
	Name    string
	LogFile string
	// Exit is the reason, or nil for exit status 0.
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
	cmd.Env = append(os.Environ(), cfg.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	p := &Process{cfg: cfg, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ties the death signal to the thread that forked. The goroutine keeps this thread
		// until the child has ended. The thread ends with the goroutine.
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

// Name returns the name from the configuration.
func (p *Process) Name() string { return p.cfg.Name }

// PID returns the process ID, also after the end of the process.
func (p *Process) PID() int { return p.pid }

// LogFile returns the path of the process's log.
func (p *Process) LogFile() string { return p.cfg.LogFile }

// Done returns a channel that is closed when the process has ended for any reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns nil while the process runs and after Stop or Kill, and an *ExitError once the process
// has ended by itself.
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

// Suspend keeps the process from running until Resume, as if its machine hung. Its children
// continue to run. On Linux, Suspend returns when all threads of the process have stopped.
func (p *Process) Suspend() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		stopped, err := hasStopped(p.pid)
		if err != nil {
			return fmt.Errorf("suspending %s: %w", p.cfg.Name, err)
		}
		if stopped {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it stopped", p.cfg.Name)
		case <-time.After(time.Millisecond):
		}
	}
}

// Resume lets a suspended process continue.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(signal syscall.Signal) error {
	select {
	case <-p.done: // another process may have its ID by now
		return fmt.Errorf("%s has ended and takes no signals", p.cfg.Name)
	default:
	}
	if err := syscall.Kill(p.pid, signal); err != nil {
		return fmt.Errorf("sending %s to %s: %w", signal, p.cfg.Name, err)
	}
	return nil
}

// Kill ends the process and its children at once, and returns when it is gone. As after Stop, its
// end is not an error.
func (p *Process) Kill() {
	p.stopping.Store(true)
	// If the group is already gone, Done is closed.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.done
}

// Stop asks the process to end, kills it after the grace period, and returns when it and its
// children are gone. The error reports that the process had to be killed or had ended by itself
// before. A second Stop returns nil.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Err(); err != nil {
		p.stopping.Store(true) // the error is returned only once
		return err
	}
	if p.stopping.Swap(true) {
		<-p.done
		return nil
	}
	// The signal goes to the whole process group. If the group is already gone, Done is closed.
	_ = syscall.Kill(-p.pid, syscall.SIGTERM)
	_ = syscall.Kill(-p.pid, syscall.SIGCONT) // a suspended process would not handle the signal
	timer := time.NewTimer(grace)
	defer timer.Stop()
	var err error
	select {
	case <-p.done:
	case <-timer.C:
		err = fmt.Errorf("%s did not end within %s of SIGTERM and was killed; its log is %s", p.cfg.Name, grace,
			p.cfg.LogFile)
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // the rest of the group, usually none
	<-p.done
	return err
}
