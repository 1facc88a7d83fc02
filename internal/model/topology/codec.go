// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"errors"
	"fmt"
	"unique"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// recordVersion is the version of the topology's encoding. The topology is stored as one header and one record per
// partition, under the partition's ID. A change to one partition therefore writes two small records, even if the
// cluster has a hundred thousand partitions. Each record starts with the version. The header, every partition, and
// every replica set end with a list of fields (see codec). Fields from a later build are preserved. The encoding of
// the whole topology starts with the same version.
const recordVersion = 3

// ErrMalformed reports that bytes are not an encoded topology or part of an encoded topology.
var ErrMalformed = errors.New("malformed topology")

// AppendHeader appends the header record, which holds the counters.
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

// AppendPartition appends the record of a partition. Equal partitions have equal bytes.
func AppendPartition(dst []byte, p *Partition) []byte {
	w := codec.Writer(append(dst, recordVersion))
	w.Uint(uint64(p.Table))
	appendPosition(&w, p.Table, p.Span.Begin)
	appendPosition(&w, p.Table, p.Span.Limit)
	w.Uint(p.Epoch)
	w.Uint(p.Moves)
	w.Uint(uint64(p.Level))
	appendSets(&w, p.Sets)
	p.appendFields(&w)
	return w
}

func appendPosition(w *codec.Writer, table uint32, at Position) {
	w.Fixed(at.Ring)
	if table&keys.WideRing != 0 {
		w.Fixed(at.Low)
	}
	w.Bytes(at.Key)
}

// Assemble returns a topology from a header and partition records. Partitions of base without a record are kept. A nil
// record removes a partition. Assemble decodes only the new records. It checks that these records are consistent with
// the whole topology.
func Assemble(base *Snapshot, header []byte, records map[PartitionID][]byte) (*Snapshot, error) {
	s := base.next()
	r, err := open(header)
	if err != nil {
		return nil, err
	}
	s.version, s.nextPartition, s.nextReplica = r.Uint(), PartitionID(r.Uint()), ReplicaID(r.Uint())
	s.level = feature.Level(r.Uint32())
	s.rest = r.fields("the topology header")
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if s.nextPartition > MetaPartition {
		return nil, fmt.Errorf("header: %w", ErrMalformed)
	}
	tables := map[uint32]*edit{}
	of := func(table uint32) *edit {
		if tables[table] == nil {
			tables[table] = &edit{}
		}
		return tables[table]
	}
	for id, record := range records {
		if p := s.Partition(id); p != nil && id != MetaPartition {
			of(p.Table).gone = append(of(p.Table).gone, p)
		}
		if record == nil {
			continue
		}
		p, err := decodePartition(id, record)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", id, err)
		}
		if (id == MetaPartition) != (p.Table == MetaTable) {
			return nil, fmt.Errorf("partition %d: %w", id, ErrMalformed)
		}
		if id == MetaPartition {
			s.meta = p
		} else {
			of(p.Table).come = append(of(p.Table).come, p)
		}
	}
	if record, ok := records[MetaPartition]; ok && record == nil {
		s.meta = nil
	}
	for table, e := range tables {
		s.edit(table, e)
	}
	if err := newValidator(s.Snapshot).edits(tables, records[MetaPartition] != nil); err != nil {
		return nil, err
	}
	return s.Snapshot, nil
}

// decodePartition decodes the output of AppendPartition.
func decodePartition(id PartitionID, record []byte) (*Partition, error) {
	r, err := open(record)
	if err != nil {
		return nil, err
	}
	p := &Partition{ID: id, Table: r.Uint32()}
	p.Span, p.Epoch, p.Moves = r.span(p.Table), r.Uint(), r.Uint()
	p.Level, p.Sets = feature.Level(r.Uint32()), r.sets()
	r.partitionFields(p)
	return p, r.end()
}

// open checks the version of a record, or of the whole topology.
func open(record []byte) (*decoder, error) {
	switch {
	case len(record) == 0 || record[0] < recordVersion:
		return nil, ErrMalformed
	case record[0] > recordVersion:
		return nil, &feature.Newer{What: "the map", Unit: "version", Has: uint64(record[0]), Newest: recordVersion}
	}
	return newDecoder(record[1:]), nil
}

// Append appends the whole topology. Equal topologies have equal bytes.
func (s *Snapshot) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, recordVersion))
	w.Bytes(s.AppendHeader(nil))
	n := s.Len()
	if s.meta != nil {
		n++
	}
	w.Uint(uint64(n))
	for p := range s.All() {
		w.Uint(uint64(p.ID))
		w.Bytes(AppendPartition(nil, p))
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

// Decode decodes and validates the output of Append.
func Decode(src []byte) (*Snapshot, error) {
	r, err := open(src)
	if err != nil {
		return nil, err
	}
	header := r.Bytes()
	records := map[PartitionID][]byte{}
	for range r.Count(2) {
		id, record := PartitionID(r.Uint()), r.Bytes()
		if r.Err() != nil || records[id] != nil {
			return nil, ErrMalformed
		}
		records[id] = record
	}
	if r.End() != nil {
		return nil, ErrMalformed
	}
	s, err := Assemble(New(), header, records)
	if err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return s, nil
}

// decoder decodes the output of the Append functions. Keys in the result are copies.
type decoder struct {
	codec.Reader
	refused *feature.Newer
}

func newDecoder(b []byte) *decoder { return &decoder{Reader: codec.NewReader(b, ErrMalformed)} }

// newer ends the decoding because a newer build wrote the bytes.
func (r *decoder) newer(what, unit string, has, newest uint64) {
	if r.Err() == nil {
		r.refused = &feature.Newer{What: what, Unit: unit, Has: has, Newest: newest}
	}
	r.Fail()
}

// end works like Reader.End, but returns the error that newer has recorded.
func (r *decoder) end() error {
	err := r.End()
	if r.refused != nil {
		return r.refused
	}
	return err
}

// fields reads the list of fields that this build does not know, and returns the encoded fields.
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
		set := ReplicaSet{Region: unique.Make(r.Text()).Value(), Leader: ReplicaID(r.Uint())}
		n := r.Count(18)
		set.Replicas = make([]Replica, 0, n)
		for range n {
			m := Replica{ID: ReplicaID(r.Uint())}
			copy(m.Node[:], r.Take(uint64(len(m.Node))))
			if m.State = MemberState(r.Byte()); m.State > Learner {
				r.newer("a replica of the topology", "state", uint64(m.State), uint64(Learner))
			}
			set.Replicas = append(set.Replicas, m)
		}
		set.rest = r.fields("a replica set of the topology")
		out = append(out, set)
	}
	return out
}
