// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// hotPath performs the codec operations of a point read. It finds the frame, decodes an EXECUTE with three values, and
// encodes 10 rows of 3 columns.
func hotPath(version uint8, frame []byte, e *Execute, w *Writer, h *RowsHeader, cells []byte) bool {
	head, body, _, ok, err := NextEnvelope(frame, FrameSizeMax)
	if !ok || err != nil || e.Decode(body, head.Version) != nil || len(e.Values) != 3 {
		return false
	}
	w.Buf = w.Buf[:0]
	w.Begin(Header{Version: version, Response: true, Stream: head.Stream, Opcode: OpResult})
	w.Buf = AppendRows(w.Buf, h, cells)
	w.End()
	w.Finish()
	return true
}

func hotInput(version uint8) (frame []byte, h *RowsHeader, cells []byte) {
	var w Writer
	w.Begin(Header{Version: version, Opcode: OpExecute})
	x := Execute{ID: make([]byte, 16), ResultMetadataID: make([]byte, 16)}
	x.Values = [][]byte{make([]byte, 16), make([]byte, 4), make([]byte, 8)}
	w.Buf = x.Append(w.Buf, version)
	w.End()
	for range 30 {
		cells = AppendBytes(cells, make([]byte, 12))
	}
	block := AppendColumnsBlock(nil, version, []Column{{"k", "t", "a", native(cqltype.Int)},
		{"k", "t", "b", native(cqltype.Int)}, {"k", "t", "c", native(cqltype.Int)}})
	return w.Buf, &RowsHeader{Columns: 3, Rows: 10, Block: block}, cells
}

// TestHotPathAllocations checks that the hot path does not allocate.
func TestHotPathAllocations(t *testing.T) {
	for version := uint8(V3); version <= V5; version++ {
		frame, h, cells := hotInput(version)
		var e Execute
		var w Writer
		w.SetFraming(version == V5, NoCompression)
		n := testing.AllocsPerRun(100, func() {
			if !hotPath(version, frame, &e, &w, h, cells) {
				t.Fatal("it does not decode")
			}
		})
		if n != 0 {
			t.Errorf("v%d: %v allocations", version, n)
		}
		var b Batch
		batch := (&Batch{Statements: []BatchStatement{{ID: make([]byte, 16), Values: [][]byte{{1}, nil},
			Unset: []bool{false, version >= V4}}, {ID: make([]byte, 16)}}}).Append(nil, version)
		if n := testing.AllocsPerRun(100, func() {
			if b.Decode(batch, version) != nil {
				t.Fatal("it does not decode")
			}
		}); n != 0 {
			t.Errorf("v%d: %v allocations per batch", version, n)
		}
	}
}

// BenchmarkExecute measures the CPU cost of the codec per request.
func BenchmarkExecute(b *testing.B) {
	for _, version := range []uint8{V4, V5} {
		b.Run(Versions[version-V3][2:], func(b *testing.B) {
			frame, h, cells := hotInput(version)
			var e Execute
			var w Writer
			w.SetFraming(version == V5, NoCompression)
			b.ReportAllocs()
			for b.Loop() {
				hotPath(version, frame, &e, &w, h, cells)
			}
		})
	}
}
