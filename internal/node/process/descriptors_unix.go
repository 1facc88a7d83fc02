// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"math"
	"syscall"
)

// Descriptors returns the maximum number of open files and connections. The Go runtime has raised this limit to the
// hard limit.
func Descriptors() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || uint64(r.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(r.Cur)
}
