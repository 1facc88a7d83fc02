// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// ownGroup starts a child process in a separate process group, so that Ctrl-C in a terminal does not stop the child.
// The parent stops the child gracefully.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
