// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "syscall"

// ownGroup has no meaning here.
func ownGroup() *syscall.SysProcAttr { return nil }
