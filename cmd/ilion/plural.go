// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// plural returns a number followed by a noun. Unless the number is 1, plural appends an s to the noun.
func plural[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
