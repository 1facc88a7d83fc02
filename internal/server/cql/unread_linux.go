// SPDX-License-Identifier: Apache-2.0

package cql

import "golang.org/x/sys/unix"

// unread returns how many bytes wait to be read from a socket; below 0 if that is not known.
func unread(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return -1
	}
	return n
}
