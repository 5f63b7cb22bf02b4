// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/livesched/livesched/test/leaks"
)

// parentEnv makes the test binary act as a parent that dies: see TestMain.
const parentEnv = "LIVESCHED_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		playParent(dir)
		return
	}
	SetDefaultEventuallyTimeout(time.Minute)
	leaks.Main(m)
}

// playParent starts a child, prints its PID, and waits to be killed.
func playParent(dir string) {
	p, err := Start(Config{Name: "child", Path: "sleep", Args: []string{"1000"},
		LogFile: filepath.Join(dir, "child.log")})
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, p.PID())
	<-p.Done()
}

func start(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Config{Name: "child", Path: "/bin/sh", Args: []string{"-c", script},
		LogFile: filepath.Join(t.TempDir(), "child.log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(time.Second) })
	return p
}

// alive returns false also for a process that has ended but whose new parent has not yet waited for
// it.
func alive(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
		strings.Contains(string(stat), ") Z ") {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

func TestProcess(t *testing.T) {
	t.Run("a process that is stopped ends without an error, and its own children with it", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "sleep 1000 & echo $!; wait")
		var grandchild int
		g.Eventually(func() (err error) {
			grandchild, err = strconv.Atoi(strings.TrimSpace(Tail(p.LogFile(), 1)))
			return err
		}).Should(Succeed())
		g.Expect(p.Err()).NotTo(HaveOccurred())
		g.Expect(p.Stop(10 * time.Second)).To(Succeed())
		g.Expect(p.Done()).To(BeClosed())
		g.Expect(p.Err()).NotTo(HaveOccurred(), "its end was asked for")
		g.Expect(alive(p.PID())).To(BeFalse())
		g.Eventually(func() bool { return alive(grandchild) }).Should(BeFalse())
		g.Expect(p.Stop(time.Second)).To(Succeed(), "a second time")
	})
	t.Run("a process that does not heed SIGTERM is killed after the grace period", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
		g.Eventually(func() string { return Tail(p.LogFile(), 1) }).Should(ContainSubstring("ready"))
		g.Expect(p.Stop(50 * time.Millisecond)).To(MatchError(ContainSubstring("was killed")))
		g.Expect(alive(p.PID())).To(BeFalse())
	})
	t.Run("a killed process ends at once, without an error, also if it is suspended", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "trap '' TERM; while :; do sleep 0.05; done")
		g.Expect(p.Suspend()).To(Succeed())
		p.Kill()
		g.Expect(p.Err()).NotTo(HaveOccurred())
		g.Expect(alive(p.PID())).To(BeFalse())
		g.Expect(p.Stop(time.Second)).To(Succeed())
	})
	t.Run("a suspended process does nothing until it is resumed, and can be stopped meanwhile", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "while :; do echo tick; sleep 0.01; done")
		size := func() int64 {
			info, err := os.Stat(p.LogFile())
			g.Expect(err).NotTo(HaveOccurred())
			return info.Size()
		}
		g.Eventually(size).Should(BeNumerically(">", 0))
		g.Expect(p.Suspend()).To(Succeed())
		before := size()
		g.Consistently(size).WithTimeout(100 * time.Millisecond).Should(Equal(before))
		g.Expect(p.Resume()).To(Succeed())
		g.Eventually(size).Should(BeNumerically(">", before))
		g.Expect(p.Suspend()).To(Succeed())
		g.Expect(p.Stop(10*time.Second)).To(Succeed(), "it is not killed")
		g.Expect(p.Suspend()).To(MatchError("child has ended and takes no signals"))
	})
	t.Run("a death is reported with the exit status and the end of the log", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "for i in $(seq 100); do echo line $i; done; echo out of luck >&2; exit 3")
		g.Eventually(p.Done()).Should(BeClosed())
		var exit *ExitError
		g.Expect(errors.As(p.Err(), &exit)).To(BeTrue())
		g.Expect(exit.Error()).
			To(And(ContainSubstring("child ended with exit status 3"), ContainSubstring(p.LogFile()),
				HaveSuffix("  line 100\n  out of luck")))
		g.Expect(exit.LogTail).NotTo(ContainSubstring("line 80"))
		g.Expect(p.Stop(time.Second)).To(MatchError(ContainSubstring("exit status 3")))
	})
	t.Run("an end with status 0 that nobody asked for is a death too", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "exit 0")
		g.Eventually(p.Done()).Should(BeClosed())
		g.Expect(p.Err()).To(MatchError(And(ContainSubstring("exit status 0"), ContainSubstring("(empty)"))))
	})
	t.Run("a program that does not exist is an error of Start", func(t *testing.T) {
		g := NewWithT(t)
		_, err := Start(Config{Name: "child", Path: "/does/not/exist", LogFile: filepath.Join(t.TempDir(), "log")})
		g.Expect(err).To(MatchError(And(ContainSubstring("starting child"), ContainSubstring("/does/not/exist"))))
	})
}

func TestAProcessThatHasEndedIsNotReady(t *testing.T) {
	t.Run("while the check hangs", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "read line; exit 3")
		err := p.WaitReady(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		g.Expect(err).To(MatchError(ContainSubstring("child ended with exit status 3")))
	})
	t.Run("when another process passes the check", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "exit 3")
		err := p.WaitReady(t.Context(), func(context.Context) error {
			<-p.Done()
			return nil
		})
		g.Expect(err).To(MatchError(ContainSubstring("child ended with exit status 3")))
	})
	t.Run("after it was stopped", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "sleep 1000")
		err := p.WaitReady(t.Context(), func(context.Context) error {
			p.Kill()
			return nil
		})
		g.Expect(err).To(MatchError("child was stopped before it was ready"))
	})
	t.Run("one that runs is, once the check succeeds", func(t *testing.T) {
		g := NewWithT(t)
		p := start(t, "sleep 1000")
		checks := 0
		g.Expect(p.WaitReady(t.Context(), func(context.Context) error {
			if checks++; checks < 3 {
				return errors.New("not yet")
			}
			return nil
		})).To(Succeed())
		g.Expect(checks).To(Equal(3))
	})
}

func TestTailReadsTheEndOfALongFile(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "log")
	g.Expect(os.WriteFile(path, []byte(strings.Repeat("0123456789\n", 10_000)+"the end\n"), 0o644)).To(Succeed())
	g.Expect(Tail(path, 2)).To(Equal("  0123456789\n  the end"))
	g.Expect(strings.Count(Tail(path, 1_000_000), "\n")).To(BeNumerically("<", 7_000), "reading is bounded")
	g.Expect(os.WriteFile(path, []byte("short\n"+strings.Repeat("x", 5_000)), 0o644)).To(Succeed())
	g.Expect(Tail(path, 2)).To(Equal("  short\n  " + strings.Repeat("x", tailWidth) + "…"))
	g.Expect(Tail(path+".gone", 2)).To(ContainSubstring("cannot be read"))
}

func TestProcessDiesWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can tie a child to its parent's life")
	}
	g := NewWithT(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parent.Start()).To(Succeed())
	var pid int
	_, err = fmt.Fscanln(out, &pid)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(alive(pid)).To(BeTrue())
	g.Expect(parent.Process.Kill()).To(Succeed())
	g.Expect(parent.Wait()).To(MatchError(ContainSubstring("killed")))
	g.Eventually(func() bool { return alive(pid) }).Should(BeFalse())
}
