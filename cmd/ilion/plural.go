// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// counted returns a number with its noun, which gets an s unless the number is 1.
func counted[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
