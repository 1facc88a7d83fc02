// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cql

func cpuMicros() int64 { return 0 }
