// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
)

// batchlogEntryVersion is the format version of batch log entries.
const batchlogEntryVersion = 2

// batchlogEntry is the batch log entry of an atomic batch.
type batchlogEntry struct {
	id [16]byte
	// stamp is the batch's timestamp in microseconds since the epoch. stamp exceeds all timestamps that the
	// participants had assigned when the batch was recorded.
	stamp int64
	// issued is the time of the batch, in microseconds since the epoch. A leader uses the age of the batch to determine
	// whether the dedupe record of a part may have been swept. For a batch of this cluster, issued equals stamp.
	issued int64
	// parts have no conditions, and the Unstamped operands of the parts have no timestamps yet. The order of the parts
	// never changes, because the index of a part is half of the part's dedupe ID.
	parts []*command.Conditional
}

// append encodes everything except the ID.
func (r *batchlogEntry) append(dst []byte) []byte {
	w := codec.Writer(append(dst, batchlogEntryVersion))
	w.Int(r.stamp)
	w.Uint(uint64(len(r.parts)))
	for _, u := range r.parts {
		w.Bytes(command.AppendConditional(nil, u))
	}
	return w
}

// decodeBatchlogEntry decodes an entry encoded by append. The returned parts refer to the memory of src.
func decodeBatchlogEntry(id [16]byte, src []byte) (*batchlogEntry, error) {
	r := codec.NewReader(src, fmt.Errorf("batchlog entry: %w", command.ErrMalformed))
	if r.Byte() != batchlogEntryVersion {
		r.Fail()
	}
	out := &batchlogEntry{id: id, stamp: r.Int()}
	out.issued = out.stamp
	for range r.Count(1) {
		encoded := r.Bytes()
		if r.Err() != nil {
			break
		}
		u := new(command.Conditional)
		if err := command.DecodeConditional(u, encoded); err != nil {
			return nil, err
		}
		out.parts = append(out.parts, u)
	}
	return out, r.End()
}

func (r *batchlogEntry) writesTo(table uint32) bool {
	return slices.ContainsFunc(r.parts, func(u *command.Conditional) bool { return u.Mutation.Table == table })
}
