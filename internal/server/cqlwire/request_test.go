// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRequestLayout decodes bodies that were written manually from the specification. It detects errors that the
// encoder and the decoder share.
func TestRequestLayout(t *testing.T) {
	t.Run("query v4", func(t *testing.T) {
		var q Query
		// The body consists of text "S"; LOCAL_QUORUM; values|page|serial|timestamp; [1 value 0x2a]; page 100;
		// LOCAL_SERIAL; timestamp 7.
		body := unhex(t, "00000001 53 0006 35 0001 00000001 2a 00000064 0009 0000000000000007")
		if err := q.Decode(body, V4); err != nil {
			t.Fatal(err)
		}
		want := Query{Text: []byte("S"), Params: Params{
			Options: Options{Consistency: dberr.LocalQuorum, Serial: dberr.LocalSerial, HasSerial: true, Timestamp: 7,
				HasTimestamp: true},
			PageSize: 100, Values: [][]byte{{0x2a}},
		}}
		if d := cmp.Diff(want, q, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
	t.Run("execute v5", func(t *testing.T) {
		var e Execute
		// The body consists of id 0102; metadata id 03; ONE; values|skip|paging state|names|keyspace|now; a=null,
		// b=unset, c=""; state ff; ks "k"; now 9.
		body := unhex(t, "0002 0102 0001 03 0001 000001cb 0003 0001 61 ffffffff 0001 62 fffffffe 0001 63 00000000 "+
			"00000001 ff 0001 6b 00000009")
		if err := e.Decode(body, V5); err != nil {
			t.Fatal(err)
		}
		want := Execute{ID: []byte{1, 2}, ResultMetadataID: []byte{3}, Params: Params{
			Options: Options{Consistency: dberr.One, Serial: dberr.Serial, Keyspace: []byte("k"), Now: 9,
				HasNow: true},
			SkipMetadata: true, PageSize: NoPaging, PagingState: []byte{0xff},
			Values: [][]byte{nil, nil, {}}, Unset: []bool{false, true, false}, Names: [][]byte{[]byte("a"), []byte("b"),
				[]byte("c")},
		}}
		if d := cmp.Diff(want, e); d != "" {
			t.Fatal(d)
		}
	})
	t.Run("batch v4", func(t *testing.T) {
		var b Batch
		// The body consists of unlogged, 2: text "I" with 1 value; prepared 0a without values; QUORUM; timestamp 5.
		body := unhex(t, "01 0002 00 00000001 49 0001 00000002 beef 01 0001 0a 0000 0004 20 0000000000000005")
		if err := b.Decode(body, V4); err != nil {
			t.Fatal(err)
		}
		want := Batch{
			Kind: 1, Options: Options{Consistency: dberr.Quorum, Serial: dberr.Serial, Timestamp: 5,
				HasTimestamp: true},
			Statements: []BatchStatement{{Text: []byte("I"), Values: [][]byte{{0xbe, 0xef}}}, {ID: []byte{0x0a}}},
		}
		if d := cmp.Diff(want, b, cmpopts.IgnoreUnexported(Batch{}), cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
	t.Run("prepare v5", func(t *testing.T) {
		var p Prepare
		if err := p.Decode(unhex(t, "00000001 53 00000001 0002 6b73"), V5); err != nil || string(p.Text) != "S" ||
			string(p.Keyspace) != "ks" {
			t.Fatal(p, err)
		}
	})
	t.Run("startup", func(t *testing.T) {
		s, err := DecodeStartup(unhex(t, "0001 0001 61 0002 6263"))
		if err != nil || s["a"] != "bc" {
			t.Fatal(s, err)
		}
	})
	t.Run("auth", func(t *testing.T) {
		token, err := DecodeAuthResponse(unhex(t, "00000006 00 7573 00 7077"))
		if err != nil {
			t.Fatal(err)
		}
		if user, password, err := DecodePlain(token); user != "us" || password != "pw" || err != nil {
			t.Fatal(user, password, err)
		}
		if user, _, err := DecodePlain([]byte("authz\x00us\x00pw")); user != "us" || err != nil {
			t.Fatal(user, err)
		}
	})
}

// TestRequestRefused checks that malformed requests are rejected. If Cassandra has a specific text for the error, the
// error must have this text.
func TestRequestRefused(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"short", "0000000a 53", "ends too early"},
		{"negative text", "ffffffff 0001 00", "ends too early"},
		{"consistency", "00000001 53 000b 00", "Unknown code 11 for a consistency level"},
		{"page size 0", "00000001 53 0001 04 00000000", "The page size cannot be 0"},
		{"timestamp", "00000001 53 0001 20 8000000000000000",
			"Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] (got -9223372036854775808)"},
		{"value length", "00000001 53 0001 01 0001 fffffffd", "Invalid ByteBuf length -3"},
		{"more values than bytes", "00000001 53 0001 01 ffff 00000000", "ends too early"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var q Query
			err := q.Decode(unhex(t, tc.body), V4)
			if _, ok := err.(*dberr.Protocol); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %s", err, tc.want)
			}
		})
	}
	var q Query
	if err := q.Decode(unhex(t, "00000001 53 0001 01 0001 fffffffe"), V3); err == nil {
		t.Error("version 3 has no unset values")
	}
	var b Batch
	for _, body := range []string{"03 0000 0001 00", "00 0001 02 00000000 0000 0001 00"} {
		if err := b.Decode(unhex(t, body), V4); err == nil {
			t.Errorf("batch %s was accepted", body)
		}
	}
}

func drawBytes(t *rapid.T, name string) []byte {
	return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, name)
}

func drawOptions(t *rapid.T, version uint8) Options {
	o := Options{Consistency: dberr.Consistency(rapid.IntRange(0, 10).Draw(t, "cl")), Serial: dberr.Serial}
	if rapid.Bool().Draw(t, "hasSerial") {
		o.Serial, o.HasSerial = dberr.LocalSerial, true
	}
	if rapid.Bool().Draw(t, "hasTimestamp") {
		o.Timestamp, o.HasTimestamp = rapid.Int64Min(math.MinInt64+1).Draw(t, "timestamp"), true
	}
	if version >= V5 && rapid.Bool().Draw(t, "hasKeyspace") {
		o.Keyspace = drawBytes(t, "keyspace")
	}
	if version >= V5 && rapid.Bool().Draw(t, "hasNow") {
		o.Now, o.HasNow = rapid.Int32().Draw(t, "now"), true
	}
	return o
}

func drawValues(t *rapid.T, version uint8) (values [][]byte, unset []bool) {
	for range rapid.IntRange(0, 5).Draw(t, "values") {
		kind := rapid.IntRange(0, 2).Draw(t, "kind")
		var v []byte
		if kind == 0 {
			v = drawBytes(t, "value")
		}
		values = append(values, v)
		unset = append(unset, kind == 2 && version >= V4)
	}
	for _, u := range unset {
		if u {
			return values, unset
		}
	}
	return values, nil
}

func drawParams(t *rapid.T, version uint8) Params {
	p := Params{Options: drawOptions(t, version), SkipMetadata: rapid.Bool().Draw(t, "skip"), PageSize: NoPaging}
	if rapid.Bool().Draw(t, "paged") {
		p.PageSize = rapid.Int32Range(1, 1000).Draw(t, "page")
		p.PagingState = drawBytes(t, "state")
	}
	p.Values, p.Unset = drawValues(t, version)
	if rapid.Bool().Draw(t, "named") {
		for range p.Values {
			p.Names = append(p.Names, drawBytes(t, "name"))
		}
	}
	return p
}

// TestRequestRoundTrip checks that the server decodes a client's requests to equal requests. The test also decodes
// into structs that have been used before.
func TestRequestRoundTrip(t *testing.T) {
	var q Query
	var e Execute
	var b Batch
	opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Batch{})}
	check := func(t *rapid.T, want, got any, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, opts); d != "" {
			t.Fatal(d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		version := uint8(rapid.IntRange(V3, V5).Draw(t, "version"))
		wantQ := Query{drawBytes(t, "text"), drawParams(t, version)}
		check(t, wantQ, q, q.Decode(wantQ.Append(nil, version), version))
		wantE := Execute{ID: drawBytes(t, "id"), Params: drawParams(t, version)}
		if version >= V5 {
			wantE.ResultMetadataID = drawBytes(t, "metadata id")
		}
		err := e.Decode(wantE.Append(nil, version), version)
		check(t, wantE, e, err)
		wantB := Batch{Kind: uint8(rapid.IntRange(0, 2).Draw(t, "kind")), Options: drawOptions(t, version)}
		for range rapid.IntRange(0, 4).Draw(t, "statements") {
			s := BatchStatement{Text: drawBytes(t, "text")}
			if rapid.Bool().Draw(t, "prepared") {
				s.Text, s.ID = nil, append([]byte{1}, drawBytes(t, "id")...)
			}
			s.Values, s.Unset = drawValues(t, version)
			wantB.Statements = append(wantB.Statements, s)
		}
		err = b.Decode(wantB.Append(nil, version), version)
		check(t, wantB, b, err)
	})
}

// TestViewsAreCut checks that an append to a slice of a decoded request does not overwrite the following bytes in the
// read buffer.
func TestViewsAreCut(t *testing.T) {
	var q Query
	body := (&Query{Text: []byte("SELECT"), Params: Params{Values: [][]byte{{1}, {2}}}}).Append(nil, V4)
	if err := q.Decode(body, V4); err != nil {
		t.Fatal(err)
	}
	_ = append(q.Values[0], 9, 9, 9, 9, 9)
	if q.Values[1][0] != 2 {
		t.Fatal("an append to one value reached another")
	}
}

func FuzzRequest(f *testing.F) {
	for v := uint8(V3); v <= V5; v++ {
		p := Params{Options: Options{HasTimestamp: true, Timestamp: 1, Keyspace: []byte("k"), HasNow: true},
			Values: [][]byte{{1}, nil, {}}, PageSize: 5}
		f.Add(byte(OpQuery), v, (&Query{[]byte("SELECT"), p}).Append(nil, v))
		f.Add(byte(OpExecute), v, (&Execute{ID: make([]byte, 16), ResultMetadataID: []byte{1}, Params: p}).Append(nil,
			v))
		f.Add(byte(OpPrepare), v, (&Prepare{[]byte("SELECT"), []byte("k")}).Append(nil, v))
		f.Add(byte(OpBatch), v,
			(&Batch{Statements: []BatchStatement{{Text: []byte("I"), Values: p.Values}, {ID: []byte{1}}}}).Append(nil,
				v))
		f.Add(byte(OpStartup), v, AppendStartup(nil, Startup{"CQL_VERSION": "3.0.0"}))
		f.Add(byte(OpRegister), v, AppendRegister(nil, []string{SchemaChangeEvent}))
		f.Add(byte(OpAuthResponse), v, AppendAuthResponse(nil, AppendPlain(nil, "u", "p")))
	}
	f.Fuzz(func(t *testing.T, op byte, version byte, body []byte) {
		version = V3 + version%3
		var err error
		switch Opcode(op) {
		case OpQuery:
			var q Query
			if err = q.Decode(body, version); err == nil {
				// A decoded request can be encoded again without a change of its meaning.
				var again Query
				if err := again.Decode(q.Append(nil, version), version); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(q, again, cmpopts.EquateEmpty()); d != "" {
					t.Fatal(d)
				}
			}
		case OpExecute:
			err = new(Execute).Decode(body, version)
		case OpPrepare:
			err = new(Prepare).Decode(body, version)
		case OpBatch:
			err = new(Batch).Decode(body, version)
		case OpStartup:
			_, err = DecodeStartup(body)
		case OpRegister:
			_, err = DecodeRegister(body)
		default:
			var token []byte
			if token, err = DecodeAuthResponse(body); err == nil {
				_, _, _ = DecodePlain(token)
			}
		}
		if _, ok := err.(*dberr.Protocol); err != nil && !ok {
			t.Fatalf("%T is not an error for clients", err)
		}
		_, _, _ = SplitPayload(nil, body)
	})
}
