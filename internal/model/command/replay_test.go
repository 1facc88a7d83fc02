// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"testing"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// TestReplayIsDecided checks that every kind of entry and operand has a decision about its treatment in a point-in-time
// restore. A new kind requires a decision in replay.go and in RFC 0035.
func TestReplayIsDecided(t *testing.T) {
	entries, ops := 0, 0
	for k := range 256 {
		kind := EntryKind(k)
		e := Entry{Kind: kind, Mutations: []Mutation{{Table: 1024, Ops: []Op{{Kind: OpRow}}}}}
		var back Entry
		if err := DecodeEntry(&back, AppendEntry(nil, &e)); err == nil {
			if entries++; kind.Replay() == 0 {
				t.Errorf("the treatment of entries of kind %d in a restore is undefined", k)
			}
		} else if kind.Replay() != 0 {
			t.Errorf("no entries of kind %d exist: %v", k, err)
		}
		op := OpKind(k)
		m := Mutation{Table: 1024, Key: []byte{1}, Ops: []Op{{Kind: op}}}
		var again Mutation
		err := DecodeMutation(&again, AppendMutation(nil, &m))
		var newer *feature.Newer
		switch {
		case err == nil:
			if ops++; op.Replay() == 0 {
				t.Errorf("the treatment of operands of kind %d in a restore is undefined", k)
			}
		case !errors.As(err, &newer):
			t.Errorf("operands of kind %d: %v", k, err)
		case op.Replay() != 0:
			t.Errorf("no operands of kind %d exist", k)
		}
	}
	if entries != int(entryKinds) || ops != int(OpChange)+1 {
		t.Errorf("checked %d kinds of entries and %d kinds of operands", entries, ops)
	}
}
