// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cql

// unread does not know how many bytes wait to be read from a socket.
func unread(uintptr) int { return -1 }
