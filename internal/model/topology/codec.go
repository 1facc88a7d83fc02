// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// The map is stored in records: one header, one record for every table, one for the meta partition under MetaTable. So
// a new table among a thousand others writes two small ones. A record begins with the version of its form. The header,
// every partition and every replica set end in a list of fields (see codec): what a later build has added there is
// kept. The whole map in one piece begins with the same version.
const recordVersion = 2

// ErrMalformed says that bytes are not an encoded map, or a part of one.
var ErrMalformed = errors.New("malformed topology")

// AppendHeader appends the record of the counters.
func (s *Snapshot) AppendHeader(dst []byte) []byte {
	w := codec.Writer(append(dst, recordVersion))
	w.Uint(s.version)
	w.Uint(uint64(s.nextPartition))
	w.Uint(uint64(s.nextReplica))
	w.Uint(uint64(s.level))
	w.Raw(s.rest)
	w.EndFields()
	return w
}

// AppendTable appends the record of a table, or of the meta partition if that is MetaTable. Equal tables have equal
// bytes.
func (s *Snapshot) AppendTable(dst []byte, table uint32) []byte {
	ps := s.tables[table]
	if table == MetaTable && s.meta != nil {
		ps = []*Partition{s.meta}
	}
	w := codec.Writer(append(dst, recordVersion))
	w.Uint(uint64(len(ps)))
	for _, p := range ps {
		w.Uint(uint64(p.ID))
		appendPosition(&w, table, p.Span.Begin)
		appendPosition(&w, table, p.Span.Limit)
		w.Uint(p.Epoch)
		w.Uint(p.Moves)
		w.Uint(uint64(p.Level))
		appendSets(&w, p.Sets)
		p.appendFields(&w)
	}
	return w
}

func appendPosition(w *codec.Writer, table uint32, at Position) {
	w.Fixed(at.Ring)
	if table&keys.WideRing != 0 {
		w.Fixed(at.Low)
	}
	w.Bytes(at.Key)
}

// SameTable reports whether a table, or the meta partition if that is MetaTable, is the same one in both maps, without
// looking at it closely.
func (s *Snapshot) SameTable(o *Snapshot, table uint32) bool {
	if table == MetaTable {
		return s.meta == o.meta
	}
	a, b := s.tables[table], o.tables[table]
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Assemble makes a map of a header and the records of tables: those that are given, and those of base that are not. A
// nil record removes the table. Only what is new is decoded, and checked to be a valid part of the whole.
func Assemble(base *Snapshot, header []byte, tables map[uint32][]byte) (*Snapshot, error) {
	s := base.next()
	r, err := open(header)
	if err != nil {
		return nil, err
	}
	s.version, s.nextPartition, s.nextReplica = r.Uint(), PartitionID(r.Uint()), ReplicaID(r.Uint())
	s.level = feature.Level(r.Uint32())
	s.rest = r.fields("the header of the map")
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if s.nextPartition > MetaPartition {
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
	for range r.Count(22) {
		p := &Partition{
			ID:    PartitionID(r.Uint()),
			Table: table,
			Span:  r.span(table),
			Epoch: r.Uint(),
			Moves: r.Uint(),
			Level: feature.Level(r.Uint32()),
			Sets:  r.sets(),
		}
		r.partitionFields(p)
		if r.Err() != nil {
			return r.end()
		}
		if s.Partition(p.ID) != nil {
			return ErrMalformed
		}
		if table != MetaTable {
			s.byID[p.ID] = p
		}
		ps = append(ps, p)
	}
	if err := r.end(); err != nil {
		return err
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

// open checks the version of a record, or of the whole map.
func open(record []byte) (*decoder, error) {
	switch {
	case len(record) == 0 || record[0] < recordVersion:
		return nil, ErrMalformed
	case record[0] > recordVersion:
		return nil, &feature.Newer{What: "the map", Unit: "version", Has: uint64(record[0]), Newest: recordVersion}
	}
	return newDecoder(record[1:]), nil
}

// Append appends the whole map in one piece: equal snapshots have equal bytes.
func (s *Snapshot) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, recordVersion))
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
		w.Raw(set.rest)
		w.EndFields()
	}
}

// Decode reads what Append wrote, and validates it.
func Decode(src []byte) (*Snapshot, error) {
	r, err := open(src)
	if err != nil {
		return nil, err
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
	s, err := Assemble(New(), header, tables)
	if err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return s, nil
}

// decoder takes off what the Append functions wrote. Keys are copies.
type decoder struct {
	codec.Reader
	refused *feature.Newer
}

func newDecoder(b []byte) *decoder { return &decoder{Reader: codec.NewReader(b, ErrMalformed)} }

// newer ends the decoding: this build is too old for the bytes.
func (r *decoder) newer(what, unit string, has, newest uint64) {
	if r.Err() == nil {
		r.refused = &feature.Newer{What: what, Unit: unit, Has: has, Newest: newest}
	}
	r.Fail()
}

// end is Reader.End, but for what a newer build wrote.
func (r *decoder) end() error {
	err := r.End()
	if r.refused != nil {
		return r.refused
	}
	return err
}

// fields reads a list of fields, of which this build knows none, and returns them as they came.
func (r *decoder) fields(what string) []byte {
	kept, refused := r.KeepFields()
	if refused != 0 {
		r.newer(what, "field", refused, 0)
	}
	return kept
}

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
	for range r.Count(4) {
		set := ReplicaSet{Region: r.Text(), Leader: ReplicaID(r.Uint())}
		for range r.Count(18) {
			m := Replica{ID: ReplicaID(r.Uint())}
			copy(m.Node[:], r.Take(uint64(len(m.Node))))
			if m.State = MemberState(r.Byte()); m.State > Learner {
				r.newer("a replica of the map", "state", uint64(m.State), uint64(Learner))
			}
			set.Replicas = append(set.Replicas, m)
		}
		set.rest = r.fields("a replica set of the map")
		out = append(out, set)
	}
	return out
}
