// SPDX-License-Identifier: Apache-2.0

//go:build integration && unix

package node

import (
	"cmp"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/vector"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
)

var nearRows = flag.Int("near-rows", 0,
	"how many vectors of 128 dimensions TestNearMany measures with; 0: it is skipped")

var nearFile = flag.String("near-file", "", "little-endian floats, 128 a vector, that TestNearMany takes instead")

// readVectors reads vectors from the file of -near-file. readVectors returns nil if the flag is not set.
func readVectors(t *testing.T, n, dim int) [][]float32 {
	if *nearFile == "" {
		return nil
	}
	b, err := os.ReadFile(*nearFile)
	if err != nil || len(b) < 4*n*dim {
		t.Fatalf("%s has %d bytes, %d are needed: %v", *nearFile, len(b), 4*n*dim, err)
	}
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, dim)
		for j := range out[i] {
			out[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*(i*dim+j):]))
		}
	}
	return out
}

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestNearMany measures a table with very many vectors. The test reports the time to build the index and the cost of a
// row write with and without the index. It also reports the processor time and the recall of searches for ten rows.
func TestNearMany(t *testing.T) {
	if *nearRows == 0 {
		t.Skip("measures for minutes: -near-rows 1000000")
	}
	const dim, limit, searches, measured, writers = 128, 10, 200, 100, 4
	n := startTestNode(t, Options{Data: t.TempDir(), InitialPartitions: 1, Commit: "periodic",
		Memory: options.Memory{Budget: 1 << 30},
		Splits: options.Splits{Units: -1}}) // each partition is searched separately
	s := newNearItems(t, n, dim, vector.Cosine, "ks")
	all := readVectors(t, *nearRows+searches, dim)
	if all == nil {
		all = manyVectors(*nearRows+searches, dim)
	}
	targets := all[*nearRows:]
	all = all[:*nearRows]
	load := func(from, to int) time.Duration {
		before := cpu()
		var done sync.WaitGroup
		for w := range writers {
			done.Go(func() {
				c := newClient(t, n)
				insert := c.prepare("INSERT INTO ks.t (k, v, x) VALUES (?, ?, 1)")
				var wire []byte
				for i := from + w; i < to; i += writers {
					wire = vector.AppendVector(wire[:0], all[i])
					c.execute(insert, nearNumber(i), wire)
				}
			})
		}
		done.Wait()
		return cpu() - before
	}
	last := len(all) * 19 / 20
	began := time.Now()
	used := load(0, last)
	t.Logf("%d rows without an index: %v, %v of CPU each", last, time.Since(began), used/time.Duration(last))
	began, used = time.Now(), cpu()
	s.c.query("CREATE INDEX near ON t (v) USING 'sai'")
	eventually.None(t, "the index", time.Hour, func() string {
		if _, ix := s.descriptor(); ix == nil || n.builder.Building(ix) {
			return "it is being built"
		}
		return ""
	})
	took := time.Since(began)
	_, ix := s.descriptor()
	t.Logf("index of %d lists built: %v, %.0f vectors a second, %v of CPU each", ix.ListsOf(s.column())[0].Len(), took,
		float64(last)/took.Seconds(), (cpu()-used)/time.Duration(last))
	began = time.Now()
	used = load(last, len(all))
	t.Logf("%d rows with it: %v, %v of CPU each", len(all)-last, time.Since(began), used/time.Duration(len(all)-last))
	find := s.c.prepare("SELECT k FROM t ORDER BY v ANN OF ? LIMIT 10")
	found := make([][]int, searches)
	for _, phase := range []string{"first", "again"} {
		runtime.GC()
		began, used = time.Now(), cpu()
		before := n.store.Metrics()
		for i, target := range targets {
			r := s.c.execute(find, vector.AppendVector(nil, target))
			found[i] = found[i][:0]
			for j := range r.RowCount {
				found[i] = append(found[i], int(binary.BigEndian.Uint32(r.Cells[8*j+4:])))
			}
		}
		after := n.store.Metrics()
		t.Logf("a search, %s: %v, %v of CPU, %d entries and rows looked at", phase, time.Since(began)/searches,
			(cpu()-used)/searches, (after.Rows-before.Rows)/searches)
	}
	hits, late, lateHits := 0, 0, 0
	exact := make([]float32, len(all))
	for i, target := range targets {
		for j, v := range all {
			exact[j] = vector.Cosine.Of(target, v)
		}
		top := slices.Clone(exact)
		slices.SortFunc(top, func(a, b float32) int { return cmp.Compare(b, a) })
		for _, k := range found[i] {
			if exact[k] >= top[limit-1] {
				if hits++; k >= last {
					lateHits++
				}
			}
		}
		for _, x := range exact[last:] {
			if x >= top[limit-1] {
				late++
			}
		}
		if i == measured-1 {
			break // the remaining searches would take as long
		}
	}
	t.Logf("recall@10 %.3f; %d of the %d nearest that were written with the index", float64(hits)/(measured*limit), lateHits, late)
}

// manyVectors returns vectors in a space of dim dimensions that vary in about 32 dimensions. The vectors are near
// centers with different weights. Each center has about 100 vectors.
func manyVectors(n, dim int) [][]float32 {
	const inner = 32
	rnd := rand.New(rand.NewPCG(21, 22))
	base := make([][]float32, inner)
	for i := range base {
		base[i] = make([]float32, dim)
		for j := range base[i] {
			base[i][j] = float32(rnd.NormFloat64())
		}
	}
	middles := make([][inner]float32, n/100+1)
	for i := range middles {
		for j := range middles[i] {
			middles[i][j] = float32(rnd.NormFloat64())
		}
	}
	out := make([][]float32, n)
	for i := range out {
		at := &middles[int(float64(len(middles))*rnd.Float64()*rnd.Float64())]
		v := make([]float32, dim)
		for j := range inner {
			x := at[j] + 0.7*float32(rnd.NormFloat64())
			for k := range v {
				v[k] += x * base[j][k]
			}
		}
		for k := range v {
			v[k] += 0.3 * float32(rnd.NormFloat64())
		}
		out[i] = v
	}
	return out
}
