// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// TestReplicaRecord checks that a record survives its encoding, and that a truncated, overlong, or newer record is
// rejected.
func TestReplicaRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Replica{Partition: rapid.Uint64().Draw(t, "partition"), Replica: rapid.Uint64().Draw(t, "replica"),
			Created: rapid.Int64().Draw(t, "created")}
		b := r.Append(nil)
		if got, err := DecodeReplica(b); err != nil || got != r {
			t.Fatalf("%+v was decoded as %+v: %v", r, got, err)
		}
		for n := range b {
			if _, err := DecodeReplica(b[:n]); !errors.Is(err, ErrReplicaCorrupt) {
				t.Fatalf("%d of %d bytes: %v", n, len(b), err)
			}
		}
		if _, err := DecodeReplica(append(b, 0)); !errors.Is(err, ErrReplicaCorrupt) {
			t.Fatalf("one byte more: %v", err)
		}
		b[0]++
		if _, err := DecodeReplica(b); !errors.Is(err, feature.ErrNewer) {
			t.Fatalf("a newer format: %v", err)
		}
	})
}
