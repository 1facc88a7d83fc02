// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"encoding/binary"
	"errors"
	"math"
)

// Birth values of a partition: its first log entry has the next index, so no replica can be replayed from nothing.
const (
	BirthApplied uint64 = 10
	BirthTerm    uint64 = 5
	BirthEpoch   uint64 = 1
)

// ErrCorrupt is returned for bytes that no Append function wrote, or a newer version wrote.
var ErrCorrupt = errors.New("corrupt partition meta")

// Meta is what a replica stores about its physical partition, in the same batch as the rows.
type Meta struct {
	// Format is the version of this record.
	Format uint16
	// Partition is the id of the physical partition.
	Partition uint64
	// Applied and Term are those of the last log entry that the rows reflect.
	Applied, Term uint64
	Span          Span
	// Epoch grows with every change of the span.
	Epoch uint64
	// Voters are the members that vote; the others as raft's ConfState has them.
	Voters, Learners, VotersOutgoing, LearnersNext []Member
	AutoLeave                                      bool
	// Children are the partitions that split off, oldest first.
	Children []Child
	// MaxTimestamp is the highest stamp of a leader that was applied, stand-alone the highest one reserved; in microseconds.
	MaxTimestamp int64
	// SchemaVersion is the schema revision that the log has installed.
	SchemaVersion uint64
}

// Member is a replica and the node it is on.
type Member struct {
	Replica uint64
	Node    [16]byte
}

// Child is a physical partition that took a part of the span.
type Child struct {
	Partition uint64
	Span      Span
	Epoch     uint64
}

const metaFormat = 1

// NewMeta returns the meta of a partition at its birth.
func NewMeta(partition uint64, span Span) Meta {
	return Meta{
		Format: metaFormat, Partition: partition, Applied: BirthApplied, Term: BirthTerm, Span: span, Epoch: BirthEpoch,
		MaxTimestamp: math.MinInt64,
	}
}

// Append appends the encoded meta: the format, then its fields in order; integers are uvarints, lists have a length.
func (m *Meta) Append(dst []byte) []byte {
	dst = m.appendHead(dst)
	dst = m.AppendLayout(dst)
	return m.appendTail(dst)
}

// AppendWith is Append for a meta whose AppendLayout is known: it seldom changes, and the rest with every entry.
func (m *Meta) AppendWith(dst, layout []byte) []byte {
	return m.appendTail(append(m.appendHead(dst), layout...))
}

func (m *Meta) appendHead(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, metaFormat)
	dst = binary.AppendUvarint(dst, m.Partition)
	dst = binary.AppendUvarint(dst, m.Applied)
	return binary.AppendUvarint(dst, m.Term)
}

func (m *Meta) appendTail(dst []byte) []byte {
	dst = binary.AppendVarint(dst, m.MaxTimestamp)
	return binary.AppendUvarint(dst, m.SchemaVersion)
}

// AppendLayout appends the part of the encoded meta that says who holds what: span, epoch, members, children.
func (m *Meta) AppendLayout(dst []byte) []byte {
	dst = appendSpan(dst, m.Span)
	dst = binary.AppendUvarint(dst, m.Epoch)
	for _, list := range [][]Member{m.Voters, m.Learners, m.VotersOutgoing, m.LearnersNext} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, v := range list {
			dst = append(binary.AppendUvarint(dst, v.Replica), v.Node[:]...)
		}
	}
	dst = binary.AppendUvarint(dst, boolBit(m.AutoLeave))
	dst = binary.AppendUvarint(dst, uint64(len(m.Children)))
	for _, c := range m.Children {
		dst = appendSpan(binary.AppendUvarint(dst, c.Partition), c.Span)
		dst = binary.AppendUvarint(dst, c.Epoch)
	}
	return dst
}

func boolBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func appendSpan(dst []byte, s Span) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.Table))
	for _, b := range [][]byte{s.Begin, s.End} {
		dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...)
	}
	return dst
}

// decoder reads fields until one is missing; then bad stays set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, n = true, len(d.b)
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, n = true, len(d.b)
	}
	d.b = d.b[n:]
	return v
}

// count reads the length of a list whose elements take at least one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.bad, n = true, 0
	}
	return int(n)
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.bad, n = true, len(d.b)
	}
	out := append([]byte(nil), d.b[:n]...)
	d.b = d.b[n:]
	return out
}

func (d *decoder) span() Span {
	table := d.uint()
	if table > math.MaxUint32 {
		d.bad = true
	}
	return Span{Table: uint32(table), Begin: d.bytes(d.count()), End: d.bytes(d.count())}
}

func (d *decoder) members() []Member {
	var list []Member
	for n := d.count(); n > 0 && !d.bad; n-- {
		m := Member{Replica: d.uint()}
		copy(m.Node[:], d.bytes(len(m.Node)))
		list = append(list, m)
	}
	return list
}

// DecodeMeta reads what Append wrote.
func DecodeMeta(b []byte) (Meta, error) {
	d := decoder{b: b}
	if d.uint() != metaFormat {
		return Meta{}, ErrCorrupt
	}
	m := Meta{Format: metaFormat, Partition: d.uint(), Applied: d.uint(), Term: d.uint(), Span: d.span(), Epoch: d.uint()}
	m.Voters, m.Learners, m.VotersOutgoing, m.LearnersNext = d.members(), d.members(), d.members(), d.members()
	m.AutoLeave = d.uint() == 1
	for n := d.count(); n > 0 && !d.bad; n-- {
		m.Children = append(m.Children, Child{Partition: d.uint(), Span: d.span(), Epoch: d.uint()})
	}
	m.MaxTimestamp, m.SchemaVersion = d.int(), d.uint()
	if d.bad || len(d.b) > 0 {
		return Meta{}, ErrCorrupt
	}
	return m, nil
}
