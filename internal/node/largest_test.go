// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"flag"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/partitioncount"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/test/eventually"
)

// largestOf is the number of keys that TestLargestKeys writes to disk. With a million keys, the test takes a minute.
var largestOf = flag.Int("largest.keys", 2000, "keys of TestLargestKeys")

// TestLargestKeys checks that the ten largest logical partitions of a physical partition are listed in order. Their
// sizes follow a Zipf distribution with exponent 0.99. The search must run again after the partitions have changed.
func TestLargestKeys(t *testing.T) {
	t.Parallel()
	n := startTestNode(t, Options{InitialPartitions: 1, Splits: options.Splits{Units: -1}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int, c int, v blob, PRIMARY KEY (k, c))")
	insert := c.prepare("INSERT INTO k.t (k, c, v) VALUES (?, ?, ?)")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	noise := make([]byte, 1<<16)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	write := func(most float64, keys int) {
		for k := range keys {
			left := int(most * math.Pow(float64(k+1), -0.99))
			for row := 0; left > 0; row++ {
				size := min(left, 1<<13)
				at := (k*7919 + row*104729) % (len(noise) - size)
				c.execute(insert, number(k), number(row), noise[at:at+size])
				left -= size
			}
		}
	}
	table := n.catalog.Snapshot().Table("k", "t").ID
	named := func() string {
		var names []string
		for _, r := range n.stats.Usage(t.Context(), usage.ReportOptions{Table: table, Largest: true}) {
			for _, l := range r.Largest {
				names = append(names, strings.TrimPrefix(l.Name, "k = "))
			}
		}
		return strings.Join(names, " ")
	}
	write(200_000, 2000)
	eventually.True(t, "the largest are named", func() bool { return named() == "0 1 2 3 4 5 6 7 8 9" })

	began := time.Now()
	write(6_000_000, *largestOf) // this exceeds the amount that the search reads completely
	t.Logf("%d keys written in %v", *largestOf, time.Since(began))
	if err := n.store.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := n.metadata.State().Topology.Partitions(table)[0].ID
	for _, most := range []uint64{0, 1} { // test a complete read and a search by bytes on disk
		began = time.Now()
		l := &partitioncount.LargestFinder{Store: n.store.Statistics, Host: n.host, ReadMax: most,
			Clock: n.clock}
		var looks sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		looks.Go(func() { l.Run(ctx) })
		var found []partitioncount.LargePartition
		eventually.True(t, "the largest on disk are found", func() bool { found = l.Latest(id); return found != nil })
		cancel()
		looks.Wait()
		t.Logf("found after %v", time.Since(began))
		for i, large := range found {
			if large.Token != token.Hash(number(i)) || large.Estimated && most == 0 {
				t.Errorf("place %d is %+v", i, large)
			}
		}
	}
}
