// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"syscall"
)

// hangup contains the signals that make a node reload its certificates.
var hangup = []os.Signal{syscall.SIGHUP}

// ownFiles restricts new files to the user of the process: files 0600, directories 0700.
func ownFiles() { syscall.Umask(0o077) }
