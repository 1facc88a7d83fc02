// SPDX-License-Identifier: Apache-2.0

package command

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Version is the version of the encoding written here. It is the first byte of every encoded command; the Kind is the second.
const Version = 1

// Kind says what an encoded command is.
type Kind uint8

// The kinds of encoded commands. The numbers are stored in logs: never change one.
const (
	KindMutation    Kind = 1
	KindConditional Kind = 2
	KindRead        Kind = 3
	KindSweep       Kind = 4
	KindDecision    Kind = 5
	KindEntry       Kind = 6
)

// KindOf returns the kind of an encoded command, 0 if it cannot be one.
func KindOf(src []byte) Kind {
	if len(src) < 2 || src[0] == 0 || src[0] > Version || src[1] > byte(KindEntry) {
		return 0
	}
	return Kind(src[1])
}

// AppendMutation appends the encoded form of m.
func AppendMutation(dst []byte, m *Mutation) []byte {
	a := appender{append(dst, Version, byte(KindMutation))}
	a.mutation(m)
	return a.b
}

// DecodeMutation reads what AppendMutation wrote into m. Byte slices of m are views over src; the capacity of m.Ops is reused.
func DecodeMutation(m *Mutation, src []byte) error {
	r, err := open(src, KindMutation)
	if err != nil {
		return err
	}
	r.mutation(m)
	return r.end()
}

// What an encoded mutation says of its id.
const (
	withoutID = iota
	withID
	withRetried
)

func (a *appender) mutation(m *Mutation) {
	a.heading(m, m.Timestamp, m.Retried)
	a.ops(m.Ops, row.Unstamped)
}

// heading appends what stands before the operands.
func (a *appender) heading(m *Mutation, stamp int64, retried uint32) {
	a.uint(uint64(m.Table))
	a.fixed(int64(m.Token))
	a.bytes(m.Key)
	a.uint(m.SchemaVersion)
	a.uint(m.Epoch)
	a.int(stamp)
	switch {
	case m.Dedupe == DedupeID{}:
		a.byte(withoutID)
	case retried == 0:
		a.byte(withID)
	default:
		a.byte(withRetried)
	}
	if m.Dedupe != (DedupeID{}) {
		a.b = append(a.b, m.Dedupe.Coordinator[:]...)
		a.uint(m.Dedupe.Sequence)
		if retried != 0 {
			a.uint(uint64(retried))
		}
	}
}

// ops appends operands; those that are Unstamped get stamp in the copy.
func (a *appender) ops(ops []Op, stamp int64) {
	a.uint(uint64(len(ops)))
	for i := range ops {
		o := &ops[i]
		a.byte(byte(o.Kind))
		a.bytes(o.Clustering)
		if o.Kind == OpIndex {
			a.uint(uint64(o.Index))
			a.bytes(o.Value)
			continue
		}
		a.bytes(o.Operand)
		if stamp != row.Unstamped {
			row.Stamp(a.b[len(a.b)-len(o.Operand):], stamp)
		}
	}
}

func (r *reader) mutation(m *Mutation) {
	*m = Mutation{Ops: m.Ops[:0]}
	m.Table = r.uint32()
	m.Token = token.Token(r.fixed())
	m.Key = r.bytes()
	m.SchemaVersion = r.uint()
	m.Epoch = r.uint()
	m.Timestamp = r.int()
	id := r.byte()
	if id > withRetried {
		r.fail()
	}
	if id != withoutID {
		copy(m.Dedupe.Coordinator[:], r.take(16))
		m.Dedupe.Sequence = r.uint()
	}
	if id == withRetried {
		m.Retried = r.uint32()
	}
	n := r.count(3)
	for range n {
		o := Op{Kind: OpKind(r.byte()), Clustering: r.bytes()}
		switch o.Kind {
		case OpIndex:
			o.Index = r.uint32()
			o.Value = r.bytes()
		case OpRow, OpHeader:
			o.Operand = r.bytes()
		default:
			r.fail()
		}
		m.Ops = append(m.Ops, o)
	}
}

// AppendConditional appends the encoded form of c.
func AppendConditional(dst []byte, c *Conditional) []byte {
	a := appender{append(dst, Version, byte(KindConditional))}
	a.mutation(&c.Mutation)
	a.uint(uint64(c.Serial))
	a.byte(byte(c.First))
	a.int(c.Now)
	a.columns(c.Dropped)
	a.uint(uint64(len(c.Rows)))
	for i := range c.Rows {
		a.flag(c.Rows[i].Static)
		a.bytes(c.Rows[i].Clustering)
	}
	a.uint(uint64(len(c.Conditions)))
	for i := range c.Conditions {
		k := &c.Conditions[i]
		a.uint(uint64(k.Row))
		a.byte(byte(k.Operator))
		a.uint(uint64(k.Column))
		a.maybeType(k.Type)
		a.null(k.Element)
		a.nulls(k.Values)
	}
	a.uint(uint64(len(c.Updates)))
	for i := range c.Updates {
		u := &c.Updates[i]
		a.uint(uint64(u.Row))
		a.uint(uint64(u.Statement))
		a.byte(byte(u.Kind))
		a.uint(uint64(u.Column))
		a.maybeType(u.Type)
		a.nulls(u.Args)
		a.int(u.Timestamp)
		a.int(int64(u.TTL))
		a.int(u.Expiry)
	}
	return a.b
}

// DecodeConditional reads what AppendConditional wrote. Byte slices of c are views over src.
func DecodeConditional(c *Conditional, src []byte) error {
	r, err := open(src, KindConditional)
	if err != nil {
		return err
	}
	ops := c.Mutation.Ops
	*c = Conditional{}
	c.Mutation.Ops = ops
	r.mutation(&c.Mutation)
	c.Serial = r.consistency()
	if c.First = First(r.byte()); c.First > FirstMarked {
		r.fail()
	}
	c.Now = r.int()
	c.Dropped = r.columns(nil)
	for range r.count(2) {
		c.Rows = append(c.Rows, RowRef{Static: r.flag(), Clustering: r.bytes()})
	}
	for range r.count(6) {
		k := Condition{Row: r.rowNumber(c), Operator: Operator(r.byte()), Column: r.uint32(), Type: r.maybeType(), Element: r.null(), Values: r.nulls(nil)}
		if k.Operator > ContainsKey || (k.Type == nil) != (k.Operator <= NotExists) {
			r.fail()
		}
		c.Conditions = append(c.Conditions, k)
	}
	for range r.count(9) {
		u := Update{
			Row: r.rowNumber(c), Statement: int(r.uint32()), Kind: UpdateKind(r.byte()), Column: r.uint32(), Type: r.maybeType(), Args: r.nulls(nil),
			Timestamp: r.int(), TTL: r.int32(), Expiry: r.int(),
		}
		if u.Kind > ListPut || u.Type == nil {
			r.fail()
		}
		c.Updates = append(c.Updates, u)
	}
	return r.end()
}

func (r *reader) rowNumber(c *Conditional) int {
	n := r.uint()
	if n >= uint64(len(c.Rows)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) consistency() dberr.Consistency {
	v := r.uint()
	if v > uint64(dberr.LocalOne) {
		r.fail()
	}
	return dberr.Consistency(v)
}

// The flags of an encoded Read.
const (
	readAfterPartition = 1 << iota
	readReversed
	readStatics
	readNoRows
	readIndex
	readFlagsEnd
)

// AppendRead appends the encoded form of c.
func AppendRead(dst []byte, c *Read) []byte {
	a := appender{append(dst, Version, byte(KindRead))}
	flags := boolByte(c.AfterPartition)*readAfterPartition | boolByte(c.Reversed)*readReversed | boolByte(c.Statics)*readStatics |
		boolByte(c.NoRows)*readNoRows | boolByte(c.Index != nil)*readIndex
	a.byte(flags)
	a.uint(uint64(c.Table))
	a.null(c.Key)
	a.fixed(int64(c.Token))
	a.uint(c.Range.Begin)
	a.uint(c.Range.Limit)
	a.null(c.AfterKey)
	a.fixed(int64(c.AfterToken))
	a.null(c.AfterClustering)
	a.uint(uint64(len(c.Slices)))
	for i := range c.Slices {
		a.bytes(c.Slices[i].Start)
		a.null(c.Slices[i].End)
	}
	if c.Index != nil {
		a.uint(uint64(c.Index.Index))
		a.bytes(c.Index.Value)
	}
	a.uint(uint64(max(c.Limit, 0)))
	a.int(c.Now)
	a.columns(c.Dropped)
	a.uint(uint64(c.Level))
	a.uint(c.Epoch)
	return a.b
}

// DecodeRead reads what AppendRead wrote. Byte slices of c are views over src.
func DecodeRead(c *Read, src []byte) error {
	r, err := open(src, KindRead)
	if err != nil {
		return err
	}
	*c = Read{Slices: c.Slices[:0]}
	flags := r.byte()
	if flags >= readFlagsEnd {
		r.fail()
	}
	c.AfterPartition = flags&readAfterPartition != 0
	c.Reversed = flags&readReversed != 0
	c.Statics = flags&readStatics != 0
	c.NoRows = flags&readNoRows != 0
	c.Table = r.uint32()
	c.Key = r.null()
	c.Token = token.Token(r.fixed())
	c.Range = token.Range{Begin: r.uint(), Limit: r.uint()}
	if !c.Range.Valid() {
		r.fail()
	}
	c.AfterKey = r.null()
	c.AfterToken = token.Token(r.fixed())
	c.AfterClustering = r.null()
	for range r.count(2) {
		c.Slices = append(c.Slices, Slice{Start: r.bytes(), End: r.null()})
	}
	if flags&readIndex != 0 {
		c.Index = &IndexLookup{Index: r.uint32(), Value: r.bytes()}
	}
	limit := r.uint()
	if limit > math.MaxInt32 {
		limit = math.MaxInt32
	}
	c.Limit = int(limit)
	c.Now = r.int()
	c.Dropped = r.columns(nil)
	c.Level = r.consistency()
	c.Epoch = r.uint()
	return r.end()
}

// AppendSweep appends the encoded form of s.
func AppendSweep(dst []byte, s *Sweep) []byte {
	a := appender{append(dst, Version, byte(KindSweep))}
	a.sweep(s)
	return a.b
}

func (a *appender) sweep(s *Sweep) {
	a.uint(uint64(s.Table))
	a.int(s.Horizon)
	a.columns(s.Dropped)
	a.uint(s.Epoch)
	a.uint(uint64(len(s.Keys)))
	for _, k := range s.Keys {
		a.bytes(k)
	}
}

// DecodeSweep reads what AppendSweep wrote. Keys are views over src.
func DecodeSweep(s *Sweep, src []byte) error {
	r, err := open(src, KindSweep)
	if err != nil {
		return err
	}
	r.sweep(s)
	return r.end()
}

func (r *reader) sweep(s *Sweep) {
	*s = Sweep{Keys: s.Keys[:0], Dropped: s.Dropped[:0]}
	s.Table = r.uint32()
	s.Horizon = r.int()
	s.Dropped = r.columns(s.Dropped)
	s.Epoch = r.uint()
	for range r.count(1) {
		s.Keys = append(s.Keys, r.bytes())
	}
}

// AppendDecision appends the encoded form of d.
func AppendDecision(dst []byte, d *Decision) []byte {
	a := appender{append(dst, Version, byte(KindDecision))}
	a.flag(d.Applied)
	a.int(d.Timestamp)
	a.uint(uint64(len(d.Found)))
	for _, f := range d.Found {
		a.foundRow(f)
	}
	a.flag(d.First != nil)
	if d.First != nil {
		a.bytes(d.First.Clustering)
		a.foundRow(d.First.Row)
	}
	return a.b
}

func (a *appender) foundRow(f *row.Row) {
	a.flag(f != nil)
	if f == nil {
		return
	}
	a.flag(f.Live)
	a.int(f.Liveness.Timestamp)
	a.int(int64(f.Liveness.TTL))
	a.int(f.Liveness.Expiry)
	a.uint(uint64(len(f.Cells)))
	for i := range f.Cells {
		c := &f.Cells[i]
		a.uint(uint64(c.Column))
		a.null(c.Path)
		a.bytes(c.Value)
		a.int(c.Timestamp)
		a.int(int64(c.TTL))
		a.int(c.Expiry)
	}
}

// DecodeDecision reads what AppendDecision wrote. Byte slices of d are views over src.
func DecodeDecision(d *Decision, src []byte) error {
	r, err := open(src, KindDecision)
	if err != nil {
		return err
	}
	*d = Decision{}
	d.Applied = r.flag()
	d.Timestamp = r.int()
	for range r.count(1) {
		d.Found = append(d.Found, r.foundRow())
	}
	if r.flag() {
		d.First = &FoundRow{Clustering: r.bytes(), Row: r.foundRow()}
	}
	return r.end()
}

func (r *reader) foundRow() *row.Row {
	if !r.flag() {
		return nil
	}
	f := &row.Row{Live: r.flag()}
	f.Liveness = row.Liveness{Timestamp: r.int(), TTL: r.int32(), Expiry: r.int()}
	for range r.count(6) {
		f.Cells = append(f.Cells, row.Cell{Column: r.uint32(), Path: r.null(), Value: r.bytes(), Timestamp: r.int(), TTL: r.int32(), Expiry: r.int()})
	}
	return f
}
