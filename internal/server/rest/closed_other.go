// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package rest

// peerClosed always returns false, because the state of the peer is not available on this platform.
func peerClosed(int) bool { return false }
