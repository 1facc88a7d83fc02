// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package process

/*
#ifdef __GLIBC__
#include <malloc.h>
#endif

static void one_arena(void) {
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1);
#endif
}
*/
import "C"

// cgoEnabled reports whether the block cache of the store is allocated outside the Go heap.
const cgoEnabled = true

// tuneAllocator limits the C allocator to one arena. By default, glibc gives each thread a separate arena and returns
// little memory from the arenas. As a result, the blocks of the cache would use twice the size of the cache.
func tuneAllocator() { C.one_arena() }
