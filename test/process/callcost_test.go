// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/freeport"
	"github.com/ilion-db/ilion/test/restclient"
)

// These are the numbers of logical partitions, requests in flight per connection, connections, and turns of
// BenchmarkCall.
const (
	callOwners   = 4000
	callPipeline = 16
	callLines    = 4
	callTurns    = 5
)

// takeText is a procedure that reads ten items and replaces every second item.
const takeText = `function take(n) {
	var c = getContext().getCollection(), left = 10, link = c.getAltLink(), sum = 0;
	'abcdefghij'.split('').forEach(function (id, i) {
		c.readDocument(link + '/docs/' + id, function (err, d) {
			if (err) throw err;
			sum += d.amount;
			if (i % 2 == 0) { d.amount -= n; c.replaceDocument(d._self, d, {etag: d._etag}, done) }
			else done();
		});
	});
	function done(err) { if (err) throw err; if (--left == 0) getContext().getResponse().setBody({sum: sum}) }
}`

// callItem returns an item of 300 bytes.
func callItem(id, key string) map[string]any {
	return map[string]any{"id": id, "k": key, "owner": "somebody", "amount": 17, "tags": []string{"x", "y"},
		"address": map[string]string{"city": "Paris", "zip": "75001"}, "text": strings.Repeat("lorem ipsum ", 14)}
}

// BenchmarkCall measures the server's CPU time for three workloads: a stored procedure with ten reads and five
// replacements, an empty procedure, and a write of a row with the size of an item. The three workloads alternate. Each
// connection has several requests in flight. The benchmark covers fully indexed items and items that are not indexed.
func BenchmarkCall(b *testing.B) {
	s := startCalls(b)
	c := s.Dial(b)
	Do(b, c, "CREATE TABLE shop.rows (k text PRIMARY KEY, body text)")
	row, err := json.Marshal(callItem("a", "owner"))
	if err != nil {
		b.Fatal(err)
	}
	owner := func() []byte { return []byte(fmt.Sprint("owner", rand.IntN(callOwners))) }
	kinds := []struct {
		name, text string
		values     func() [][]byte
	}{
		{"write", "INSERT INTO shop.rows (k, body) VALUES (?, ?)",
			func() [][]byte { return [][]byte{fmt.Appendf(nil, "%016d", rand.IntN(10_000_000)), row} }},
		{"take", "CALL shop.plain.take(?, 0)", func() [][]byte { return [][]byte{owner()} }},
		{"take-indexed", "CALL shop.indexed.take(?, 0)", func() [][]byte { return [][]byte{owner()} }},
		{"nothing", "CALL shop.plain.nothing(?)", func() [][]byte { return [][]byte{owner()} }},
		{"read", "SELECT body FROM shop.plain WHERE \"/k\" = ? AND id = 'c'",
			func() [][]byte { return [][]byte{fmt.Appendf(nil, "%q", owner())} }},
		{"write-if", "INSERT INTO shop.rows (k, body) VALUES (?, ?) IF NOT EXISTS",
			func() [][]byte { return [][]byte{fmt.Appendf(nil, "%017d", rand.IntN(1<<50)), row} }},
	}
	costs := make([][]float64, len(kinds))
	lines := make([]*rawclient.Conn, callLines)
	ids := make([][]byte, len(kinds))
	for i := range lines {
		lines[i] = s.Dial(b)
	}
	for i, k := range kinds {
		p, err := lines[0].Prepare(k.text)
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = slices.Clone(p.ID)
	}
	for b.Loop() {
		for turn := range callTurns + 1 {
			for i, k := range kinds {
				before := s.CPU(b)
				n := rush(b, lines, ids[i], k.values)
				used := s.CPU(b) - before
				if turn > 0 { // the first turn is a warm-up
					costs[i] = append(costs[i], float64(used.Microseconds())/float64(n))
				}
			}
		}
	}
	middle := func(i int) float64 {
		slices.Sort(costs[i])
		return costs[i][len(costs[i])/2]
	}
	for i, k := range kinds {
		b.Logf("%s: %.1f us, from %.1f to %.1f", k.name, middle(i), costs[i][0], costs[i][len(costs[i])-1])
		b.ReportMetric(middle(i), k.name+"-us")
	}
	b.ReportMetric(middle(1)/middle(0), "take/write")
	b.ReportMetric(0, "ns/op")
}

// startCalls starts a node with the containers of loadCalls.
func startCalls(b *testing.B) *Server {
	b.Helper()
	address, err := freeport.Address()
	if err != nil {
		b.Fatal(err)
	}
	config := filepath.Join(b.TempDir(), "config.yaml")
	// The configuration disables splits.
	text := "splits:\n  request_units_per_second: -1\nrest:\n  primary_key: " + restclient.Key + "\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	s := Start(b, b.TempDir(), "--config", config, "--commit", "periodic", "--rest", address)
	loadCalls(b, address)
	return s
}

// BenchmarkNeighbour measures the latency of a client's point reads. It compares the latency without other clients to
// the latency while other clients call procedures that loop, allocate, or recurse without end.
func BenchmarkNeighbour(b *testing.B) {
	s := startCalls(b)
	reads := func(what string, most time.Duration) {
		c := s.Dial(b)
		var took []time.Duration
		for end := time.Now().Add(most); time.Now().Before(end); {
			begun := time.Now()
			_, err := c.Query("SELECT body FROM shop.plain WHERE \"/k\" = '\"owner1\"' AND id = 'c'")
			if err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		at := func(part float64) float64 {
			return float64(took[int(part*float64(len(took)-1))].Microseconds()) / 1000
		}
		b.Logf("%s: %d reads, p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms", what, len(took), at(0.5), at(0.99), at(0.999))
		b.ReportMetric(at(0.5), what+"-p50-ms")
		b.ReportMetric(at(0.99), what+"-p99-ms")
	}
	for b.Loop() {
		reads("alone", 3*time.Second)
		for _, name := range []string{"loops", "allocates", "recurses"} {
			stop := make(chan struct{})
			var hostile sync.WaitGroup
			for i := range 4 {
				c := s.Dial(b)
				hostile.Go(func() {
					for {
						select {
						case <-stop:
							return
						default: // the node rejects each call after some time
							_, _ = c.Query(fmt.Sprintf("CALL shop.plain.%s('owner%d')", name, 2+i))
						}
					}
				})
			}
			reads(name, 3*time.Second)
			close(stop)
			hostile.Wait()
		}
	}
	b.ReportMetric(0, "ns/op")
}

// loadCalls creates two containers with procedures and items.
func loadCalls(b *testing.B, address string) {
	c := restclient.New(address, time.Minute)
	defer c.Close()
	post := func(path, key string, body any) {
		b.Helper()
		q := &restclient.Request{Method: http.MethodPost, Path: path, Key: key, Body: body}
		if key != "" {
			q.Headers = map[string]string{"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "true"}
		}
		status, _, err := c.Ask(b.Context(), q, nil)
		if err != nil || status >= 300 || status == http.StatusMultiStatus {
			b.Fatalf("%s: %d %v", path, status, err)
		}
	}
	post("dbs", "", map[string]string{"id": "shop"})
	for id, policy := range map[string]map[string]any{
		"plain": {"indexingMode": "none", "automatic": false}, "indexed": {"indexingMode": "consistent"}} {
		post("dbs/shop/colls", "", map[string]any{"id": id, "indexingPolicy": policy,
			"partitionKey": map[string]any{"paths": []string{"/k"}, "kind": "Hash", "version": 2}})
		for name, body := range map[string]string{"take": takeText, "nothing": "", "loops": "for (;;) {}",
			"allocates": "var a = []; for (;;) a.push({a: [{}, {}]})", "recurses": "(function f() { f() })()"} {
			if name != "take" {
				body = "function () {" + body + "}"
			}
			post("dbs/shop/colls/"+id+"/sprocs", "", map[string]string{"id": name, "body": body})
		}
		for o := range callOwners {
			key := fmt.Sprint("owner", o)
			var batch []map[string]any
			for _, item := range strings.Split("abcdefghij", "") {
				batch = append(batch, map[string]any{"operationType": "Create", "resourceBody": callItem(item, key)})
			}
			post("dbs/shop/colls/"+id+"/docs", key, batch)
		}
	}
}

// rush sends requests on all connections for a second and returns the number of responses.
func rush(b *testing.B, lines []*rawclient.Conn, id []byte, values func() [][]byte) (n int) {
	done := make(chan int)
	end := time.Now().Add(time.Second)
	for _, c := range lines {
		go func() {
			n := 0
			for time.Now().Before(end) {
				if err := burst(c, id, values); err != nil {
					b.Error(err)
					break
				}
				n += callPipeline
			}
			done <- n
		}()
	}
	for range lines {
		n += <-done
	}
	return n
}

// burst sends several requests at the same time and reads their responses.
func burst(c *rawclient.Conn, id []byte, values func() [][]byte) error {
	var out []byte
	for stream := range callPipeline {
		body := append(binary.BigEndian.AppendUint16(nil, uint16(len(id))), id...)
		body = binary.BigEndian.AppendUint16(body, uint16(dberr.One))
		body = append(body, 0x01|0x02) // flags: values, no metadata
		list := values()
		body = binary.BigEndian.AppendUint16(body, uint16(len(list)))
		for _, v := range list {
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(v))), v...)
		}
		out = rawclient.AppendFrame(out, int16(stream), cqlwire.OpExecute, body)
	}
	if _, err := c.Write(out); err != nil {
		return err
	}
	for range callPipeline {
		var head [cqlwire.HeaderSize]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		h := cqlwire.ParseHeader(head[:])
		answer := make([]byte, h.Length)
		if _, err := io.ReadFull(c, answer); err != nil {
			return err
		}
		if h.Opcode != cqlwire.OpResult {
			return fmt.Errorf("returned %v: %q", h.Opcode, answer)
		}
	}
	return nil
}
