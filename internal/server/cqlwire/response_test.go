// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

func native(k cqltype.Kind) *cqltype.Type { return &cqltype.Type{Kind: k} }

func allTypes() []Column {
	var l []Column
	add := func(t *cqltype.Type) { l = append(l, Column{"ks", "t", fmt.Sprint("c", len(l)), t}) }
	for k := cqltype.Ascii; k <= cqltype.Varint; k++ {
		add(native(k))
	}
	elems := []*cqltype.Type{native(cqltype.Text), native(cqltype.Duration)}
	add(&cqltype.Type{Kind: cqltype.List, Elems: elems[:1]})
	add(&cqltype.Type{Kind: cqltype.Set, Elems: elems[1:]})
	add(&cqltype.Type{Kind: cqltype.Map, Elems: elems})
	add(&cqltype.Type{Kind: cqltype.Tuple, Frozen: true, Elems: append(elems, l[0].Type)})
	add(&cqltype.Type{Kind: cqltype.UDT, Keyspace: "ks", Name: "u", Fields: []string{"a", "b"}, Elems: elems})
	add(&cqltype.Type{Kind: cqltype.Custom, Name: "com.example.Type"})
	add(native(cqltype.Empty))
	return l
}

// TestResultRoundTrip checks that the client decodes results unchanged in every version. The results have columns of
// one table and of several tables.
func TestResultRoundTrip(t *testing.T) {
	for version := uint8(V3); version <= V5; version++ {
		for _, mixed := range []bool{false, true} {
			columns := allTypes()
			if mixed {
				columns[3].Table = "other"
			}
			decode := func(body []byte) *Result {
				t.Helper()
				r, err := DecodeResult(body, version)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			block := AppendColumnsBlock(nil, version, columns)
			cells := AppendBytes(AppendBytes(nil, []byte("x")), nil)
			got := decode(AppendRows(nil, &RowsHeader{Columns: len(columns), Rows: 7, Block: block,
				PagingState: []byte("state")}, cells))
			want := &Result{Kind: ResultRows, ColumnCount: len(columns), Columns: columns, PagingState: []byte("state"),
				RowCount: 7, Cells: cells}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
			got = decode(AppendRows(nil, &RowsHeader{Columns: 2, Rows: 1}, cells))
			want = &Result{Kind: ResultRows, ColumnCount: 2, RowCount: 1, Cells: cells}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
			if version >= V5 {
				got = decode(AppendRows(nil, &RowsHeader{Columns: len(columns), Block: block, ChangedID: []byte("new")},
					nil))
				if string(got.ChangedID) != "new" || len(got.Columns) != len(columns) {
					t.Fatalf("%+v", got)
				}
			}
			p := PreparedHeader{ID: []byte("id"), ResultMetadataID: []byte("rid"), Bind: columns[:2],
				PKIndexes: []uint16{1, 0}, Result: columns}
			want = &Result{Kind: ResultPrepared, ID: p.ID, ResultMetadataID: p.ResultMetadataID, Bind: p.Bind,
				PKIndexes: p.PKIndexes, Columns: columns, ColumnCount: len(columns)}
			if version < V5 {
				want.ResultMetadataID = nil
			}
			if version < V4 {
				want.PKIndexes = nil
			}
			if d := cmp.Diff(want, decode(AppendPrepared(nil, version, &p))); d != "" {
				t.Fatal(d)
			}
		}
	}
}

// TestRowsLayout checks the metadata of a point read byte by byte. The metadata contains a global table specification,
// an int, and a duration, which is a custom type in version 4.
func TestRowsLayout(t *testing.T) {
	columns := []Column{{"k", "t", "a", native(cqltype.Int)}, {"k", "t", "d", native(cqltype.Duration)}}
	rows := func(version uint8) string {
		return fmt.Sprintf("%x",
			AppendRows(nil, &RowsHeader{Columns: 2, Rows: 1, Block: AppendColumnsBlock(nil, version, columns)},
				[]byte{0, 0, 0, 0, 255, 255, 255, 255}))
	}
	head := "00000002" + "00000001" + "00000002" + "00016b" + "000174" + "000161" + "0009" + "000164"
	tail := "00000001" + "00000000" + "ffffffff"
	const name = "org.apache.cassandra.db.marshal.DurationType"
	class := fmt.Sprintf("0000%04x%x", len(name), name)
	if got := rows(V4); got != head+class+tail {
		t.Errorf("v4 %s", got)
	}
	if got := rows(V5); got != head+"0015"+tail {
		t.Errorf("v5 %s", got)
	}
}

// TestErrors checks that every dberr error has the correct code and fields in every version. The error may be wrapped.
func TestErrors(t *testing.T) {
	id := [16]byte{1, 2, 3}
	for _, tc := range []struct {
		err  error
		want Error // error in version 4; Message is set later
		v3   ErrorCode
	}{
		{&dberr.Server{Message: "m"}, Error{Code: CodeServer}, CodeServer},
		{errors.New("m"), Error{Code: CodeServer}, CodeServer},
		{&dberr.Protocol{Message: "m"}, Error{Code: CodeProtocol}, CodeProtocol},
		{&dberr.BadCredentials{Message: "m"}, Error{Code: CodeBadCredentials}, CodeBadCredentials},
		{&dberr.Unauthorized{Message: "m"}, Error{Code: CodeUnauthorized}, CodeUnauthorized},
		{&dberr.Syntax{Message: "m"}, Error{Code: CodeSyntax}, CodeSyntax},
		{&dberr.Invalid{Message: "m"}, Error{Code: CodeInvalid}, CodeInvalid},
		{&dberr.Config{Message: "m"}, Error{Code: CodeConfig}, CodeConfig},
		{&dberr.Overloaded{Message: "m"}, Error{Code: CodeOverloaded}, CodeOverloaded},
		{&dberr.Truncate{Message: "m"}, Error{Code: CodeTruncate}, CodeTruncate},
		{&dberr.AlreadyExists{Keyspace: "k", Table: "t", Message: "m"}, Error{Code: CodeAlreadyExists, Keyspace: "k",
			Table: "t"}, CodeAlreadyExists},
		{&dberr.Unprepared{ID: id}, Error{Code: CodeUnprepared, ID: id[:]}, CodeUnprepared},
		{&dberr.Unavailable{Level: dberr.Quorum, Required: 3, Alive: 1},
			Error{Code: CodeUnavailable, Level: dberr.Quorum, Required: 3, Alive: 1}, CodeUnavailable},
		{&dberr.WriteTimeout{Level: dberr.Serial, Received: 1, BlockFor: 2, WriteType: "CAS"},
			Error{Code: CodeWriteTimeout, Level: dberr.Serial, Received: 1, BlockFor: 2, WriteType: "CAS"},
			CodeWriteTimeout},
		{&dberr.ReadTimeout{Level: dberr.One, Received: 1, BlockFor: 2, DataPresent: true},
			Error{Code: CodeReadTimeout, Level: dberr.One, Received: 1, BlockFor: 2, DataPresent: true},
			CodeReadTimeout},
		{&dberr.ReadFailure{Level: dberr.One, Received: 1, BlockFor: 3, Failures: 2, DataPresent: true},
			Error{Code: CodeReadFailure, Level: dberr.One, Received: 1, BlockFor: 3, Failures: 2, DataPresent: true},
			CodeReadTimeout},
		{&dberr.WriteFailure{Level: dberr.One, Received: 1, BlockFor: 3, Failures: 2, WriteType: "BATCH"},
			Error{Code: CodeWriteFailure, Level: dberr.One, Received: 1, BlockFor: 3, Failures: 2, WriteType: "BATCH"},
			CodeWriteTimeout},
		{&dberr.FunctionFailure{Keyspace: "k", Function: "f", ArgTypes: []string{"int"}, Message: "m"},
			Error{Code: CodeFunctionFailure, Keyspace: "k", Function: "f", ArgTypes: []string{"int"}}, CodeInvalid},
	} {
		tc.want.Message = tc.err.Error()
		for version := uint8(V3); version <= V5; version++ {
			for _, err := range []error{tc.err, fmt.Errorf("on its way: %w", tc.err)} {
				got, derr := DecodeError(AppendError(nil, version, err), version)
				if derr != nil {
					t.Fatalf("%T v%d: %v", tc.err, version, derr)
				}
				// An error that is not a dberr error keeps its wrapping text.
				got.Message = strings.TrimPrefix(got.Message, "on its way: ")
				if version == V3 {
					if got.Code != tc.v3 {
						t.Errorf("%T v3: code 0x%04X", tc.err, got.Code)
					}
					continue
				}
				if d := cmp.Diff(&tc.want, got, cmpopts.EquateEmpty()); d != "" {
					t.Errorf("%T v%d: %s", tc.err, version, d)
				}
			}
		}
	}
	got, err := DecodeError(AppendUnprepared(nil, []byte{1, 2}), V4)
	if err != nil || got.Code != CodeUnprepared || len(got.ID) != 2 {
		t.Error(got, err)
	}
}

// TestResponses checks the small messages and the prefix of responses.
func TestResponses(t *testing.T) {
	p := Prefix{TraceID: [16]byte{9}, HasTrace: true, Warnings: []string{"w", "x"},
		Payload: []PayloadEntry{{[]byte("k"), []byte("v")}, {[]byte("n"), nil}}}
	got, rest, err := SplitPrefix(p.Flags(V4), append(AppendPrefix(nil, V4, &p), "body"...))
	if d := cmp.Diff(p, got); d != "" || string(rest) != "body" || err != nil {
		t.Error(d, string(rest), err)
	}
	if f := p.Flags(V3); f != FlagTracing {
		t.Error("version 3 has neither warnings nor payloads", f)
	}
	m, err := DecodeSupported(AppendSupported(nil, []Option{{"A", []string{"x", "y"}}, {"B", nil}}))
	if d := cmp.Diff(map[string][]string{"A": {"x", "y"}, "B": nil}, m); d != "" || err != nil {
		t.Error(d, err)
	}
	change := SchemaChange{Change: "CREATED", Target: "FUNCTION", Keyspace: "k", Name: "f", Args: []string{"int"}}
	for _, tc := range []struct {
		version uint8
		want    SchemaChange
	}{{V3, SchemaChange{Change: "UPDATED", Target: "KEYSPACE", Keyspace: "k"}}, {V4, change}} {
		e, err := DecodeEvent(AppendSchemaEvent(nil, tc.version, &change))
		if d := cmp.Diff(tc.want, e.Schema); d != "" || err != nil {
			t.Error(d, err)
		}
		r, err := DecodeResult(AppendSchemaChangeResult(nil, tc.version, &change), tc.version)
		if d := cmp.Diff(tc.want, r.Change); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	for _, addr := range []string{"127.0.0.2:9042", "[::1]:9042"} {
		node := netip.MustParseAddrPort(addr)
		if e, err := DecodeEvent(AppendNodeEvent(nil, StatusChange, "UP", node)); err != nil || e.Node != node ||
			e.Change != "UP" {
			t.Error(e, err)
		}
	}
}

func FuzzResponse(f *testing.F) {
	for version := uint8(V3); version <= V5; version++ {
		block := AppendColumnsBlock(nil, version, allTypes())
		f.Add(byte(OpResult), version, byte(0),
			AppendRows(nil, &RowsHeader{Columns: len(allTypes()), Rows: 1, Block: block, PagingState: []byte{1}},
				[]byte{0, 0, 0, 0}))
		f.Add(byte(OpResult), version, byte(0),
			AppendPrepared(nil, version, &PreparedHeader{ID: []byte{1}, Bind: allTypes(), PKIndexes: []uint16{0}}))
		f.Add(byte(OpError), version, byte(0), AppendError(nil, version, &dberr.ReadFailure{Failures: 2}))
		f.Add(byte(OpEvent), version, FlagTracing|FlagWarning|FlagPayload,
			AppendSchemaEvent(nil, version, &SchemaChange{Change: "CREATED", Target: "TABLE"}))
	}
	f.Fuzz(func(t *testing.T, op, version, flags byte, body []byte) {
		version = V3 + version%3
		_, body, err := SplitPrefix(flags, body)
		if err != nil {
			return
		}
		switch Opcode(op) {
		case OpError:
			_, _ = DecodeError(body, version)
		case OpEvent:
			_, _ = DecodeEvent(body)
		case OpSupported:
			_, _ = DecodeSupported(body)
		default:
			r, err := DecodeResult(body, version)
			if err != nil {
				return
			}
			for cells, ok := r.Cells, true; ok; {
				_, cells, ok = NextCell(cells)
			}
		}
	})
}
