// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// ownGroup protects a child from the terminal's Ctrl-C, because its parent stops it in an orderly way.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
