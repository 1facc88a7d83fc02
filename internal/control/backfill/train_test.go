// SPDX-License-Identifier: Apache-2.0

package backfill

import "testing"

// TestSamplePlaces checks that the parts of a vector sample begin at positions that are evenly spread around the ring.
func TestSamplePlaces(t *testing.T) {
	for i := range uint64(sampleParts) {
		if at := samplePlace(i) / (1 << 57); at != max(2*i, 1)-1 && i > 0 || i == 0 && at != 0 {
			t.Errorf("part %d begins at %#x", i, samplePlace(i))
		}
	}
}
