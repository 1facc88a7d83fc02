// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
)

// recordVersion is the version of the records of batches written here.
const recordVersion = 2

// record is an atomic batch as it is written down before it is carried out.
type record struct {
	id [16]byte
	// stamp is above all that the participants had given when the batch was recorded, in microseconds since the epoch.
	stamp int64
	// issued is the time of the batch, in microseconds since the epoch: by its age a leader finds out whether the
	// dedupe record of a part may have been swept. It is stamp, except for a batch of another cluster.
	issued int64
	// parts have no conditions; what came Unstamped still is. Their order is theirs for ever: a part's number is half
	// of its id.
	parts []*command.Conditional
}

// append encodes all but the id.
func (r *record) append(dst []byte) []byte {
	w := codec.Writer(append(dst, recordVersion))
	w.Int(r.stamp)
	w.Uint(uint64(len(r.parts)))
	for _, u := range r.parts {
		w.Bytes(command.AppendConditional(nil, u))
	}
	return w
}

// decodeRecord reads what append wrote. The parts are views over src.
func decodeRecord(id [16]byte, src []byte) (*record, error) {
	r := codec.NewReader(src, fmt.Errorf("record of a batch: %w", command.ErrMalformed))
	if r.Byte() != recordVersion {
		r.Fail()
	}
	out := &record{id: id, stamp: r.Int()}
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

// writesTo reports whether a part changes a table.
func (r *record) writesTo(table uint32) bool {
	return slices.ContainsFunc(r.parts, func(u *command.Conditional) bool { return u.Mutation.Table == table })
}
