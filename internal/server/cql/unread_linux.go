// SPDX-License-Identifier: Apache-2.0

package cql

import "golang.org/x/sys/unix"

// unread returns the number of unread bytes in a socket, or a negative number if the number is unknown.
func unread(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return -1
	}
	return n
}
