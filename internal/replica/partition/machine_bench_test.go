// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// BenchmarkApply measures how long a node takes to apply a write, for several numbers of partitions. It applies batches
// of 24 entries on a disk in memory, including flushes and compactions.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1, 256} {
		b.Run(fmt.Sprint("partitions=", n), func(b *testing.B) {
			s, err := storage.Open(vfs.NewMem(), "rows", storage.Options{})
			if err != nil {
				b.Fatal(err)
			}
			h := newHost(s, Options{})
			h.seqs = none{}
			m := testMap(b, n)
			var metas []keys.Meta
			batch := s.NewBatch()
			for _, p := range m.Partitions(testTable) {
				meta := initialMeta(p, p.SetOn(nodeID(0)), feature.Oldest)
				meta.Voters = make([]keys.Member, 4)
				metas = append(metas, meta)
				batch.PutMeta(&meta)
			}
			if err := batch.Commit(); err != nil {
				b.Fatal(err)
			}
			batch.Close()
			if _, err := h.load(metas); err != nil {
				b.Fatal(err)
			}
			type proposed struct {
				at    topology.PartitionID
				entry [][]byte
			}
			rng := rand.New(rand.NewPCG(1, 2))
			entries := make([]proposed, b.N)
			for i := range entries {
				key := binary.BigEndian.AppendUint64(make([]byte, 8, 136), rng.Uint64())
				c := put(string(key[:136]), rng.Int64())
				stampAll(c, int64(i))
				e := &command.Entry{Kind: command.EntryWrite, Mutations: []command.Mutation{*c}}
				entries[i] = proposed{m.Locate(testTable, c.Token, c.Key).ID, [][]byte{command.AppendEntry(nil, e)}}
			}
			b.ReportAllocs()
			b.ResetTimer()
			began := cpu()
			var results []any
			for i := range entries {
				e := &entries[i]
				next := h.Replica(e.at).ahead.applied + 1
				if results, err = h.machine.Apply(uint64(e.at), next, 6, e.entry, results[:0]); err != nil {
					b.Fatal(err)
				}
				if i%24 == 23 {
					if err := h.machine.Commit(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			b.ReportMetric(float64((cpu()-began).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
			h.machine.close()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
