// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/hex"
	"testing"

	"github.com/google/uuid"
)

// TestProgramsAreFrozen checks that the encodings of programs and results do not change, and that the encodings can be
// decoded. They must remain stable because other builds execute the programs and because results are stored with the
// rows.
func TestProgramsAreFrozen(t *testing.T) {
	of := request{table: 1030, revision: 7, now: 1_700_000_000, noBodies: true, ops: []Operation{
		{Kind: Create, ID: "a", Body: []byte(`{"id":"a"}`)}, {Kind: Patch, ID: "b", Body: []byte(`[]`), IfMatch: `"1"`},
		{Kind: Read, ID: "c", IfNoneMatch: "*"}}}
	script := request{table: 1030, revision: 7, now: 1_700_000_000, program: []byte("order")}
	done := answer{failed: -1, of: []outcome{{status: 201, charge: 300, id: "a", there: true,
		stored: stored{etag: uuid.UUID{1, 2}, ts: 1_700_000_000, body: []byte(`{"id":"a"}`)}}}}
	failed := answer{failed: 1, result: []byte("r"), of: []outcome{{status: 424}, {status: 412, sub: 5, message: "no"}}}
	program := func(b []byte) ([]byte, error) {
		q, err := decodeRequest(b)
		return q.append(nil), err
	}
	result := func(b []byte) ([]byte, error) {
		a, err := decodeAnswer(b)
		return a.append(nil), err
	}
	for _, c := range []struct {
		name, want string
		written    []byte
		again      func([]byte) ([]byte, error)
	}{
		{"operations", "100086080780c49fd50c01030101610a7b226964223a2261227d0000050162025b5d03223122000601630000012a",
			of.append(nil), program},
		{"a script", "110086080780c49fd50c056f72646572", script.append(nil), program},
		{"what was done", "0100010001c9010000ac020161010102000000000000000000000000000080c49fd50c0b7b226964223a2261227d",
			done.append(nil), result},
		{"what failed", "010002017202a80300000000009c0305026e6f000000", failed.append(nil), result},
	} {
		if got := hex.EncodeToString(c.written); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
		if again, err := c.again(c.written); err != nil || string(again) != string(c.written) {
			t.Errorf("%s: read back as %x, %v", c.name, again, err)
		}
	}
}
