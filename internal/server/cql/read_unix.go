// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cql

import "syscall"

// readFD reads from a non-blocking descriptor; again is true if there is nothing to read.
func readFD(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = syscall.Read(int(fd), b)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return 0, true, nil
		}
		return max(n, 0), false, err
	}
}

// writeFD writes to a non-blocking descriptor; again is true if there is no room.
func writeFD(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = syscall.Write(int(fd), b)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return 0, true, nil
		}
		return max(n, 0), false, err
	}
}

const canReadFD = true
