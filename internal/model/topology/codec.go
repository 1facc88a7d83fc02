// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/keys"
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
	w := codec.Writer(append(dst, recordVersion))
	w.Uint(s.version)
	w.Uint(uint64(s.nextPartition))
	w.Uint(uint64(s.nextReplica))
	return w
}

// AppendTable appends the record of a table, or of the meta partition if that is MetaTable. Equal tables have equal bytes.
func (s *Snapshot) AppendTable(dst []byte, table uint32) []byte {
	ps := s.tables[table]
	if table == MetaTable && s.meta != nil {
		ps = []*Partition{s.meta}
	}
	w := codec.Writer(append(dst, recordVersion))
	w.Uint(uint64(len(ps)))
	for _, p := range ps {
		w.Uint(uint64(p.ID))
		for _, at := range [2]Position{p.Span.Begin, p.Span.Limit} {
			w.Fixed(at.Ring)
			if table&keys.WideRing != 0 {
				w.Fixed(at.Low)
			}
			w.Bytes(at.Key)
		}
		w.Uint(p.Epoch)
		w.Uint(p.Moves)
		appendSets(&w, p.Sets)
	}
	return w
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
	s.version, s.nextPartition, s.nextReplica = r.Uint(), PartitionID(r.Uint()), ReplicaID(r.Uint())
	if r.End() != nil || s.nextPartition > MetaPartition {
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
	for range r.Count(20) {
		p := &Partition{ID: PartitionID(r.Uint()), Table: table, Span: r.span(table), Epoch: r.Uint(), Moves: r.Uint(), Sets: r.sets()}
		if r.Err() != nil || s.Partition(p.ID) != nil {
			return ErrMalformed
		}
		if table != MetaTable {
			s.byID[p.ID] = p
		}
		ps = append(ps, p)
	}
	if r.End() != nil {
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
	return newDecoder(record[1:]), nil
}

// Append appends the whole map in one piece: equal snapshots have equal bytes.
func (s *Snapshot) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, wholeVersion))
	w.Bytes(s.AppendHeader(nil))
	tables := s.Tables()
	if s.meta != nil {
		tables = append(tables, MetaTable)
	}
	w.Uint(uint64(len(tables)))
	for _, t := range tables {
		w.Uint(uint64(t))
		w.Bytes(s.AppendTable(nil, t))
	}
	return w
}

func appendSets(w *codec.Writer, sets []ReplicaSet) {
	w.Uint(uint64(len(sets)))
	for _, set := range sets {
		w.Text(set.Region)
		w.Uint(uint64(set.Leader))
		w.Uint(uint64(len(set.Replicas)))
		for _, r := range set.Replicas {
			w.Uint(uint64(r.ID))
			w.Raw(r.Node[:])
			w.Byte(byte(r.State))
		}
	}
}

// Decode reads what Append wrote, now or before there was a meta partition, and validates it.
func Decode(src []byte) (*Snapshot, error) {
	switch {
	case len(src) == 0 || src[0] == 0:
		return nil, ErrMalformed
	case src[0] > wholeVersion:
		return nil, fmt.Errorf("topology of a newer version: %d, this one reads up to %d", src[0], wholeVersion)
	}
	s, err := decodeWhole(newDecoder(src[1:]), src[0])
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
	header := r.Bytes()
	tables := map[uint32][]byte{}
	for range r.Count(2) {
		table, record := r.Uint32(), r.Bytes()
		if r.Err() != nil || tables[table] != nil {
			return nil, ErrMalformed
		}
		tables[table] = record
	}
	if r.End() != nil {
		return nil, ErrMalformed
	}
	return Assemble(New(), header, tables)
}

// decodeFirst reads the form that stand-alone nodes stored.
func decodeFirst(r *decoder) (*Snapshot, error) {
	s := New()
	s.version, s.nextPartition, s.nextReplica = r.Uint(), PartitionID(r.Uint()), ReplicaID(r.Uint())
	for range r.Count(20) {
		p := &Partition{ID: PartitionID(r.Uint()), Table: r.Uint32(), Span: r.span(0), Epoch: r.Uint(), Sets: r.sets()}
		if r.Err() != nil || s.byID[p.ID] != nil {
			return nil, ErrMalformed
		}
		s.tables[p.Table] = append(s.tables[p.Table], p)
		s.byID[p.ID] = p
	}
	if r.End() != nil {
		return nil, ErrMalformed
	}
	return s, nil
}

// decoder takes off what the Append functions wrote. Keys are copies.
type decoder struct{ codec.Reader }

func newDecoder(b []byte) *decoder { return &decoder{codec.NewReader(b, ErrMalformed)} }

func (r *decoder) span(table uint32) Span { return Span{r.position(table), r.position(table)} }

func (r *decoder) position(table uint32) Position {
	p := Position{Ring: r.Fixed()}
	if table&keys.WideRing != 0 {
		p.Low = r.Fixed()
	}
	p.Key = bytes.Clone(r.Bytes())
	return p
}

func (r *decoder) sets() []ReplicaSet {
	var out []ReplicaSet
	for range r.Count(3) {
		set := ReplicaSet{Region: r.Text(), Leader: ReplicaID(r.Uint())}
		for range r.Count(18) {
			m := Replica{ID: ReplicaID(r.Uint())}
			copy(m.Node[:], r.Take(uint64(len(m.Node))))
			if m.State = MemberState(r.Byte()); m.State > Learner {
				r.Fail()
			}
			set.Replicas = append(set.Replicas, m)
		}
		out = append(out, set)
	}
	return out
}
