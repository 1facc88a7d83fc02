// SPDX-License-Identifier: Apache-2.0

package rest

import "golang.org/x/sys/unix"

// peerClosed reports whether the peer of a socket has closed the connection or the sending half of the connection.
// Unread input does not affect the result.
func peerClosed(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}
