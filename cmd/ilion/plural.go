// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// plural returns a number with its noun. The noun gets an s unless the number is 1.
func plural[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
