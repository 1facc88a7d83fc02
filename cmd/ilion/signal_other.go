// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "os"

var hangup = []os.Signal{os.Interrupt}[:0]

func ownFiles() {}
