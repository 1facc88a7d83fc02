// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"fmt"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// This file decodes responses for clients, tools, and tests.

// SplitPrefix splits the trace ID, the warnings, and the custom payload off the start of a response's body.
func SplitPrefix(flags byte, body []byte) (p Prefix, rest []byte, err error) {
	c := cursor{b: body}
	if flags&FlagTracing != 0 {
		p.TraceID, p.HasTrace = c.uuid(), true
	}
	if flags&FlagWarning != 0 {
		p.Warnings = c.stringList()
	}
	if flags&FlagPayload != 0 && c.err == nil {
		p.Payload, c.b, c.err = SplitPayload(nil, c.b)
	}
	return p, c.b, c.err
}

// Error is a decoded ERROR. Fields that do not apply to the error code are zero.
type Error struct {
	Code    ErrorCode
	Message string

	Level                        dberr.Consistency
	Required, Alive              int // set for unavailable
	Received, BlockFor, Failures int // set for timeouts and failures
	DataPresent                  bool
	WriteType                    string
	Contentions                  int
	Keyspace, Table, Function    string
	ArgTypes                     []string
	ID                           []byte // set for unprepared
}

// Error returns the code and the text of the error.
func (e *Error) Error() string { return fmt.Sprintf("0x%04X: %s", int32(e.Code), e.Message) }

// DecodeError decodes the body of ERROR.
func DecodeError(body []byte, version uint8) (*Error, error) {
	c := cursor{b: body}
	e := &Error{Code: ErrorCode(c.i32()), Message: string(c.str())}
	switch e.Code {
	case CodeUnavailable:
		e.Level = dberr.Consistency(c.u16())
		e.Required, e.Alive = int(c.i32()), int(c.i32())
	case CodeWriteTimeout:
		e.responses(&c)
		e.WriteType = string(c.str())
		if version >= V5 && e.WriteType == "CAS" {
			e.Contentions = int(c.u16())
		}
	case CodeReadTimeout:
		e.responses(&c)
		e.DataPresent = c.u8() != 0
	case CodeReadFailure:
		e.responses(&c)
		e.failures(&c, version)
		e.DataPresent = c.u8() != 0
	case CodeWriteFailure:
		e.responses(&c)
		e.failures(&c, version)
		e.WriteType = string(c.str())
	case CodeFunctionFailure:
		e.Keyspace, e.Function = string(c.str()), string(c.str())
		e.ArgTypes = c.stringList()
	case CodeAlreadyExists:
		e.Keyspace, e.Table = string(c.str()), string(c.str())
	case CodeUnprepared:
		e.ID = c.str()
	}
	return e, c.err
}

func (e *Error) responses(c *cursor) {
	e.Level = dberr.Consistency(c.u16())
	e.Received, e.BlockFor = int(c.i32()), int(c.i32())
}

func (e *Error) failures(c *cursor, version uint8) {
	e.Failures = int(c.i32())
	for i := 0; version >= V5 && i < e.Failures && c.err == nil; i++ {
		c.inet()
		c.u16()
	}
}

func (c *cursor) inet() netip.Addr {
	b := c.take(int(c.u8()))
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		c.fail(dberr.Protocolf("Invalid address of %d bytes", len(b)))
	}
	return a
}

// DecodeSupported decodes the body of SUPPORTED.
func DecodeSupported(body []byte) (map[string][]string, error) {
	c := cursor{b: body}
	n := c.count(4)
	m := make(map[string][]string, n)
	for range n {
		k := string(c.str())
		m[k] = c.stringList()
	}
	return m, c.err
}

// DecodeAuthenticate decodes the body of AUTHENTICATE, which is the name of a class.
func DecodeAuthenticate(body []byte) (string, error) {
	c := cursor{b: body}
	s := c.str()
	return string(s), c.err
}

// Result is a decoded RESULT. Its byte slices refer to the body.
type Result struct {
	Kind ResultKind
	// Keyspace is set for ResultSetKeyspace. Change is set for ResultSchemaChange.
	Keyspace string
	Change   SchemaChange

	// For ResultRows, ColumnCount, Columns (nil if omitted), ChangedID, PagingState, RowCount, and Cells are set.
	// ColumnCount and Columns are also set for ResultPrepared.
	ColumnCount int
	Columns     []Column
	ChangedID   []byte
	PagingState []byte
	RowCount    int
	// Cells contains RowCount times ColumnCount values in the encoding [bytes].
	Cells []byte

	// ID, ResultMetadataID, Bind, and PKIndexes are set for ResultPrepared.
	ID, ResultMetadataID []byte
	Bind                 []Column
	PKIndexes            []uint16
}

// DecodeResult decodes the body of RESULT after its prefix.
func DecodeResult(body []byte, version uint8) (*Result, error) {
	c := cursor{b: body}
	r := &Result{Kind: ResultKind(c.i32())}
	switch r.Kind {
	case ResultVoid:
	case ResultRows:
		r.decodeMetadata(&c, version)
		if r.RowCount = int(c.i32()); r.RowCount < 0 {
			c.fail(errShort)
		}
		r.Cells = c.b
	case ResultSetKeyspace:
		r.Keyspace = string(c.str())
	case ResultPrepared:
		r.ID = c.str()
		if version >= V5 {
			r.ResultMetadataID = c.str()
		}
		r.decodeBind(&c, version)
		r.decodeMetadata(&c, version)
	case ResultSchemaChange:
		r.Change = c.schemaChange()
	default:
		c.fail(dberr.Protocolf("Unknown kind of result %d", r.Kind))
	}
	return r, c.err
}

func (r *Result) decodeBind(c *cursor, version uint8) {
	flags := c.i32()
	n := int(c.i32())
	if version >= V4 {
		pk := int(c.i32())
		if pk < 0 || pk*2 > len(c.b) {
			c.fail(errShort)
			return
		}
		for range pk {
			r.PKIndexes = append(r.PKIndexes, c.u16())
		}
	}
	r.Bind = c.columns(flags, n)
}

func (r *Result) decodeMetadata(c *cursor, version uint8) {
	flags := c.i32()
	r.ColumnCount = int(c.i32())
	if r.ColumnCount < 0 {
		c.fail(errShort)
	}
	if flags&metaMorePages != 0 {
		r.PagingState = c.bytes()
	}
	if version >= V5 && flags&metaChanged != 0 {
		r.ChangedID = c.str()
	}
	if flags&metaNone == 0 {
		r.Columns = c.columns(flags, r.ColumnCount)
	}
}

func (c *cursor) columns(flags int32, n int) []Column {
	if n < 0 || n*4 > len(c.b) {
		c.fail(errShort)
		return nil
	}
	var keyspace, table string
	global := flags&metaGlobalSpec != 0
	if global {
		keyspace, table = string(c.str()), string(c.str())
	}
	l := make([]Column, 0, n)
	for i := 0; i < n && c.err == nil; i++ {
		if !global {
			keyspace, table = string(c.str()), string(c.str())
		}
		name := string(c.str())
		l = append(l, Column{keyspace, table, name, c.typ(0)})
	}
	return l
}

// typeDepthMax is the maximum nesting depth of types that a client decodes.
const typeDepthMax = 32

// nativeKinds and classKinds are the inverses of nativeOptions.
var nativeKinds, classKinds = func() (map[uint16]cqltype.Kind, map[string]cqltype.Kind) {
	ids, classes := map[uint16]cqltype.Kind{}, map[string]cqltype.Kind{marshal + "EmptyType": cqltype.Empty}
	for k, o := range nativeOptions {
		if o.id != 0 {
			ids[o.id], classes[marshal+o.class] = cqltype.Kind(k), cqltype.Kind(k)
		}
	}
	return ids, classes
}()

// typ decodes the type in an [option]. The encoding does not show whether the type is frozen.
func (c *cursor) typ(depth int) *cqltype.Type {
	if depth > typeDepthMax {
		c.fail(dberr.Protocolf("Types are nested too deeply"))
		return &cqltype.Type{}
	}
	id := c.u16()
	t := &cqltype.Type{Kind: nativeKinds[id]}
	n := 0
	switch id {
	case optionCustom:
		t.Name = string(c.str())
		if t.Kind = classKinds[t.Name]; t.Kind != 0 {
			t.Name = ""
		} else if vector := cqltype.ParseJavaClass(t.Name); vector != nil && vector.Kind == cqltype.Vector {
			return vector
		} else {
			t.Kind = cqltype.Custom
		}
	case optionList:
		t.Kind, n = cqltype.List, 1
	case optionSet:
		t.Kind, n = cqltype.Set, 1
	case optionMap:
		t.Kind, n = cqltype.Map, 2
	case optionTuple:
		t.Kind, n = cqltype.Tuple, c.count(2)
		t.Frozen = true
	case optionUDT:
		t.Kind = cqltype.UDT
		t.Keyspace, t.Name = string(c.str()), string(c.str())
		n = c.count(4)
	}
	if t.Kind == 0 {
		c.fail(dberr.Protocolf("Unknown type 0x%04X", id))
	}
	for i := 0; i < n && c.err == nil; i++ {
		if t.Kind == cqltype.UDT {
			t.Fields = append(t.Fields, string(c.str()))
		}
		t.Elems = append(t.Elems, c.typ(depth+1))
	}
	return t
}

func (c *cursor) schemaChange() SchemaChange {
	s := SchemaChange{Change: string(c.str()), Target: string(c.str()), Keyspace: string(c.str())}
	if s.Target != "KEYSPACE" {
		s.Name = string(c.str())
	}
	if s.Target == "FUNCTION" || s.Target == "AGGREGATE" {
		s.Args = c.stringList()
	}
	return s
}

// Event is a decoded EVENT.
type Event struct {
	Kind string
	// Schema is set for SchemaChangeEvent. Change and Node are set for the other events.
	Schema SchemaChange
	Change string
	Node   netip.AddrPort
}

// DecodeEvent decodes the body of EVENT.
func DecodeEvent(body []byte) (*Event, error) {
	c := cursor{b: body}
	e := &Event{Kind: string(c.str())}
	switch e.Kind {
	case SchemaChangeEvent:
		e.Schema = c.schemaChange()
	case TopologyChange, StatusChange:
		e.Change = string(c.str())
		addr := c.inet()
		e.Node = netip.AddrPortFrom(addr, uint16(c.i32()))
	default:
		c.fail(dberr.Protocolf("Unknown event type %q", e.Kind))
	}
	return e, c.err
}

// NextCell splits off the first value of cells. ok is false if cells is empty.
func NextCell(cells []byte) (value, rest []byte, ok bool) {
	c := cursor{b: cells}
	value = c.bytes()
	return value, c.b, c.err == nil
}
