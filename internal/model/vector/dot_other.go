// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package vector

// dotWhole leaves all elements to dotPlain.
func dotWhole(w []int16, _ []byte) (sum int64, rest int) { return 0, len(w) }

func dotFour(w []int16, _ []byte, _ []int64) (rest int) { return len(w) }
