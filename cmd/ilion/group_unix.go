// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from a child: its parent ends it in order.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
