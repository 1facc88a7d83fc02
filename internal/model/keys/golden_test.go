// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"encoding/hex"
	"testing"
)

// TestStoredBytes pins the encoding of the records of this package, which are stored on disk.
func TestStoredBytes(t *testing.T) {
	m := Meta{
		Partition: 1 << 40, Applied: 300, Term: 6, Span: Span{Table: 2000, Begin: []byte{1}, End: []byte{}}, Epoch: 4,
		Voters:   []Member{{1, [16]byte{1}}, {1 << 60, [16]byte{15: 2}}},
		Learners: []Member{{5, [16]byte{}}}, LearnersNext: []Member{{3, [16]byte{3}}},
		AutoLeave: true, Children: []Child{{7, Span{Table: 2000, Begin: []byte{1, 2}, End: []byte{3}}, 2, 290}},
		Feature: 1, Region: "eu",
		Parents: []Parent{{6, 77, 3}, {5, 1 << 40, 2}}, Swept: 1 << 30, FeedLow: 12, MaxTimestamp: -500,
		SchemaVersion: 99,
	}
	r := Replica{Partition: MetaPartition, Replica: 300, Created: 1700000000}
	var progress []byte
	for _, p := range []Progress{{1 << 40, 300, 6, -500, 99}, {Partition: 7}} {
		progress = AppendProgress(progress, &p)
	}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"meta", m.Append(nil),
			"02808080808020ac0206e7076301d00f0101000402010100000000000000000000000000000080808080808080801000000000" +
				"00000000000000000000000201050000000000000000000000000000000000010303000000000000000000000000000000" +
				"010107d00f020102010302a202020c02064d030580808080802002040265750605808080800808010c00"},
		{"replica", r.Append(nil), "02808080808080808040ac0280c49fd50c00"},
		{"progress", progress, "01808080808020ac0206e707630700000000"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
