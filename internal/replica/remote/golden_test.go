// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

func goldenRow() *row.Row {
	return &row.Row{
		Live: true, Liveness: row.Liveness{Timestamp: 1 << 50, TTL: 60, Expiry: 1 << 33},
		Cells: []row.Cell{
			{
				Column:    3,
				Value:     []byte("value"),
				Timestamp: 1 << 50,
				Expiry:    row.NoExpiry,
			}, {Column: 300, Path: []byte("p"), Timestamp: 5, TTL: 5, Expiry: 6},
			{Column: 301, Value: make([]byte, 20), Timestamp: 1 << 50, Expiry: row.NoExpiry},
		},
	}
}

// TestWireBytes pins the bytes that nodes of other versions send.
func TestWireBytes(t *testing.T) {
	u := conditional()
	errs := []byte{}
	for _, err := range all {
		errs = AppendError(errs, err)
	}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"head", appendHead(nil, kindWrite, 300, nil), "030100ac02"},
		{"traced head", appendHead(nil, kindRead, 1, trace.New([16]byte{}, time.Now())), "01010101"},
		{"forward head", (&Replica{id: 300, epochs: func(dst []Epoch, _ topology.PartitionID) []Epoch {
			return append(dst, Epoch{topology.NodeID{1}, 300})
		}}).appendRelayHead(nil), "0d0100ac020101000000000000000000000000000000ac02"},
		{"parts", appendParts(nil, []partition.Part{{Mutation: mutation()}, {Mutation: &u.Mutation, Updates: u}}),
			"020000003600020107fffffffffffffffd016b0504000202000000000000000000000000000000064600010001630d00800000" +
				"0000000000010101760000004801020207fffffffffffffffd016b05040002020000000000000000000000000000000646" +
				"00010001630d00800000000000000001010176000000000001000163010002010c00010000"},
		{"extent", appendExtent(nil, extent), "0706d80401010102"},
		{"partition", appendPartition(nil, -5, []byte("key"), goldenRow()),
			"02fffffffffffffffb036b65790380808080808080047880808080400300030576616c756507a9020170f5ffffffffffff030a" +
				"0c000001140000000000000000000000000000000000000000"},
		{"partition without statics", appendPartition(nil, 5, nil, nil), "01000000000000000500"},
		{"row", appendRow(nil, &row.Row{Cells: goldenRow().Cells[1:]}),
			"000a0205ac0201700a0c000201f6ffffffffffff03140000000000000000000000000000000000000000"},
		{"errors", errs, "03040506070103070000000000000000000000000000000100000000000000000000000000000000000203000" +
			"00000000000010000800000000000000000016b040509808080808080808010200161210162220163230164240165250166260" +
			"1672f0168270169016a016b28010200000000000000000000000000002980bcc1960b016c2a0a03022b050102034341532" +
			"c010102012d0201020301016d2e02010203054241544348016e30016f01700203696e74047465787401710008616e797468696e670cac02"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// BenchmarkPage measures the CPU time to encode and decode a page of a hundred rows.
func BenchmarkPage(b *testing.B) {
	r := goldenRow()
	var page []byte
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			page = appendPartition(head(page[:0], nil, false), 5, []byte("key"), nil)
			for range 100 {
				page = appendRow(codec.AppendBytes(append(page, itemRow), []byte("clustering")), r)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		var p pageReader
		b.ReportAllocs()
		for b.Loop() {
			p.begin(&command.Read{}, blind{})
			a, err := open(page, nil)
			if err == nil {
				_, err = p.take(&a)
			}
			if err != nil || p.items != 101 {
				b.Fatal(p.items, err)
			}
		}
	})
}
