// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cql

import "errors"

// readFD is not called if canReadFD is false.
func readFD(uintptr, []byte) (n int, again bool, err error) { return 0, false, errors.ErrUnsupported }

// writeFD is not called if canReadFD is false.
func writeFD(uintptr, []byte) (n int, again bool, err error) { return 0, false, errors.ErrUnsupported }

const canReadFD = false
