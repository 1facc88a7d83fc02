// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cql

import "errors"

// readFD must not be called if canReadFD is false.
func readFD(uintptr, []byte) (n int, again bool, err error) { return 0, false, errors.ErrUnsupported }

// writeFD must not be called if canReadFD is false.
func writeFD(uintptr, []byte) (n int, again bool, err error) { return 0, false, errors.ErrUnsupported }

const canReadFD = false
