// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"syscall"
)

// hangup contains the signals that make a node reload its certificates.
var hangup = []os.Signal{syscall.SIGHUP}

// ownFiles restricts access to new files to the user of the process. New files have the mode 0600, and new directories
// have the mode 0700.
func ownFiles() { syscall.Umask(0o077) }
