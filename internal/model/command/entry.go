// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// EntryKind is the kind of a command in a replica set's log. The numbers are stored in logs, so they must never change.
type EntryKind uint8

// These are the kinds of an Entry.
const (
	// EntryWrite applies the stamped mutations of one physical partition atomically.
	EntryWrite EntryKind = 1
	// EntrySweep removes data that no reader can see.
	EntrySweep EntryKind = 2
	// EntryTruncate removes all rows of the partition.
	EntryTruncate EntryKind = 3
	// EntryRequire makes the partition reject mutations that were planned for an older schema revision.
	EntryRequire EntryKind = 4
	// EntryRecords changes keys of the meta partition.
	EntryRecords EntryKind = 5
	// EntryFeature raises the feature level of the partition.
	EntryFeature EntryKind = 6
	// EntrySplit moves the end of the partition's span to a new partition. It requires feature level 2.
	EntrySplit EntryKind = 7
	// EntryFreeze makes the partition reject all commands, because its left neighbor is about to take over its data.
	// EntryUnfreeze undoes EntryFreeze and raises the epoch. EntryMerge adds the span of a frozen right neighbor. These
	// kinds require feature level 2.
	EntryFreeze   EntryKind = 8
	EntryUnfreeze EntryKind = 9
	EntryMerge    EntryKind = 10
	// entryKinds is the highest number of an EntryKind.
	entryKinds = EntryMerge
)

// Entry is a command of a replica set's log. To apply an entry, a replica reads only the store and the entry (CM1).
type Entry struct {
	Kind EntryKind
	// Epoch is the partition's epoch when the entry was proposed. An entry with an outdated epoch was made for another
	// span, so it is rejected when it is applied.
	Epoch uint64
	// Span is the part of the ring for which the entry was made, if the keys of the entry do not determine this part.
	// If Table is 0, the entry has no span.
	Span keys.Span
	// Mutations holds the mutations of an EntryWrite.
	Mutations []Mutation
	// Result is stored as the dedupe record of Mutations[0]. Result is nil if no record is stored.
	Result []byte
	Sweep  Sweep
	// Indexes lists the table's indexes whose entries EntryTruncate also removes.
	Indexes []uint32
	// ID is the dedupe ID of an EntryTruncate. Replicas remember it in the same way as the IDs of writes. The zero
	// value means that the entry has no ID. ID requires feature level 7.
	ID DedupeID
	// SchemaVersion is the minimum schema revision that EntryRequire installs.
	SchemaVersion uint64
	Records       Records
	// Level is the feature level to which EntryFeature raises the partition.
	Level feature.Level
	Split Split
	Merge Merge
}

// Merge describes an EntryMerge. The partition takes over the span of Right, which starts at the end of the
// partition's own span. Every replica of Right has frozen at the index Frozen of Right's log and at the epoch
// RightEpoch.
type Merge struct{ Right, Frozen, RightEpoch uint64 }

// Split describes an EntrySplit. A new partition takes over all positions starting at At. Its members are on the nodes
// of the old partition's members. Until their first election timeout has passed, the members vote only for the member
// on Leader. Until the leader of the old partition has applied the entry, it may serve reads.
type Split struct {
	// Child is the ID of the new partition.
	Child uint64
	// At is a boundary in the form of keys.Span. It is inside the old partition's span and after its start.
	At []byte
	// Voters and Learners are the members of the new partition.
	Voters, Learners []keys.Member
	// Leader is the node that proposed the entry.
	Leader [16]byte
}

// Record is a key and value of the meta partition. A nil Value deletes the key.
type Record struct{ Key, Value []byte }

// Records is a compare-and-set change of the meta partition.
type Records struct {
	// Expect is the metadata version on which the change is based. The value 0 matches any version.
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

// These are the fields of an entry.
const (
	entrySpan = 1
	entryID   = 2
	// entryExpired is the field of Sweep.Expired.
	entryExpired = 3
	// entryDropped is the field of Sweep.Dropped. The field requires feature level 8.
	entryDropped = 4
	// entryFields is the highest field number that this build supports.
	entryFields = entryDropped
)

// entryHead appends the fields at the start of every entry.
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

// entryHead reads the fields at the start of every entry into e.
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

// expiredOf decodes a Sweep.Expired.
func expiredOf(b []byte) (x row.Expired, ok bool) {
	own, n := binary.Varint(b)
	if n <= 0 {
		return x, false
	}
	def, m := binary.Varint(b[n:])
	return row.Expired{Own: own, Default: def}, m > 0 && n+m == len(b)
}

// BeginWrite appends the start of an EntryWrite of n mutations. AddWrite then adds the mutations one by one. epoch is
// the partition's epoch.
func BeginWrite(dst []byte, epoch uint64, n int, result []byte) []byte {
	a := appender{append(dst, Version, byte(kindEntry), byte(EntryWrite))}
	a.Uint(epoch)
	a.EndFields()
	a.Null(result)
	a.Uint(uint64(n))
	return a.Writer
}

// AddWrite appends a mutation with the leader's timestamp. Unstamped operands also get this timestamp. The mutation
// itself does not change, so it can be sent again.
func AddWrite(dst []byte, m *Mutation, stamp int64) []byte { return AddWriteAt(dst, m, stamp, stamp) }

// AddWriteAt works like AddWrite for a mutation whose operands get a different timestamp than the mutation. The
// operands' timestamp needs to exceed only the timestamps of the data that the operands replace. The leader's
// timestamp may be much higher, and must not raise the timestamps of other keys.
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

// headingSlack and opSlack estimate the encoded size of a mutation and of an operand, excluding keys and values.
const headingSlack, opSlack = 64, 20

// AppendRecords appends the encoded form of c for transmission between nodes.
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

// DecodeEntry reads the output of AppendEntry into e. Byte slices of e point into src. The capacity of e's lists and
// of the operands of its mutations is reused.
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
	case EntryFreeze, EntryUnfreeze:
	case EntryMerge:
		e.Merge = Merge{Right: r.Uint(), Frozen: r.Uint(), RightEpoch: r.Uint()}
	case 0:
		r.Fail()
	default:
		r.newer("a log entry", "kind", uint64(e.Kind), uint64(entryKinds))
	}
	return r.end()
}

// KindOfEntry returns the kind of an encoded entry without decoding the rest. KindOfEntry returns 0 if src is not an
// entry.
func KindOfEntry(src []byte) EntryKind {
	if len(src) < 3 || src[1] != byte(kindEntry) {
		return 0
	}
	return EntryKind(src[2])
}

// mutations reuses the memory of operands that were previously decoded into e.
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

// DecodeRecords reads the output of AppendRecords. Keys and values point into src.
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
