// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The map is stored in records: one header, one record for every table, one for the meta partition under MetaTable. So a new table
// among a thousand others writes two small ones. A record begins with the version of its form; a reader refuses newer ones.
const recordVersion = 1

// The whole map in one piece, as Append makes it, begins with wholeVersion; the form before it had no meta partition.
const (
	wholeVersion      = 2
	wholeVersionFirst = 1
)

// ErrMalformed says that bytes are not an encoded map, or a part of one.
var ErrMalformed = errors.New("malformed topology")

// AppendHeader appends the record of the counters.
func (s *Snapshot) AppendHeader(dst []byte) []byte {
	dst = append(dst, recordVersion)
	dst = binary.AppendUvarint(dst, s.version)
	dst = binary.AppendUvarint(dst, uint64(s.nextPartition))
	return binary.AppendUvarint(dst, uint64(s.nextReplica))
}

// AppendTable appends the record of a table, or of the meta partition if that is MetaTable. Equal tables have equal bytes.
func (s *Snapshot) AppendTable(dst []byte, table uint32) []byte {
	ps := s.tables[table]
	if table == MetaTable && s.meta != nil {
		ps = []*Partition{s.meta}
	}
	dst = append(dst, recordVersion)
	dst = binary.AppendUvarint(dst, uint64(len(ps)))
	for _, p := range ps {
		dst = binary.AppendUvarint(dst, uint64(p.ID))
		dst = AppendSpan(dst, p.Span)
		dst = binary.AppendUvarint(dst, p.Epoch)
		dst = binary.AppendUvarint(dst, p.Moves)
		dst = appendSets(dst, p.Sets)
	}
	return dst
}

// SameTable reports whether a table, or the meta partition if that is MetaTable, is the same one in both maps, without looking at it closely.
func (s *Snapshot) SameTable(o *Snapshot, table uint32) bool {
	if table == MetaTable {
		return s.meta == o.meta
	}
	a, b := s.tables[table], o.tables[table]
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Assemble makes a map of a header and the records of tables: those that are given, and those of base that are not. A nil record removes
// the table. Only what is new is decoded, and checked to be a valid part of the whole.
func Assemble(base *Snapshot, header []byte, tables map[uint32][]byte) (*Snapshot, error) {
	s := base.next()
	r, err := open(header)
	if err != nil {
		return nil, err
	}
	s.version, s.nextPartition, s.nextReplica = r.uint(), PartitionID(r.uint()), ReplicaID(r.uint())
	if r.bad || len(r.b) > 0 || s.nextPartition > MetaPartition {
		return nil, fmt.Errorf("header: %w", ErrMalformed)
	}
	for table := range tables {
		if table == MetaTable {
			s.meta = nil
			continue
		}
		for _, p := range s.tables[table] {
			delete(s.byID, p.ID)
		}
		delete(s.tables, table)
	}
	replicas := map[ReplicaID]PartitionID{}
	for table, record := range tables {
		if record == nil {
			continue
		}
		if err := s.addRecord(table, record, replicas); err != nil {
			return nil, fmt.Errorf("table %d: %w", table, err)
		}
	}
	return s, nil
}

// addRecord decodes the record of a table that is not in s, and checks it.
func (s *Snapshot) addRecord(table uint32, record []byte, replicas map[ReplicaID]PartitionID) error {
	r, err := open(record)
	if err != nil {
		return err
	}
	var ps []*Partition
	for range r.count(20) {
		p := &Partition{ID: PartitionID(r.uint()), Table: table, Span: r.span(), Epoch: r.uint(), Moves: r.uint(), Sets: r.sets()}
		if r.bad || s.Partition(p.ID) != nil {
			return ErrMalformed
		}
		if table != MetaTable {
			s.byID[p.ID] = p
		}
		ps = append(ps, p)
	}
	if r.bad || len(r.b) > 0 {
		return ErrMalformed
	}
	if table != MetaTable {
		s.tables[table] = ps
		err = s.validateTable(table, replicas)
	} else if len(ps) != 1 || ps[0].ID != MetaPartition {
		return ErrMalformed
	} else {
		s.meta = ps[0]
		err = s.validateMembers(s.meta, replicas)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// open checks the version of a record.
func open(record []byte) (*decoder, error) {
	switch {
	case len(record) == 0 || record[0] == 0:
		return nil, ErrMalformed
	case record[0] > recordVersion:
		return nil, fmt.Errorf("topology of a newer version: %d, this one reads up to %d", record[0], recordVersion)
	}
	return &decoder{b: record[1:]}, nil
}

// Append appends the whole map in one piece: equal snapshots have equal bytes.
func (s *Snapshot) Append(dst []byte) []byte {
	dst = append(dst, wholeVersion)
	dst = appendRecord(dst, s.AppendHeader(nil))
	tables := s.Tables()
	if s.meta != nil {
		tables = append(tables, MetaTable)
	}
	dst = binary.AppendUvarint(dst, uint64(len(tables)))
	for _, t := range tables {
		dst = appendRecord(binary.AppendUvarint(dst, uint64(t)), s.AppendTable(nil, t))
	}
	return dst
}

func appendRecord(dst, record []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(record))), record...)
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

// Decode reads what Append wrote, now or before there was a meta partition, and validates it.
func Decode(src []byte) (*Snapshot, error) {
	switch {
	case len(src) == 0 || src[0] == 0:
		return nil, ErrMalformed
	case src[0] > wholeVersion:
		return nil, fmt.Errorf("topology of a newer version: %d, this one reads up to %d", src[0], wholeVersion)
	}
	s, err := decodeWhole(&decoder{b: src[1:]}, src[0])
	if err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return s, nil
}

func decodeWhole(r *decoder, version byte) (*Snapshot, error) {
	if version == wholeVersionFirst {
		return decodeFirst(r)
	}
	header := r.take(r.uint())
	tables := map[uint32][]byte{}
	for range r.count(2) {
		table, record := r.uint(), r.take(r.uint())
		if r.bad || table > math.MaxUint32 || tables[uint32(table)] != nil {
			return nil, ErrMalformed
		}
		tables[uint32(table)] = record
	}
	if r.bad || len(r.b) > 0 {
		return nil, ErrMalformed
	}
	return Assemble(New(), header, tables)
}

// decodeFirst reads the form that stand-alone nodes stored.
func decodeFirst(r *decoder) (*Snapshot, error) {
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
				r.bad = r.bad || m.State > Learner
			}
			set.Replicas = append(set.Replicas, m)
		}
		out = append(out, set)
	}
	return out
}
