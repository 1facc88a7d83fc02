// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/binary"
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Version is the version of the encoding. The first byte of every encoded command is the version, and the second byte
// is the kind. The version changes only if the common structure of all commands changes. All other additions use a new
// field or a new kind (RFC 0006).
const Version = 2

// kind is the kind of an encoded command.
type kind uint8

// These are the kinds of encoded commands. The numbers are stored in logs, so they must never change.
const (
	kindMutation    kind = 1
	kindConditional kind = 2
	kindRead        kind = 3
	_               kind = 4 // formerly a sweep that was not in an entry
	kindDecision    kind = 5
	kindEntry       kind = 6
)

// mutationPrincipal is the field number of a mutation's principal. Every command has a list of fields (see codec)
// between its fixed part and its lists. In a mutation, field 1 is reserved for the region of origin. Field 2 is
// reserved for its transaction, and builds must understand the field.
const mutationPrincipal = 3

// AppendMutation appends the encoded form of m.
func AppendMutation(dst []byte, m *Mutation) []byte {
	a := appender{append(dst, Version, byte(kindMutation))}
	a.mutation(m)
	return a.Writer
}

// DecodeMutation reads the output of AppendMutation into m. Byte slices of m point into src. The capacity of m.Ops is
// reused.
func DecodeMutation(m *Mutation, src []byte) error {
	r, err := open(src, kindMutation)
	if err != nil {
		return err
	}
	r.mutation(m)
	return r.end()
}

// These values describe the dedupe ID of an encoded mutation.
const (
	withoutID = iota
	withID
	withRetried
	withSent
)

func (a *appender) mutation(m *Mutation) {
	a.heading(m, m.Timestamp, true)
	a.ops(m.Ops, row.Unstamped)
}

// heading appends the part before the operands. If sent is true, this part includes the state of the attempt.
func (a *appender) heading(m *Mutation, stamp int64, sent bool) {
	a.Uint(uint64(m.Table))
	a.position(m.Table, m.Token, m.Low)
	a.Bytes(m.Key)
	a.Uint(m.SchemaVersion)
	a.Uint(m.Epoch)
	a.Int(stamp)
	id := byte(withID)
	switch {
	case m.Dedupe == DedupeID{}:
		id = withoutID
	case sent && m.Retried:
		id = withRetried
	case sent && m.Sent:
		id = withSent
	}
	a.Byte(id)
	if m.Dedupe != (DedupeID{}) {
		a.Raw(m.Dedupe.Coordinator[:])
		a.Uint(m.Dedupe.Sequence)
		if id >= withRetried {
			a.Uint(m.Known)
		}
	}
	if sent {
		a.principal(mutationPrincipal, m.Principal)
	}
	a.EndFields()
}

// ops appends operands. In the encoded copy, unstamped operands get the timestamp stamp.
func (a *appender) ops(ops []Op, stamp int64) {
	a.Uint(uint64(len(ops)))
	for i := range ops {
		o := &ops[i]
		a.Byte(byte(o.Kind))
		a.Bytes(o.Clustering)
		switch o.Kind {
		case OpIndex:
			a.Uint(uint64(o.Index))
			a.Bytes(o.Value)
			continue
		case OpChange:
			a.Uint(uint64(o.Index))
			a.Bytes(o.Value)
		}
		a.Bytes(o.Operand)
		if stamp != row.Unstamped {
			row.Stamp(a.Writer[len(a.Writer)-len(o.Operand):], stamp)
		}
	}
}

func (r *reader) mutation(m *Mutation) {
	*m = Mutation{Ops: m.Ops[:0]}
	m.Table = r.Uint32()
	m.Token, m.Low = r.position(m.Table)
	m.Key = r.Bytes()
	m.SchemaVersion = r.Uint()
	m.Epoch = r.Uint()
	m.Timestamp = r.Int()
	id := r.Byte()
	if id > withSent {
		r.Fail()
	}
	if id != withoutID {
		copy(m.Dedupe.Coordinator[:], r.Take(16))
		m.Dedupe.Sequence = r.Uint()
	}
	if m.Retried, m.Sent = id == withRetried, id == withSent; id >= withRetried {
		m.Known = r.Uint()
	}
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		if f.Number == mutationPrincipal {
			m.Principal = r.principal(f)
			continue
		}
		r.unknown("a mutation", f, mutationPrincipal)
	}
	n := r.Count(3)
	for range n {
		o := Op{Kind: OpKind(r.Byte()), Clustering: r.Bytes()}
		switch o.Kind {
		case OpIndex:
			o.Index = r.Uint32()
			o.Value = r.Bytes()
		case OpRow, OpHeader:
			o.Operand = r.Bytes()
		case OpChange:
			o.Index, o.Value, o.Operand = r.Uint32(), r.Bytes(), r.Bytes()
			if o.Index&^changeFlags != 0 || len(o.Value) != 0 && len(o.Value) != 8 {
				r.Fail()
			}
		default:
			r.newer("a mutation", "operand kind", uint64(o.Kind), uint64(OpChange))
			return
		}
		m.Ops = append(m.Ops, o)
	}
}

// AppendConditional appends the encoded form of c.
func AppendConditional(dst []byte, c *Conditional) []byte {
	a := appender{append(dst, Version, byte(kindConditional))}
	a.mutation(&c.Mutation)
	a.Uint(uint64(c.Serial))
	a.Byte(byte(c.First))
	a.Int(c.Now)
	a.dropped(c.Dropped)
	if c.MaxCharge > 0 {
		var number [binary.MaxVarintLen64]byte
		a.Field(conditionalMaxCharge, true, binary.AppendUvarint(number[:0], uint64(c.MaxCharge)))
	}
	if c.Program != nil {
		a.Field(conditionalProgram, true, c.Program)
	}
	if c.Dry {
		a.Field(conditionalDry, true, nil)
	}
	if c.Log != nil {
		var number [binary.MaxVarintLen64]byte
		a.Field(conditionalLog, true, binary.AppendUvarint(number[:0], uint64(max(c.Log.Keep, 0))))
	}
	if c.Issued > 0 {
		var number [binary.MaxVarintLen64]byte
		a.Field(conditionalIssued, false, binary.AppendUvarint(number[:0], uint64(c.Issued)))
	}
	a.droppedUpto(conditionalDropped, c.Dropped)
	a.EndFields()
	a.Uint(uint64(len(c.Rows)))
	for i := range c.Rows {
		a.Flag(c.Rows[i].Static)
		a.Bytes(c.Rows[i].Clustering)
	}
	a.Uint(uint64(len(c.Conditions)))
	for i := range c.Conditions {
		k := &c.Conditions[i]
		a.Uint(uint64(k.Row))
		a.Byte(byte(k.Operator))
		a.Uint(uint64(k.Column))
		a.maybeType(k.Type)
		a.Null(k.Element)
		a.nulls(k.Values)
	}
	a.Uint(uint64(len(c.Updates)))
	for i := range c.Updates {
		u := &c.Updates[i]
		a.Uint(uint64(u.Row))
		a.Uint(uint64(u.Statement))
		a.Byte(byte(u.Kind))
		a.Uint(uint64(u.Column))
		a.maybeType(u.Type)
		a.nulls(u.Args)
		a.Int(u.Timestamp)
		a.Int(int64(u.TTL))
		a.Int(u.Expiry)
	}
	return a.Writer
}

// DecodeConditional reads the output of AppendConditional. Byte slices of c point into src.
func DecodeConditional(c *Conditional, src []byte) error {
	r, err := open(src, kindConditional)
	if err != nil {
		return err
	}
	ops := c.Mutation.Ops
	*c = Conditional{}
	c.Mutation.Ops = ops
	r.mutation(&c.Mutation)
	c.Serial = r.consistency()
	if c.First = First(r.Byte()); c.First > FirstMarked {
		r.Fail()
	}
	c.Now = r.Int()
	c.Dropped = r.dropped(nil)
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		switch f.Number {
		case conditionalMaxCharge:
			c.MaxCharge = r.number(f)
		case conditionalProgram:
			c.Program = f.Value
		case conditionalDry:
			c.Dry = true
		case conditionalLog:
			c.Log = &ChangeLog{Keep: r.number(f)}
		case conditionalIssued:
			c.Issued = r.number(f)
		case conditionalDropped:
			c.Dropped = r.droppedUpto(f, c.Dropped)
		default:
			r.unknown("a conditional", f, conditionalDropped)
		}
	}
	for range r.Count(2) {
		c.Rows = append(c.Rows, RowRef{Static: r.Flag(), Clustering: r.Bytes()})
	}
	for range r.Count(6) {
		k := Condition{Row: r.rowNumber(c), Operator: Operator(r.Byte()), Column: r.Uint32(), Type: r.maybeType(),
			Element: r.Null(), Values: r.nulls(nil)}
		if k.Operator > ContainsKey {
			r.newer("a condition", "operator", uint64(k.Operator), uint64(ContainsKey))
		}
		if (k.Type == nil) != (k.Operator <= NotExists) {
			r.Fail()
		}
		c.Conditions = append(c.Conditions, k)
	}
	for range r.Count(9) {
		u := Update{
			Row: r.rowNumber(c), Statement: int(r.Uint32()), Kind: UpdateKind(r.Byte()), Column: r.Uint32(),
			Type: r.maybeType(), Args: r.nulls(nil),
			Timestamp: r.Int(), TTL: r.Int32(), Expiry: r.Int(),
		}
		if u.Kind > SumAdd {
			r.newer("an update", "kind", uint64(u.Kind), uint64(SumAdd))
		}
		if u.Type == nil {
			r.Fail()
		}
		c.Updates = append(c.Updates, u)
	}
	return r.end()
}

func (r *reader) rowNumber(c *Conditional) int {
	n := r.Uint()
	if n >= uint64(len(c.Rows)) {
		r.Fail()
		return 0
	}
	return int(n)
}

func (r *reader) consistency() dberr.Consistency {
	v := r.Uint()
	if v > uint64(dberr.LocalOne) {
		r.Fail()
	}
	return dberr.Consistency(v)
}

// These are the flags of an encoded Read.
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
	a := appender{append(dst, Version, byte(kindRead))}
	flags := codec.Bit(c.AfterPartition)*readAfterPartition | codec.Bit(c.Reversed)*readReversed |
		codec.Bit(c.Statics)*readStatics | codec.Bit(c.NoRows)*readNoRows | codec.Bit(c.Index != nil)*readIndex
	a.Byte(flags)
	a.Uint(uint64(c.Table))
	a.Null(c.Key)
	a.position(c.Table, c.Token, c.Low)
	a.Uint(c.Range.Begin)
	a.Uint(c.Range.Limit)
	a.Null(c.AfterKey)
	a.position(c.Table, c.AfterToken, c.AfterLow)
	a.Null(c.AfterClustering)
	a.Uint(uint64(len(c.Slices)))
	for i := range c.Slices {
		a.Bytes(c.Slices[i].Start)
		a.Null(c.Slices[i].End)
	}
	if c.Index != nil {
		a.Uint(uint64(c.Index.Index))
		a.Bytes(c.Index.Value)
	}
	a.Uint(uint64(max(c.Limit, 0)))
	a.Int(c.Now)
	a.dropped(c.Dropped)
	a.Uint(uint64(c.Level))
	a.Uint(c.Epoch)
	if c.Continued {
		a.Field(readContinued, false, nil)
	}
	if c.Peek {
		a.Field(readPeek, false, nil)
	}
	if c.Owed+c.Wanted > 0 {
		var v [2 * binary.MaxVarintLen64]byte
		a.Field(readBorrows, false, binary.AppendUvarint(binary.AppendUvarint(v[:0], uint64(c.Owed)), uint64(c.Wanted)))
	}
	a.principal(readClaimant, c.Principal)
	if c.Changes != nil {
		a.changes(c.Changes)
	}
	if c.Index != nil && (len(c.Index.Any) > 0 || c.Index.Ordered()) {
		a.Field(readValues, true, c.Index.appendValues(nil))
	}
	if c.Index != nil && len(c.Index.All) > 0 {
		a.Field(readTerms, true, c.Index.appendTerms(nil))
	}
	if c.Pushdown != nil {
		a.pushdown(c.Pushdown)
	}
	if c.Index != nil && c.Index.Vector != nil {
		a.Field(readNear, true, c.Index.appendNear(nil))
		if c.Index.Nearest > 0 {
			a.Field(readNearest, false, binary.AppendUvarint(nil, uint64(c.Index.Nearest)))
		}
	}
	a.droppedUpto(readDropped, c.Dropped)
	a.EndFields()
	return a.Writer
}

// These are the fields of a conditional, a read, and a decision. The receiver must understand a field that limits a
// command or changes its effect.
const (
	conditionalMaxCharge = 1
	conditionalProgram   = 2
	conditionalDry       = 3
	conditionalLog       = 4
	conditionalIssued    = 5
	conditionalDropped   = 6
	readContinued        = 1
	readPeek             = 2
	readBorrows          = 3
	readClaimant         = 4
	readChanges          = 5
	readValues           = 6
	readTerms            = 7
	readPushdown         = 8
	readNear             = 9
	readNearest          = 10
	readDropped          = 11
	decisionCharge       = 1
	decisionResult       = 2
)

// number returns the value of a field that holds an amount in ru.Units.
func (r *reader) number(f codec.Field) int64 {
	v := codec.NewReader(f.Value, ErrMalformed)
	n := int64(v.UpTo(math.MaxInt64))
	if v.End() != nil {
		r.Fail()
	}
	return n
}

// principal appends the field of a principal unless the principal is unknown.
func (a *appender) principal(number uint64, c fairshare.Principal) {
	if c != (fairshare.Principal{}) {
		var v [fairshare.PrincipalSize]byte
		a.Field(number, false, c.Append(v[:0]))
	}
}

func (r *reader) principal(f codec.Field) fairshare.Principal {
	c, ok := fairshare.DecodePrincipal(f.Value)
	if !ok {
		r.Fail()
	}
	return c
}

// DecodeRead reads the output of AppendRead. Byte slices of c point into src.
func DecodeRead(c *Read, src []byte) error {
	r, err := open(src, kindRead)
	if err != nil {
		return err
	}
	*c = Read{Slices: c.Slices[:0]}
	flags := r.Byte()
	if flags >= readFlagsEnd {
		r.newer("a read", "flags", uint64(flags), readFlagsEnd-1)
	}
	c.AfterPartition = flags&readAfterPartition != 0
	c.Reversed = flags&readReversed != 0
	c.Statics = flags&readStatics != 0
	c.NoRows = flags&readNoRows != 0
	c.Table = r.Uint32()
	c.Key = r.Null()
	c.Token, c.Low = r.position(c.Table)
	c.Range = token.Range{Begin: r.Uint(), Limit: r.Uint()}
	if !c.Range.Valid() {
		r.Fail()
	}
	c.AfterKey = r.Null()
	c.AfterToken, c.AfterLow = r.position(c.Table)
	c.AfterClustering = r.Null()
	for range r.Count(2) {
		c.Slices = append(c.Slices, Slice{Start: r.Bytes(), End: r.Null()})
	}
	if flags&readIndex != 0 {
		c.Index = &IndexLookup{Index: r.Uint32(), Value: r.Bytes()}
	}
	limit := r.Uint()
	if limit > math.MaxInt32 {
		limit = math.MaxInt32
	}
	c.Limit = int(limit)
	c.Now = r.Int()
	c.Dropped = r.dropped(nil)
	c.Level = r.consistency()
	c.Epoch = r.Uint()
	r.readFields(c)
	return r.end()
}

// readFields decodes the optional fields of a read.
func (r *reader) readFields(c *Read) {
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		switch f.Number {
		case readContinued:
			c.Continued = true
		case readPeek:
			c.Peek = true
		case readBorrows:
			v := codec.NewReader(f.Value, ErrMalformed)
			c.Owed, c.Wanted = int64(v.UpTo(math.MaxInt64/2)), int64(v.UpTo(math.MaxInt64/2))
			if v.End() != nil {
				r.Fail()
			}
		case readClaimant:
			c.Principal = r.principal(f)
		case readChanges:
			c.Changes = r.changes(f)
		case readValues:
			r.values(f, c.Index)
		case readTerms:
			r.terms(f, c.Index)
		case readPushdown:
			c.Pushdown = r.pushdown(f)
		case readNear:
			r.near(f, c.Index)
		case readNearest:
			if c.Index == nil {
				r.Fail()
			} else {
				c.Index.Nearest = int(r.number(f))
			}
		case readDropped:
			c.Dropped = r.droppedUpto(f, c.Dropped)
		default:
			r.unknown("a read", f, readDropped)
		}
	}
}

func (a *appender) sweep(s *Sweep) {
	a.Uint(uint64(s.Table))
	a.Int(s.Horizon)
	a.dropped(s.Dropped)
	a.Uint(uint64(len(s.Keys)))
	for _, k := range s.Keys {
		a.Bytes(k)
	}
}

func (r *reader) sweep(s *Sweep) {
	// The head of the entry may already have set the dropped columns and the expired rows.
	*s = Sweep{Keys: s.Keys[:0], Dropped: s.Dropped, Expired: s.Expired}
	s.Table = r.Uint32()
	s.Horizon = r.Int()
	s.Dropped = r.dropped(s.Dropped)
	sortDropped(s.Dropped)
	for range r.Count(1) {
		s.Keys = append(s.Keys, r.Bytes())
	}
}

// AppendCASResult appends the encoded form of d.
func AppendCASResult(dst []byte, d *CASResult) []byte {
	a := appender{append(dst, Version, byte(kindDecision))}
	a.Flag(d.Applied)
	a.Int(d.Timestamp)
	if d.Charge > 0 {
		var number [binary.MaxVarintLen64]byte
		a.Field(decisionCharge, false, binary.AppendUvarint(number[:0], uint64(d.Charge)))
	}
	if d.Result != nil {
		a.Field(decisionResult, false, d.Result)
	}
	a.EndFields()
	a.Uint(uint64(len(d.Found)))
	for _, f := range d.Found {
		a.foundRow(f)
	}
	a.Flag(d.First != nil)
	if d.First != nil {
		a.Bytes(d.First.Clustering)
		a.foundRow(d.First.Row)
	}
	return a.Writer
}

func (a *appender) foundRow(f *row.Row) {
	a.Flag(f != nil)
	if f == nil {
		return
	}
	a.Flag(f.Live)
	a.Int(f.Liveness.Timestamp)
	a.Int(int64(f.Liveness.TTL))
	a.Int(f.Liveness.Expiry)
	a.Uint(uint64(len(f.Cells)))
	for i := range f.Cells {
		c := &f.Cells[i]
		a.Uint(uint64(c.Column))
		a.Null(c.Path)
		a.Bytes(c.Value)
		a.Int(c.Timestamp)
		a.Int(int64(c.TTL))
		a.Int(c.Expiry)
	}
}

// DecodeCASResult decodes the output of AppendCASResult. Byte slices of d point into src.
func DecodeCASResult(d *CASResult, src []byte) error {
	r, err := open(src, kindDecision)
	if err != nil {
		return err
	}
	*d = CASResult{}
	d.Applied = r.Flag()
	d.Timestamp = r.Int()
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		switch f.Number {
		case decisionCharge:
			d.Charge = r.number(f)
		case decisionResult:
			d.Result = f.Value
		default:
			r.unknown("a decision", f, decisionResult)
		}
	}
	for range r.Count(1) {
		d.Found = append(d.Found, r.foundRow())
	}
	if r.Flag() {
		d.First = &FoundRow{Clustering: r.Bytes(), Row: r.foundRow()}
	}
	return r.end()
}

func (r *reader) foundRow() *row.Row {
	if !r.Flag() {
		return nil
	}
	f := &row.Row{Live: r.Flag()}
	f.Liveness = row.Liveness{Timestamp: r.Int(), TTL: r.Int32(), Expiry: r.Int()}
	for range r.Count(6) {
		f.Cells = append(f.Cells, row.Cell{Column: r.Uint32(), Path: r.Null(), Value: r.Bytes(), Timestamp: r.Int(),
			TTL: r.Int32(), Expiry: r.Int()})
	}
	return f
}
