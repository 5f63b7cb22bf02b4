// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package process

import "syscall"

// attributes has no way outside Linux to tie a child to its parent's life: there a killed parent
// leaves its children behind.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
