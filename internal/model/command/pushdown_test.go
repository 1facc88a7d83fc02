// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestPushdownOfRead checks that a pushdown survives its encoding. A build that does not know the field ignores it and
// treats the read as an ordinary read.
func TestPushdownOfRead(t *testing.T) {
	plain := Read{Table: 600, Key: []byte("k"), Epoch: 7}
	pushed := plain
	pushed.Pushdown = &Pushdown{Program: []byte("program"), Rows: 500}
	b := AppendRead(nil, &pushed)
	var got Read
	if err := DecodeRead(&got, b); err != nil || got.Pushdown == nil || !gocmp.Equal(*got.Pushdown, *pushed.Pushdown) {
		t.Fatalf("%+v, %v", got.Pushdown, err)
	}
	without := AppendRead(nil, &plain)
	r := codec.NewReader(b[len(without)-1:], ErrMalformed)
	if f := r.Field(0); !bytes.HasPrefix(b, without[:len(without)-1]) || f.Number != readPushdown || f.Must {
		t.Errorf("the field is %+v", f)
	}
	for _, bad := range []*Pushdown{{}, {Program: make([]byte, PushdownBytesMax+1)}} {
		pushed.Pushdown = bad
		if err := DecodeRead(&got, AppendRead(nil, &pushed)); !errors.Is(err, ErrMalformed) {
			t.Errorf("a program of %d bytes: %v", len(bad.Program), err)
		}
	}
}

// TestPushdownResult checks that a pushdown result survives its encoding and is self-delimiting. A truncated encoding
// must be malformed.
func TestPushdownResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.Byte(), 1, 20)
		f := PushdownResult{Result: some.Draw(t, "result"), Failed: rapid.Bool().Draw(t, "failed"),
			More: rapid.Bool().Draw(t, "more"), AfterPartition: rapid.Bool().Draw(t, "after"),
			Rows: rapid.Int64Min(0).Draw(t, "rows"), Bytes: rapid.Int64Min(0).Draw(t, "bytes"),
			Token: token.Token(rapid.Int64().Draw(t, "token")), Key: some.Draw(t, "key"),
			Clustering: some.Draw(t, "clustering")}
		b := AppendPushdownResult(nil, &f)
		r := codec.NewReader(append(bytes.Clone(b), "rest"...), ErrMalformed)
		got := TakePushdownResult(&r)
		diff := gocmp.Diff(f, got, cmpopts.EquateEmpty())
		if diff != "" || r.Err() != nil || string(r.Rest()) != "rest" {
			t.Fatalf("%v, %q are left: %s", r.Err(), r.Rest(), diff)
		}
		r = codec.NewReader(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")], ErrMalformed)
		if TakePushdownResult(&r); r.Err() == nil {
			t.Fatal("a truncated list was accepted")
		}
	})
	r := codec.NewReader(AppendPushdownResult(nil, &PushdownResult{More: true}), ErrMalformed)
	if TakePushdownResult(&r); r.Err() == nil {
		t.Error("it has more, but not behind what")
	}
}
