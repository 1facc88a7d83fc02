// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"syscall"
)

// hangup are the signals by which a node is told to read its certificates again.
var hangup = []os.Signal{syscall.SIGHUP}

// ownFiles has whatever the process writes be its user's alone: files 0600, directories 0700.
func ownFiles() { syscall.Umask(0o077) }
