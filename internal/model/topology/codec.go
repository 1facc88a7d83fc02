// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// codecVersion is the first byte of an encoded snapshot.
const codecVersion = 1

// ErrMalformed says that bytes are not an encoded snapshot.
var ErrMalformed = errors.New("malformed topology")

// Append appends the encoded form: equal snapshots have equal bytes.
func (s *Snapshot) Append(dst []byte) []byte {
	dst = append(dst, codecVersion)
	dst = binary.AppendUvarint(dst, s.version)
	dst = binary.AppendUvarint(dst, uint64(s.nextPartition))
	dst = binary.AppendUvarint(dst, uint64(s.nextReplica))
	dst = binary.AppendUvarint(dst, uint64(len(s.byID)))
	for _, t := range s.Tables() {
		for _, p := range s.tables[t] {
			dst = binary.AppendUvarint(dst, uint64(p.ID))
			dst = binary.AppendUvarint(dst, uint64(p.Table))
			dst = AppendSpan(dst, p.Span)
			dst = binary.AppendUvarint(dst, p.Epoch)
			dst = appendSets(dst, p.Sets)
		}
	}
	return dst
}

func appendSets(dst []byte, sets []ReplicaSet) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(sets)))
	for _, set := range sets {
		dst = binary.AppendUvarint(dst, uint64(len(set.Region)))
		dst = append(dst, set.Region...)
		dst = binary.AppendUvarint(dst, uint64(set.Leader))
		dst = binary.AppendUvarint(dst, uint64(len(set.Replicas)))
		for _, r := range set.Replicas {
			dst = binary.AppendUvarint(dst, uint64(r.ID))
			dst = append(dst, r.Node[:]...)
			dst = append(dst, byte(r.State))
		}
	}
	return dst
}

// AppendSpan appends the encoded form of a span.
func AppendSpan(dst []byte, s Span) []byte {
	for _, p := range [2]Position{s.Begin, s.Limit} {
		dst = binary.BigEndian.AppendUint64(dst, p.Ring)
		dst = binary.AppendUvarint(dst, uint64(len(p.Key)))
		dst = append(dst, p.Key...)
	}
	return dst
}

// DecodeSpan takes a span off src. Its keys are copies.
func DecodeSpan(src []byte) (s Span, rest []byte, err error) {
	r := decoder{b: src}
	s = r.span()
	if r.bad || !s.Valid() {
		return Span{}, nil, ErrMalformed
	}
	return s, r.b, nil
}

// Decode reads what Append wrote and validates it.
func Decode(src []byte) (*Snapshot, error) {
	if len(src) == 0 || src[0] == 0 {
		return nil, ErrMalformed
	}
	if src[0] > codecVersion {
		return nil, fmt.Errorf("topology of a newer version: %d, this one reads up to %d", src[0], codecVersion)
	}
	r := decoder{b: src[1:]}
	s := New()
	s.version = r.uint()
	s.nextPartition = PartitionID(r.uint())
	s.nextReplica = ReplicaID(r.uint())
	for range r.count(20) {
		p := &Partition{ID: PartitionID(r.uint())}
		table := r.uint()
		p.Table = uint32(table)
		p.Span = r.span()
		p.Epoch = r.uint()
		p.Sets = r.sets()
		if r.bad || table != uint64(p.Table) || s.byID[p.ID] != nil {
			return nil, ErrMalformed
		}
		s.tables[p.Table] = append(s.tables[p.Table], p)
		s.byID[p.ID] = p
	}
	if r.bad || len(r.b) > 0 {
		return nil, ErrMalformed
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return s, nil
}

// decoder takes values off b; bad is set by the first that does not fit, and all later ones are zero.
type decoder struct {
	b   []byte
	bad bool
}

func (r *decoder) fail() { r.b, r.bad = nil, true }

func (r *decoder) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *decoder) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *decoder) count(itemMin int) int {
	n := r.uint()
	if n > uint64(len(r.b)/itemMin) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *decoder) span() Span { return Span{r.position(), r.position()} }

func (r *decoder) position() Position {
	ring := r.take(8)
	key := r.take(r.uint())
	if r.bad {
		return Position{}
	}
	p := Position{Ring: binary.BigEndian.Uint64(ring)}
	if len(key) > 0 {
		p.Key = bytes.Clone(key)
	}
	return p
}

func (r *decoder) sets() []ReplicaSet {
	var out []ReplicaSet
	for range r.count(3) {
		set := ReplicaSet{Region: string(r.take(r.uint())), Leader: ReplicaID(r.uint())}
		for range r.count(18) {
			m := Replica{ID: ReplicaID(r.uint())}
			copy(m.Node[:], r.take(16))
			if b := r.take(1); len(b) == 1 {
				m.State = MemberState(b[0])
				r.bad = r.bad || m.State > Leaving
			}
			set.Replicas = append(set.Replicas, m)
		}
		out = append(out, set)
	}
	return out
}
