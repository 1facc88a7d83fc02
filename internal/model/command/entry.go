// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// EntryKind says what a command of a replica set's log does. The numbers are stored in logs: never change one.
type EntryKind uint8

// The kinds of an Entry.
const (
	// EntryWrite applies stamped mutations of one physical partition as one.
	EntryWrite EntryKind = 1
	// EntrySweep removes what nobody can see any more.
	EntrySweep EntryKind = 2
	// EntryTruncate removes all rows of the partition.
	EntryTruncate EntryKind = 3
	// EntryRequire makes the partition refuse mutations that were planned for an older revision of the schema.
	EntryRequire EntryKind = 4
	// EntryRecords changes records of the meta partition.
	EntryRecords EntryKind = 5
	// EntryFeature raises the feature level of the partition.
	EntryFeature EntryKind = 6
	// EntrySplit gives the end of the partition's span to a new partition. It is of feature level 2.
	EntrySplit EntryKind = 7
	// EntryFreeze has the partition take nothing any more: its left neighbour is to have all it holds. EntryThaw takes
	// that back, and raises the epoch. EntryMerge adds a frozen right neighbour's span. They are of feature level 2.
	EntryFreeze EntryKind = 8
	EntryThaw   EntryKind = 9
	EntryMerge  EntryKind = 10
	// entryKinds is the last of them.
	entryKinds = EntryMerge
)

// Entry is a command of a replica set's log. Applying it reads nothing but the store and the entry (CM1).
type Entry struct {
	Kind EntryKind
	// Epoch is that of the partition when the entry was proposed. An entry whose epoch has passed when it is applied
	// was made for another span, and is refused.
	Epoch uint64
	// Span is the part of the ring that the entry was made for, where its keys do not say so; Table 0 is none.
	Span keys.Span
	// Mutations belong to EntryWrite.
	Mutations []Mutation
	// Result is stored as the dedupe record of Mutations[0]; nil for none.
	Result []byte
	Sweep  Sweep
	// Indexes are those of the table whose entries EntryTruncate removes, too.
	Indexes []uint32
	// ID is the dedupe ID of an EntryTruncate, which replicas remember as they do those of writes; the zero value is
	// none. It is of feature level 7.
	ID DedupeID
	// SchemaVersion is what EntryRequire asks for.
	SchemaVersion uint64
	Records       Records
	// Level is what EntryFeature raises the partition's to.
	Level feature.Level
	Split Split
	Merge Merge
}

// Merge is what EntryMerge does: the partition takes the span of Right, which ends where its own did before, and which
// every replica of Right has frozen at the index Frozen of that one's log, at the epoch RightEpoch.
type Merge struct{ Right, Frozen, RightEpoch uint64 }

// Split is what EntrySplit does: a new partition is born that holds what began at At. Its members are on the nodes of
// the partition's own; until its first election timeout has passed they vote for none but the one on Leader, for the
// leader of the old partition may serve reads until it has applied the entry.
type Split struct {
	// Child is the id of the new partition.
	Child uint64
	// At is a boundary as in keys.Span, inside the old partition's span and after its beginning.
	At []byte
	// Voters and Learners are the members of the new partition.
	Voters, Learners []keys.Member
	// Leader is the node that proposed the entry.
	Leader [16]byte
}

// Record is a record of the meta partition. A nil Value deletes it.
type Record struct{ Key, Value []byte }

// Records is a change of the meta partition: compare and set.
type Records struct {
	// Expect is the version of the records that the change is based on; 0 is any.
	Expect uint64
	Put    []Record
}

// AppendEntry appends the encoded form of e.
func AppendEntry(dst []byte, e *Entry) []byte {
	a := entryHead(dst, e)
	switch e.Kind {
	case EntryWrite:
		a.Null(e.Result)
		a.Uint(uint64(len(e.Mutations)))
		for i := range e.Mutations {
			a.mutation(&e.Mutations[i])
		}
	case EntrySweep:
		a.sweep(&e.Sweep)
	case EntryTruncate:
		a.columns(e.Indexes)
	case EntryRequire:
		a.Uint(e.SchemaVersion)
	case EntryRecords:
		a.records(&e.Records)
	case EntryFeature:
		a.Uint(uint64(e.Level))
	case EntrySplit:
		a.split(&e.Split)
	case EntryMerge:
		a.Uint(e.Merge.Right)
		a.Uint(e.Merge.Frozen)
		a.Uint(e.Merge.RightEpoch)
	}
	return a.Writer
}

// The fields of an entry.
const (
	entrySpan = 1
	entryID   = 2
	// entryExpired is Sweep.Expired.
	entryExpired = 3
	// entryDropped is Sweep.Dropped. It requires feature level 8.
	entryDropped = 4
	// entryFields is the last field that this build supports.
	entryFields = entryDropped
)

// entryHead appends what all entries begin with.
func entryHead(dst []byte, e *Entry) appender {
	a := appender{append(dst, Version, byte(kindEntry), byte(e.Kind))}
	a.Uint(e.Epoch)
	if e.Span.Table != 0 {
		a.Field(entrySpan, true, e.Span.Append(nil))
	}
	if e.ID != (DedupeID{}) {
		a.Field(entryID, true, keys.AppendDedupeID(nil, e.ID))
	}
	if x := e.Sweep.Expired; x != (row.Expired{}) {
		a.Field(entryExpired, true, binary.AppendVarint(binary.AppendVarint(nil, x.Own), x.Default))
	}
	a.droppedUpto(entryDropped, e.Sweep.Dropped)
	a.EndFields()
	return a
}

// entryHead reads them into e.
func (r *reader) entryHead(e *Entry) {
	e.Kind, e.Epoch = EntryKind(r.Byte()), r.Uint()
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		ok := true
		switch f.Number {
		case entrySpan:
			var err error
			e.Span, err = keys.DecodeSpan(f.Value)
			ok = err == nil && e.Span.Table != 0
		case entryID:
			e.ID, ok = keys.DedupeIDOf(f.Value)
			ok = ok && e.Kind == EntryTruncate
		case entryExpired:
			e.Sweep.Expired, ok = expiredOf(f.Value)
			ok = ok && e.Kind == EntrySweep
		case entryDropped:
			ok = e.Kind == EntrySweep
			e.Sweep.Dropped = r.droppedUpto(f, e.Sweep.Dropped)
		default:
			r.unknown("a log entry", f, entryFields)
		}
		if !ok {
			r.Fail()
			return
		}
	}
}

// expiredOf reads a Sweep.Expired.
func expiredOf(b []byte) (x row.Expired, ok bool) {
	own, n := binary.Varint(b)
	if n <= 0 {
		return x, false
	}
	def, m := binary.Varint(b[n:])
	return row.Expired{Own: own, Default: def}, m > 0 && n+m == len(b)
}

// BeginWrite appends the beginning of an EntryWrite of n mutations, which AddWrite adds one by one. epoch is the
// partition's.
func BeginWrite(dst []byte, epoch uint64, n int, result []byte) []byte {
	a := appender{append(dst, Version, byte(kindEntry), byte(EntryWrite))}
	a.Uint(epoch)
	a.EndFields()
	a.Null(result)
	a.Uint(uint64(n))
	return a.Writer
}

// AddWrite appends a mutation with the leader's stamp, also for the operands that are Unstamped. The mutation itself
// stays as it is, so that it can be sent again.
func AddWrite(dst []byte, m *Mutation, stamp int64) []byte { return AddWriteAt(dst, m, stamp, stamp) }

// AddWriteAt is AddWrite for a mutation whose operands are stamped above what they are to be seen over, and not with
// the leader's stamp: which may be far above it, and must not raise the stamps of other keys.
func AddWriteAt(dst []byte, m *Mutation, stamp, operands int64) []byte {
	size := headingSlack + len(m.Key)
	for i := range m.Ops {
		o := &m.Ops[i]
		size += opSlack + len(o.Clustering) + len(o.Value) + len(o.Operand)
	}
	a := appender{slices.Grow(dst, size)}
	a.heading(m, stamp, false)
	a.ops(m.Ops, operands)
	return a.Writer
}

// headingSlack and opSlack are about what a mutation, and each of its operands, takes beside keys and values.
const headingSlack, opSlack = 64, 20

// AppendRecords appends the encoded form of c, as it is sent between nodes.
func AppendRecords(dst []byte, c *Records) []byte {
	return AppendEntry(dst, &Entry{Kind: EntryRecords, Records: *c})
}

func (a *appender) records(c *Records) {
	a.Uint(c.Expect)
	a.Uint(uint64(len(c.Put)))
	for i := range c.Put {
		a.Bytes(c.Put[i].Key)
		a.Null(c.Put[i].Value)
	}
}

// DecodeEntry reads what AppendEntry wrote into e. Byte slices of e are views over src; the capacity of e's lists, and
// of the operands of its mutations, is reused.
func DecodeEntry(e *Entry, src []byte) error {
	r, err := open(src, kindEntry)
	if err != nil {
		return err
	}
	*e = Entry{
		Mutations: e.Mutations[:0], Indexes: e.Indexes[:0], Records: Records{Put: e.Records.Put[:0]},
		Sweep: Sweep{Keys: e.Sweep.Keys[:0], Dropped: e.Sweep.Dropped[:0]},
	}
	r.entryHead(e)
	switch e.Kind {
	case EntryWrite:
		e.Result = r.Null()
		r.mutations(e)
	case EntrySweep:
		r.sweep(&e.Sweep)
	case EntryTruncate:
		e.Indexes = r.columns(e.Indexes)
	case EntryRequire:
		e.SchemaVersion = r.Uint()
	case EntryRecords:
		r.records(&e.Records)
	case EntryFeature:
		e.Level = feature.Level(r.Uint32())
	case EntrySplit:
		r.split(&e.Split)
	case EntryFreeze, EntryThaw:
	case EntryMerge:
		e.Merge = Merge{Right: r.Uint(), Frozen: r.Uint(), RightEpoch: r.Uint()}
	case 0:
		r.Fail()
	default:
		r.newer("a log entry", "kind", uint64(e.Kind), uint64(entryKinds))
	}
	return r.end()
}

// KindOfEntry is the kind of what AppendEntry wrote, without decoding it; 0 if it is nothing of that.
func KindOfEntry(src []byte) EntryKind {
	if len(src) < 3 || src[1] != byte(kindEntry) {
		return 0
	}
	return EntryKind(src[2])
}

// mutations keeps the operands' memory of what was decoded into e before.
func (r *reader) mutations(e *Entry) {
	n := r.Count(15)
	if n == 0 {
		r.Fail()
	}
	for i := range n {
		if i < cap(e.Mutations) {
			e.Mutations = e.Mutations[:i+1]
		} else {
			e.Mutations = append(e.Mutations, Mutation{})
		}
		r.mutation(&e.Mutations[i])
	}
}

func (a *appender) split(s *Split) {
	a.Uint(s.Child)
	a.Bytes(s.At)
	a.Raw(s.Leader[:])
	for _, list := range [2][]keys.Member{s.Voters, s.Learners} {
		a.Uint(uint64(len(list)))
		for i := range list {
			a.Uint(list[i].Replica)
			a.Raw(list[i].Node[:])
		}
	}
}

func (r *reader) split(s *Split) {
	s.Child, s.At = r.Uint(), r.Bytes()
	copy(s.Leader[:], r.Take(16))
	for _, list := range [2]*[]keys.Member{&s.Voters, &s.Learners} {
		for range r.Count(17) {
			m := keys.Member{Replica: r.Uint()}
			copy(m.Node[:], r.Take(16))
			*list = append(*list, m)
		}
	}
}

func (r *reader) records(c *Records) {
	c.Expect = r.Uint()
	for range r.Count(2) {
		c.Put = append(c.Put, Record{Key: r.Bytes(), Value: r.Null()})
	}
}

// DecodeRecords reads what AppendRecords wrote. Keys and values are views over src.
func DecodeRecords(c *Records, src []byte) error {
	var e Entry
	if err := DecodeEntry(&e, src); err != nil {
		return err
	}
	if e.Kind != EntryRecords {
		return ErrMalformed
	}
	*c = e.Records
	return nil
}
