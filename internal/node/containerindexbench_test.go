// SPDX-License-Identifier: Apache-2.0

package node

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/container"
)

var (
	indexedItems  = flag.Int("container.items", 0, "measure queries by the index over so many items in one container")
	indexedBytes  = flag.Int("container.bytes", 880, "how long a text the items have that is not indexed")
	indexedMemory = flag.Int("container.memory", 2048, "the memory of the node, in MiB")
	indexedSettle = flag.Bool("container.settle", true, "wait until compactions have caught up")
)

// benchItem returns the body of an item of about 1 KB with ten properties.
func benchItem(i int) string {
	return fmt.Sprintf(`{"id":"%08d","k":"k%d","user":"u%d","n":%d,"state":"s%d","at":%d,"price":%d.5,"city":"c%d",`+
		`"active":%v,"text":"%s"}`, i, i%5000, i%100_000, i, i%10, 1_700_000_000+i, i%1000, i%200, i%2 == 0,
		strings.Repeat("x", *indexedBytes))
}

// TestIndexedQueriesOverMany measures creates and indexed queries in a container with many items.
func TestIndexedQueriesOverMany(t *testing.T) {
	if *indexedItems == 0 {
		t.Skip("without -container.items")
	}
	o := Options{InitialPartitions: 2, Data: t.TempDir()}
	o.Memory.Budget = options.Bytes(*indexedMemory) << 20
	o.CQL, o.HTTP = "127.0.0.1:0", "off"
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	head := `"partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"indexingPolicy":`
	plain := newContainer(t, n, `{"id":"plain",`+head+`{"indexingMode":"none"}}`)
	s := newContainer(t, n, `{"id":"c",`+head+`{"excludedPaths":[{"path":"/text/?"}],"compositeIndexes":[
		[{"path":"/state"},{"path":"/at","order":"descending"}],[{"path":"/city"},{"path":"/n"}],
		[{"path":"/k"},{"path":"/at"}]]}}`)
	for name, of := range map[string]*items{"no index": plain, "default": s} {
		var took []time.Duration
		for i := range 3000 {
			op := create(benchItem(*indexedItems + i))
			began := time.Now()
			of.want(201, nil, op)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("create, %s: %v p50", name, took[len(took)/2])
	}
	began := time.Now()
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			for k := w; k < 5000; k += 4 {
				for i := k; i < *indexedItems; {
					var ops []container.Operation
					for ; i < *indexedItems && len(ops) < 100; i += 5000 {
						ops = append(ops, create(benchItem(i)))
					}
					r, err := n.Containers.Do(t.Context(), s.c, key(fmt.Sprint("k", k)), ops,
						container.RequestOptions{NoBodies: true})
					if err != nil || r.Failed >= 0 {
						t.Errorf("%+v, %v", r, err)
						return
					}
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d items written in %v", *indexedItems, time.Since(began))
	for rest := time.Now(); *indexedSettle && time.Since(rest) < 2*time.Minute; time.Sleep(time.Second) {
		if n.store.Metrics().CompactionDebt <= 64<<20 {
			break
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{
		`SELECT * FROM c WHERE c.user = "u%d"`, `SELECT * FROM c WHERE c.n = %d`,
		`SELECT * FROM c WHERE c.state = "s1" AND c.city = "c1" AND c.n = %d`,
		`SELECT * FROM c WHERE c.n >= %d AND c.n < 50000 OFFSET 0 LIMIT 10`,
		`SELECT TOP 10 * FROM c ORDER BY c.at DESC`, `SELECT TOP 10 * FROM c WHERE c.at > 17000%d ORDER BY c.at`,
		`SELECT TOP 10 * FROM c ORDER BY c.state, c.at DESC`, `SELECT TOP 10 * FROM c ORDER BY c.state DESC, c.at`,
		`SELECT TOP 10 * FROM c WHERE c.state = "s3" ORDER BY c.at DESC`,
		`SELECT * FROM c WHERE c.city = "c17" AND c.n >= %d AND c.n < 50000 OFFSET 0 LIMIT 10`,
		`SELECT TOP 10 * FROM c WHERE c.k = "k77" ORDER BY c.at DESC`,
		`SELECT TOP 10 * FROM c WHERE c.k = "k77" ORDER BY c.price`,
		`SELECT VALUE COUNT(1) FROM c WHERE c.user = "u%d"`, `SELECT VALUE COUNT(1) FROM c WHERE c.city = "c17"`,
		`SELECT VALUE SUM(c.n) FROM c WHERE c.k = "k77"`,
	} {
		var took []time.Duration
		var results, examined int64
		for range 300 {
			q := text
			if strings.Contains(q, "%d") {
				q = fmt.Sprintf(q, 49_000+r.IntN(1000))
			}
			began := time.Now()
			p, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{Text: q, CrossPartition: true,
				MaxItems: 100})
			if err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			took = append(took, time.Since(began))
			results, examined = results+int64(len(p.Documents)), examined+p.Metrics.RetrievedCount
		}
		slices.Sort(took)
		t.Logf("%s: %v p50, %v p99; %d results of %d items", text, took[len(took)/2], took[len(took)*99/100],
			results/300, examined/300)
	}
}
