// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "syscall"

// ownGroup returns nil because this platform has no process groups.
func ownGroup() *syscall.SysProcAttr { return nil }
