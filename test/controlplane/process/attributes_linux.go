// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
