// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package process

// cgoEnabled reports whether the block cache of the store is allocated outside the Go heap.
const cgoEnabled = false

// tuneAllocator does nothing, because all memory is on the Go heap.
func tuneAllocator() {}
