// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// These are the initial values of a partition's meta. The first log entry has the next index. A replica therefore
// cannot be recreated by replaying the log on an empty state.
const (
	InitialApplied uint64 = 10
	InitialTerm    uint64 = 5
	InitialEpoch   uint64 = 1
)

// ErrCorrupt is the error for bytes that no Append function wrote. For data from a newer build, the error is a
// *feature.Newer.
var ErrCorrupt = errors.New("corrupt partition metadata")

// Meta is a replica's metadata about its physical partition. Meta is stored in the same batch as the rows. Its
// progress may be stored separately (see Progress).
type Meta struct {
	// Partition is the ID of the physical partition.
	Partition uint64
	// Applied and Term are the index and term of the last log entry that the rows include.
	Applied, Term uint64
	// MaxTimestamp is the highest applied timestamp of a leader, in microseconds. On a standalone node, it is the
	// highest reserved timestamp. It does not indicate which writes have been applied, because timestamps ascend only
	// per key.
	MaxTimestamp int64
	// SchemaVersion is the schema revision that entries of the log have installed.
	SchemaVersion uint64
	// Feature is the feature level that the log has installed. Feature never decreases.
	Feature feature.Level
	Span    Span
	// Epoch increases with every change of the span.
	Epoch uint64
	// Voters lists the voting members. The other lists have the same meaning as in raft's ConfState.
	Voters, Learners, VotersOutgoing, LearnersNext []Member
	AutoLeave                                      bool
	// Children lists the partitions that were split off, oldest first.
	Children []Child
	// Parents lists the partitions from which this partition was created. A new table has no parents, and a partition
	// that was split off has one parent.
	Parents []Parent
	// Frozen is the index of the log entry after which the partition accepts no commands. At that time, its left
	// neighbor is about to take over its data. Frozen is 0 if the partition accepts commands.
	Frozen uint64
	// Absorbed lists the partitions whose spans this partition has taken over. It includes the partitions that these
	// partitions had taken over before. Absorbed contains at most AbsorbedMax partitions, oldest first. Data of these
	// partitions that a node still stores is obsolete.
	Absorbed []Absorbed
	// Begun is the number of commands that the state already includes from the entry after Applied.
	Begun Begun
	// Region is the region of the replica set since the partition was created. Region is empty if the partition was
	// created without a topology.
	Region string
	// Swept is the highest horizon of an applied sweep of rows or deletions, in seconds since the epoch. Swept is 0 if
	// no sweep has been applied. Data that was deleted or had expired before the horizon may have been removed.
	// Earlier states therefore cannot be read or restored.
	Swept int64
	// FeedLow is reserved for the log index of the first entry that a change feed can still return. The value 0 means
	// the whole log. FeedLow is unused because change feeds do not read the log. Log truncation depends only on the
	// replicas.
	FeedLow uint64

	// Rest holds the encoded fields that a later build has added.
	Rest []byte
}

// Member is a replica and its node.
type Member struct {
	Replica uint64
	Node    [16]byte
}

// Child is a physical partition that was split off and took over part of the span.
type Child struct {
	Partition uint64
	Span      Span
	Epoch     uint64
	// Index is the index of the log entry that split off the partition.
	Index uint64
}

// Parent is a physical partition from which this partition received its first rows. Writes are ordered by (partition,
// log index). All entries that Partition applied up to Index precede the log of this partition.
type Parent struct {
	Partition, Index, Epoch uint64
}

// Absorbed is a physical partition that was merged into this partition. The absorbed partition was frozen at Index.
// All entries that it applied up to Index precede entry At of this partition's log.
type Absorbed struct {
	Partition, Index, Epoch, At uint64
}

// Begun is the number of applied commands of log entry Index. It is set if these commands were stored before the rest
// of the entry.
type Begun struct{ Index, Commands uint64 }

// AbsorbedMax is the maximum length of Meta.Absorbed. If a replica has missed more merges, it is detected only through
// the topology.
const AbsorbedMax = 64

const metaFormat = 2

// These are the fields of a meta. Builds must understand Frozen, because a frozen partition serves no requests.
const (
	metaParents = 1
	metaRegion  = 2
	metaSwept   = 3
	metaFeedLow = 4
	metaFrozen  = 5
	metaMerged  = 6
	metaBegun   = 7
	// metaFields is the highest field number that this build supports.
	metaFields = metaBegun
)

// NewMeta returns the initial meta of a partition.
func NewMeta(partition uint64, span Span) Meta {
	return Meta{
		Partition: partition, Applied: InitialApplied, Term: InitialTerm, Span: span, Epoch: InitialEpoch,
		MaxTimestamp: math.MinInt64,
		Feature:      feature.Oldest,
	}
}

// Append appends the encoded meta, which consists of the format and the parts in order. Integers are varints, and
// lists start with their length.
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

// decoder decodes the output of Append. decoder returns copies.
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

// DecodeMeta decodes the output of Append of this build, or of a later build with the same format. On failure, it
// returns ErrCorrupt or a *feature.Newer.
func DecodeMeta(b []byte) (Meta, error) {
	d := decoder{codec.NewReader(b, ErrCorrupt)}
	if err := checkFormat("partition metadata", d.Uint(), metaFormat, ErrCorrupt); err != nil {
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
				return &feature.Newer{What: "partition metadata", Unit: "field", Has: f.Number, Newest: metaFields}
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

// checkFormat rejects a record whose format is not the format that this build writes.
func checkFormat(what string, has, format uint64, corrupt error) error {
	switch {
	case has > format:
		return &feature.Newer{What: what, Unit: "format", Has: has, Newest: format}
	case has < format:
		return corrupt
	}
	return nil
}
