// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/hex"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
)

// TestTimes checks the write times and remaining TTLs of multi-cell columns. The list of a collection must contain one
// time per element. The list of a user-defined type must contain one time per field, or null for missing fields.
func TestTimes(t *testing.T) {
	list := cqltype.ListOf(cqltype.Native(cqltype.Int))
	kind := cqltype.UDTOf("k", "u", []string{"a", "b", "c"}, []*cqltype.Type{list, list, list})
	fields := []row.Cell{{Path: row.FieldPath(1), Timestamp: 5, TTL: 100, Expiry: 70},
		{Path: row.FieldPath(2), Timestamp: 6}, {Path: row.FieldPath(9), Timestamp: 7}}
	s := &rowSlots{now: 60}
	for _, c := range []struct {
		typ  *cqltype.Type
		part cellPart
		want string
	}{
		{list, cellWriteTimes, "00000003000000080000000000000005000000080000000000000006000000080000000000000007"},
		{list, cellTTLs, "00000003000000040000000affffffffffffffff"},
		{kind, cellWriteTimes, "00000003ffffffff000000080000000000000005000000080000000000000006"},
		{kind, cellTTLs, "00000003ffffffff000000040000000affffffff"},
	} {
		got := hex.EncodeToString(s.appendTimes(nil, &cellSlot{typ: c.typ, part: c.part}, fields))
		if got != c.want {
			t.Errorf("%s of %s: %s, want %s", map[cellPart]string{cellWriteTimes: "times", cellTTLs: "ttls"}[c.part],
				c.typ, got, c.want)
		}
	}
}
