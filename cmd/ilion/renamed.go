// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// renamed lists the former names of commands. The former names and the corresponding environment variables work for one
// release.
var renamed = []struct{ from, to string }{
	{"partitions", "partition list"},
	{"history", "partition history"},
	{"keys", "account keys"},
	{"slow", "slow-queries"},
	{"manual", "man"},
	{"backup follow", "backup archive"},
	{"recover here", "recover local"},
	{"recover survey", "recover inspect"},
}

// presentCommand replaces the former name of a command in a command line with the current name. If it replaces a name,
// it prints a warning.
func presentCommand(args []string, stderr io.Writer) []string {
	for _, r := range renamed {
		former := strings.Fields(r.from)
		if len(args) >= len(former) && slices.Equal(args[:len(former)], former) {
			fmt.Fprintf(stderr, "ilion: command %q is deprecated. Use %q.\n", r.from, r.to)
			return append(strings.Fields(r.to), args[len(former):]...)
		}
	}
	return args
}
