// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// Birth values of a partition: its first log entry has the next index, so no replica can be replayed from nothing.
const (
	InitialApplied uint64 = 10
	InitialTerm    uint64 = 5
	InitialEpoch   uint64 = 1
)

// ErrCorrupt is returned for bytes that no Append function wrote. What a newer build wrote is a *feature.Newer instead.
var ErrCorrupt = errors.New("corrupt partition meta")

// Meta is what a replica stores about its physical partition, in the same batch as the rows. Its progress may be stored
// apart from the rest: see Progress.
type Meta struct {
	// Partition is the id of the physical partition.
	Partition uint64
	// Applied and Term are those of the last log entry that the rows reflect.
	Applied, Term uint64
	// MaxTimestamp is the highest stamp of a leader that was applied, stand-alone the highest one reserved; in
	// microseconds. It says nothing of which writes were applied: stamps ascend in the log of a key, not of a
	// partition.
	MaxTimestamp int64
	// SchemaVersion is the schema revision that the log has installed.
	SchemaVersion uint64
	// Feature is the feature level that the log has installed. It never falls.
	Feature feature.Level
	Span    Span
	// Epoch grows with every change of the span.
	Epoch uint64
	// Voters are the members that vote; the others as raft's ConfState has them.
	Voters, Learners, VotersOutgoing, LearnersNext []Member
	AutoLeave                                      bool
	// Children are the partitions that split off, oldest first.
	Children []Child
	// Parents are the partitions that this one was born of: none for one of a new table, one after a split.
	Parents []Parent
	// Frozen is the index of the log entry after which the partition takes nothing, since its left neighbour is to have
	// what it holds; 0 if it serves.
	Frozen uint64
	// Absorbed are the partitions whose spans this one has taken, and those that they had taken before, oldest first,
	// AbsorbedMax at most. What a node still has of them is void.
	Absorbed []Absorbed
	// Begun is how much of the entry after Applied the state has already, if it is that entry's.
	Begun Begun
	// Region is that of the replica set, since the partition's birth; empty if it was born without a map.
	Region string
	// Swept is the highest horizon of a sweep of rows or deletions that was applied, in seconds since the epoch: what
	// was deleted or had expired before it may be gone without a trace, so no state from before it can be read or
	// restored. 0: nothing was swept.
	Swept int64
	// FeedLow is the log index of the first entry that a change feed can still be given; 0 is all that the log has. It
	// is reserved: there are no feeds, and the log is cut by what replicas need alone.
	FeedLow uint64

	// Rest has the fields that a later build has added, as they came.
	Rest []byte
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
	// Index is that of the log entry that split it off.
	Index uint64
}

// Parent is a physical partition that this one has its first rows from. The order of writes is (partition, log index):
// what Partition applied up to Index comes before everything in the log of this one.
type Parent struct {
	Partition, Index, Epoch uint64
}

// Absorbed is a physical partition that was merged into this one: what it applied up to Index, at which it was frozen,
// comes before the entry At in the log of this one.
type Absorbed struct {
	Partition, Index, Epoch, At uint64
}

// Begun is how many commands of the log entry Index were applied, where that was stored before the rest of it was.
type Begun struct{ Index, Commands uint64 }

// AbsorbedMax bounds Meta.Absorbed: a replica that was away for more merges is found by the map alone.
const AbsorbedMax = 64

const metaFormat = 2

// The fields of a meta. Frozen must be understood: such a partition serves nobody.
const (
	metaParents = 1
	metaRegion  = 2
	metaSwept   = 3
	metaFeedLow = 4
	metaFrozen  = 5
	metaMerged  = 6
	metaBegun   = 7
	// metaFields is the last one that this build knows.
	metaFields = metaBegun
)

// NewMeta returns the meta of a partition at its birth.
func NewMeta(partition uint64, span Span) Meta {
	return Meta{
		Partition: partition, Applied: InitialApplied, Term: InitialTerm, Span: span, Epoch: InitialEpoch,
		MaxTimestamp: math.MinInt64,
		Feature:      feature.Oldest,
	}
}

// Append appends the encoded meta: the format, then its parts in order; integers are varints, lists have a length.
func (m *Meta) Append(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(metaFormat)
	w.Uint(m.Partition)
	w.Uint(m.Applied)
	w.Uint(m.Term)
	w.Int(m.MaxTimestamp)
	w.Uint(m.SchemaVersion)
	w.Uint(uint64(m.Feature))
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
		w.Uint(c.Index)
	}
	m.appendFields(&w)
	return w
}

func (m *Meta) appendFields(w *codec.Writer) {
	var v codec.Writer
	if len(m.Parents) > 0 {
		v.Uint(uint64(len(m.Parents)))
		for _, p := range m.Parents {
			v.Uint(p.Partition)
			v.Uint(p.Index)
			v.Uint(p.Epoch)
		}
		w.Field(metaParents, false, v)
	}
	if m.Region != "" {
		w.Field(metaRegion, false, []byte(m.Region))
	}
	if m.Swept != 0 {
		v = v[:0]
		v.Int(m.Swept)
		w.Field(metaSwept, false, v)
	}
	if m.FeedLow != 0 {
		v = v[:0]
		v.Uint(m.FeedLow)
		w.Field(metaFeedLow, false, v)
	}
	if m.Frozen != 0 {
		v = v[:0]
		v.Uint(m.Frozen)
		w.Field(metaFrozen, true, v)
	}
	if len(m.Absorbed) > 0 {
		v = v[:0]
		v.Uint(uint64(len(m.Absorbed)))
		for _, a := range m.Absorbed {
			v.Uint(a.Partition)
			v.Uint(a.Index)
			v.Uint(a.Epoch)
			v.Uint(a.At)
		}
		w.Field(metaMerged, true, v)
	}
	if m.Begun != (Begun{}) {
		v = v[:0]
		v.Uint(m.Begun.Index)
		v.Uint(m.Begun.Commands)
		w.Field(metaBegun, true, v)
	}
	w.Raw(m.Rest)
	w.EndFields()
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

// DecodeMeta reads what Append wrote, in this build or in a later one of the same format. Errors are ErrCorrupt or a
// *feature.Newer.
func DecodeMeta(b []byte) (Meta, error) {
	d := decoder{codec.NewReader(b, ErrCorrupt)}
	if err := checkFormat("the meta of a partition", d.Uint(), metaFormat, ErrCorrupt); err != nil {
		return Meta{}, err
	}
	m := Meta{Partition: d.Uint(), Applied: d.Uint(), Term: d.Uint(), MaxTimestamp: d.Int(), SchemaVersion: d.Uint()}
	m.Feature, m.Span, m.Epoch = feature.Level(d.Uint32()), d.span(), d.Uint()
	m.Voters, m.Learners, m.VotersOutgoing, m.LearnersNext = d.members(), d.members(), d.members(), d.members()
	m.AutoLeave = d.Flag()
	for range d.Count(6) {
		m.Children = append(m.Children, Child{Partition: d.Uint(), Span: d.span(), Epoch: d.Uint(), Index: d.Uint()})
	}
	if err := m.decodeFields(&d); err != nil {
		return Meta{}, err
	}
	return m, d.End()
}

func (m *Meta) decodeFields(d *decoder) error {
	rest := codec.Writer(nil)
	for f := d.Field(0); f.Number != 0; f = d.Field(f.Number) {
		v := codec.NewReader(f.Value, ErrCorrupt)
		switch f.Number {
		case metaParents:
			for range v.Count(3) {
				m.Parents = append(m.Parents, Parent{Partition: v.Uint(), Index: v.Uint(), Epoch: v.Uint()})
			}
		case metaRegion:
			m.Region = string(v.Take(uint64(len(f.Value))))
		case metaSwept:
			m.Swept = v.Int()
		case metaFeedLow:
			m.FeedLow = v.Uint()
		case metaFrozen:
			m.Frozen = v.Uint()
		case metaBegun:
			m.Begun = Begun{Index: v.Uint(), Commands: v.Uint()}
		case metaMerged:
			for range v.Count(4) {
				m.Absorbed = append(m.Absorbed,
					Absorbed{Partition: v.Uint(), Index: v.Uint(), Epoch: v.Uint(), At: v.Uint()})
			}
		default:
			if f.Must {
				return &feature.Newer{What: "the meta of a partition", Unit: "field", Has: f.Number, Newest: metaFields}
			}
			rest.Field(f.Number, false, v.Take(uint64(len(f.Value))))
		}
		if err := v.End(); err != nil {
			return err
		}
	}
	m.Rest = rest
	return nil
}

// checkFormat refuses a record of another format than the one that this build writes.
func checkFormat(what string, has, format uint64, corrupt error) error {
	switch {
	case has > format:
		return &feature.Newer{What: what, Unit: "format", Has: has, Newest: format}
	case has < format:
		return corrupt
	}
	return nil
}
