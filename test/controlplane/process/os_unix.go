// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package process

import "syscall"

// attributes cannot tie a child to the life of its parent outside Linux: there, a killed parent
// leaves its children behind.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// hasStopped cannot find out outside Linux whether a process has stopped.
func hasStopped(int) (bool, error) { return true, nil }
