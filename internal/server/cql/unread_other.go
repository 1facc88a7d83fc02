// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cql

// unread returns -1, because the number of unread bytes in a socket is unknown on this platform.
func unread(uintptr) int { return -1 }
