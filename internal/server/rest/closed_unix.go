// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package rest

import "golang.org/x/sys/unix"

// peerClosed reports whether the peer of a socket has closed the connection or the sending half of the connection. If
// the socket has unread input, it returns false.
func peerClosed(fd int) bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch err {
	case nil:
		return n == 0
	case unix.EAGAIN, unix.EINTR:
		return false
	}
	return true
}
