// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cql

import "syscall"

func cpuMicros() int64 {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return (ru.Utime.Nano() + ru.Stime.Nano()) / 1000
}
