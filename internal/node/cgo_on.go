// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package node

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

// cgoEnabled says whether the store's cache is allocated outside the Go heap.
const cgoEnabled = true

// tuneAllocator keeps what is allocated outside the Go heap together: glibc gives each thread an arena of its own and
// returns little of any, so that twice the size of the cache was held as its blocks came and went on all threads.
func tuneAllocator() { C.one_arena() }
