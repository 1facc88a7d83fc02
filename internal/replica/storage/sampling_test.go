// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

const surveyTable = 600

// fillPartition writes rows of 100 bytes, numbered from 0, to a logical partition.
func fillPartition(t testing.TB, s *Store, key string, rows int) {
	t.Helper()
	value := make([]byte, 100)
	random := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32s", key))))
	b := s.NewBatch()
	defer b.Close()
	for i := range rows {
		_, _ = random.Read(value)
		var w row.Builder
		w.Reset(int64(1000 + i))
		w.Live(0, 0)
		w.Cell(1, nil, value, 0, 0)
		at := keys.AppendRow(nil, surveyTable, token.Hash([]byte(key)), []byte(key),
			binary.BigEndian.AppendUint32(nil, uint32(i)))
		if err := b.b.Set(at, w.Bytes(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

func surveyed100(t testing.TB, s *Store, o SampleOptions) Sample {
	t.Helper()
	got, err := s.Sample(t.Context(), keys.TokenSpan(surveyTable, token.Range{}), o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestSampleOfAll checks that a small table is read completely. Each logical partition must be returned once with its
// exact size.
func TestSampleOfAll(t *testing.T) {
	s := openMem(t, Options{})
	for i := range 50 {
		fillPartition(t, s, fmt.Sprint("k", i), i+1)
	}
	got := surveyed100(t, s, SampleOptions{Spots: 8, Run: 100, HeavySpots: 8, RowsKept: 10, Bytes: 1 << 20, Now: 1})
	if !got.Complete || len(got.Partitions) != 50 {
		t.Fatalf("complete: %v, %d partitions", got.Complete, len(got.Partitions))
	}
	for _, p := range got.Partitions {
		var i int
		_, _ = fmt.Sscanf(string(p.Key), "k%d", &i)
		rows := float64(i + 1)
		var weight float64
		for _, r := range p.Kept {
			weight += r.Weight
		}
		if p.Rows != rows || p.Values != rows || p.Bytes != rows*float64(len(p.Key)+4+9+4+100) || p.Partial ||
			math.Abs(weight-rows) > 1e-6 || len(p.Kept) > 20 {
			t.Errorf("%s: %v rows, %v values, %v bytes, %d rows kept for %v", p.Key, p.Rows, p.Values, p.Bytes,
				len(p.Kept), weight)
		}
	}
	if none := surveyed100(t, openMem(t, Options{}), SampleOptions{Spots: 8, Run: 10, HeavySpots: 8, RowsKept: 10,
		Bytes: 1,
		Now:   1}); !none.Complete || len(none.Partitions) > 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

// TestSampleFindsTheLargest checks that the largest of many logical partitions are found although only parts of these
// partitions are read. The reported sizes must be approximately correct, the sampled rows must come from all parts, and
// the sample must not read more data than requested.
func TestSampleFindsTheLargest(t *testing.T) {
	s := openMem(t, Options{})
	const large, rows = 3, 40_000
	for i := range 5000 {
		fillPartition(t, s, fmt.Sprint("k", i), 1)
	}
	for i := range large {
		fillPartition(t, s, fmt.Sprint("large ", i), rows)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	before := s.Metrics().Rows
	got := surveyed100(t, s, SampleOptions{Spots: 16, Run: 10, HeavySpots: 32, RowsKept: 1024, Bytes: 16 << 20, Now: 1})
	if read := s.Metrics().Rows - before; read > 3*10_000+large*2*1024+16*10+5000 {
		t.Errorf("%d rows were read", read)
	}
	found, drawn := 0, 0
	for _, p := range got.Partitions {
		if !p.Heavy {
			drawn++
		}
		if p.Key[0] != 'l' {
			continue
		}
		found++
		bytes := float64(rows * (len(p.Key) + 4 + 9 + 4 + 100))
		if !p.Partial || math.Abs(p.Bytes/bytes-1) > 0.1 || math.Abs(p.Rows/rows-1) > 0.1 {
			t.Errorf("%s: %.0f bytes for %.0f, %.0f rows", p.Key, p.Bytes, bytes, p.Rows)
		}
		// Each quarter of the partition must have about a quarter of the rows.
		var quarters [4]float64
		for _, r := range p.Kept {
			quarters[min(int(binary.BigEndian.Uint32(r.Clustering))*4/rows, 3)] += r.Weight / p.Rows
		}
		for _, q := range quarters {
			if math.Abs(q-0.25) > 0.1 {
				t.Errorf("%s: rows of its quarters stand for %.2f", p.Key, quarters)
				break
			}
		}
	}
	if got.Complete || found != large || drawn < 100 {
		t.Errorf("complete: %v, %d large ones found, %d drawn by chance", got.Complete, found, drawn)
	}
}

// BenchmarkSample samples a table of 10^6 rows in 10,000 logical partitions, one of which has a tenth of all rows.
func BenchmarkSample(b *testing.B) {
	s := openMem(b, Options{})
	for i := range 9000 {
		fillPartition(b, s, fmt.Sprint("k", i), 100)
	}
	fillPartition(b, s, "large", 100_000)
	if err := s.db.Flush(); err != nil {
		b.Fatal(err)
	}
	o := SampleOptions{Spots: 16, Run: 16, HeavySpots: 32, RowsKept: 2048, Bytes: 64 << 20, Now: time.Now().Unix()}
	b.ReportAllocs()
	for b.Loop() {
		surveyed100(b, s, o)
	}
}
