// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// TestRecorded checks that Recorded returns true from the insertion of a batch record until the removal of the record.
// A removal must also take effect if a late attempt inserts the record again.
func TestRecorded(t *testing.T) {
	c := newCluster4(t, 1)[0].Coordinator
	log := c.cluster.Batches
	put := func(id byte, removed bool) {
		m := log.Record([16]byte{id}, 5_000_000, []byte{batchlogEntryVersion})
		if removed {
			m = log.Remove([16]byte{id}, 5_000_001)
		}
		e := c.newRequest(dberr.Quorum, c.opts.WriteTimeout)
		if err := e.putMutation(t.Context(), "Writing a batchlog entry to", &m); err != nil {
			t.Fatal(err)
		}
	}
	put(1, false)
	put(2, false)
	put(2, true)
	put(3, true)
	put(3, false)
	all, err := c.RecordedBatches(t.Context())
	if err != nil || len(all) != 1 || !all[[16]byte{1}] {
		t.Errorf("recorded: %v, %v", all, err)
	}
	for id := range byte(4) {
		if is, err := c.Recorded(t.Context(), [16]byte{id}); err != nil || is != (id == 1) {
			t.Errorf("batch %d is recorded: %v, %v", id, is, err)
		}
	}
}
