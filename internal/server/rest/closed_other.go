// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package rest

// peerClosed always returns false, because this platform does not provide the state of the peer.
func peerClosed(int) bool { return false }
