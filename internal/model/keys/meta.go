// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
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
	w := codec.Writer(dst)
	w.Uint(metaFormat)
	w.Uint(m.Partition)
	w.Uint(m.Applied)
	w.Uint(m.Term)
	return w
}

func (m *Meta) appendTail(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Int(m.MaxTimestamp)
	w.Uint(m.SchemaVersion)
	return w
}

// AppendLayout appends the part of the encoded meta that says who holds what: span, epoch, members, children.
func (m *Meta) AppendLayout(dst []byte) []byte {
	w := codec.Writer(dst)
	m.Span.append(&w)
	w.Uint(m.Epoch)
	for _, list := range [][]Member{m.Voters, m.Learners, m.VotersOutgoing, m.LearnersNext} {
		w.Uint(uint64(len(list)))
		for _, v := range list {
			w.Uint(v.Replica)
			w.Raw(v.Node[:])
		}
	}
	w.Flag(m.AutoLeave)
	w.Uint(uint64(len(m.Children)))
	for _, c := range m.Children {
		w.Uint(c.Partition)
		c.Span.append(&w)
		w.Uint(c.Epoch)
	}
	return w
}

func (s *Span) append(w *codec.Writer) { *w = s.Append(*w) }

// decoder takes off what Append wrote. What it returns are copies.
type decoder struct{ codec.Reader }

func (d *decoder) span() Span {
	return Span{Table: d.Uint32(), Begin: append([]byte(nil), d.Bytes()...), End: append([]byte(nil), d.Bytes()...)}
}

func (d *decoder) members() []Member {
	var list []Member
	for range d.Count(1 + len(Member{}.Node)) {
		m := Member{Replica: d.Uint()}
		copy(m.Node[:], d.Take(uint64(len(m.Node))))
		list = append(list, m)
	}
	return list
}

// DecodeMeta reads what Append wrote.
func DecodeMeta(b []byte) (Meta, error) {
	d := decoder{codec.NewReader(b, ErrCorrupt)}
	if d.Uint() != metaFormat {
		return Meta{}, ErrCorrupt
	}
	m := Meta{Format: metaFormat, Partition: d.Uint(), Applied: d.Uint(), Term: d.Uint(), Span: d.span(), Epoch: d.Uint()}
	m.Voters, m.Learners, m.VotersOutgoing, m.LearnersNext = d.members(), d.members(), d.members(), d.members()
	m.AutoLeave = d.Flag()
	for range d.Count(5) {
		m.Children = append(m.Children, Child{Partition: d.Uint(), Span: d.span(), Epoch: d.Uint()})
	}
	m.MaxTimestamp, m.SchemaVersion = d.Int(), d.Uint()
	if err := d.End(); err != nil {
		return Meta{}, err
	}
	return m, nil
}
