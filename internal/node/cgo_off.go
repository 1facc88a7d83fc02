// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package node

// cgoEnabled says whether the store's cache is allocated outside the Go heap.
const cgoEnabled = false

// tuneAllocator has nothing to do: everything is on the Go heap.
func tuneAllocator() {}
