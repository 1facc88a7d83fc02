// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cql

import "syscall"

// readFD reads from a non-blocking descriptor. again is true if no data is available yet.
func readFD(fd uintptr, b []byte) (n int, again bool, err error) { return callFD(syscall.Read, fd, b) }

// writeFD writes to a non-blocking descriptor. again is true if the socket buffer is full.
func writeFD(fd uintptr, b []byte) (n int, again bool, err error) {
	return callFD(syscall.Write, fd, b)
}

// callFD makes a system call on a non-blocking descriptor and repeats the call if a signal interrupts it.
func callFD(call func(int, []byte) (int, error), fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = call(int(fd), b)
		switch err { //nolint:errorlint // system calls do not wrap
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return 0, true, nil
		}
		return max(n, 0), false, err
	}
}

const canReadFD = true
