// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/replica/census"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/test/poll"
)

// TestLargestKeys proves that the ten largest logical partitions of a physical one are named in order, their sizes
// being those of zipf 0.99, and that they are looked for again when they have changed.
func TestLargestKeys(t *testing.T) {
	n := startTestNode(t, Options{InitialPartitions: 1})
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
				size := min(left, 1<<14)
				at := (k*7919 + row*104729) % (len(noise) - size)
				c.execute(insert, number(k), number(row), noise[at:at+size])
				left -= size
			}
		}
	}
	table := n.catalog.Snapshot().Table("k", "t").ID
	named := func() string {
		var names []string
		for _, r := range n.usage(t.Context(), usage.Question{Table: table, Largest: true}) {
			for _, l := range r.Largest {
				names = append(names, strings.TrimPrefix(l.Name, "k = "))
			}
		}
		return strings.Join(names, " ")
	}
	write(200_000, 2000)
	poll.Until(t, "the largest are named", func() bool { return named() == "0 1 2 3 4 5 6 7 8 9" })

	if testing.Short() {
		return
	}
	write(5_000_000, 2000) // more than is read as a whole
	if err := n.store.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &census.Largest{Store: n.store.Statistics, Replicas: n.host.Replicas, ReadMax: 1,
		Now: func() int64 { return n.clock()().Unix() }}
	var looks sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	looks.Go(func() { l.Run(ctx) })
	id := n.records.State().Map.Partitions(table)[0].ID
	var found []census.Large
	poll.Until(t, "the largest on disk are found", func() bool { found = l.Of(id); return found != nil })
	cancel()
	looks.Wait()
	for i, large := range found {
		if key := int(binary.BigEndian.Uint32(large.Key)); key != i {
			t.Errorf("place %d is %d, with %d bytes", i, key, large.Bytes)
		}
	}
}
