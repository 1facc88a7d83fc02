// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package process

import "math"

// Descriptors returns the maximum number of open files and connections.
func Descriptors() int { return math.MaxInt32 }
