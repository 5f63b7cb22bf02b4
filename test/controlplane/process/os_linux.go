// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// hasStopped reports whether all threads of a child have stopped. After the signal, some of them
// may still run for a while.
func hasStopped(pid int) (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return info.Signo != 0, err
}
