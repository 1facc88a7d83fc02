// SPDX-License-Identifier: Apache-2.0

//go:build integration

package rest

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/freeport"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/restclient"
)

var (
	costTime    = flag.Duration("cost", 0, "duration of each measurement of TestCost; 0 disables them")
	costRounds  = flag.Int("cost.rounds", 5, "number of repetitions of each measurement")
	costClients = flag.Int("cost.clients", 16, "number of connections, each with one request in flight")
	costProfile = flag.String("cost.profile", "", "folder for CPU profiles of the server, one per kind of request")
)

const (
	// costKeys is the number of items and rows that are read. Each has a separate partition key.
	costKeys = 20_000
	costDocs = "dbs/cost/colls/c/docs"
)

// exchanger sends a request on one connection and waits for the response.
type exchanger func() error

// load is one kind of request. connect creates the exchanger of client n.
type load struct {
	name    string
	connect func(c *costServer, n int) exchanger
}

// TestCost measures the server's CPU time for a point read and a create through REST, and for the equivalent CQL
// statements. The test uses one process with GOMAXPROCS=1, items and rows of 1 KB, a container without an index, and
// periodic commits. Each connection has one request in flight, and clients send prepared bytes. All kinds of requests
// alternate. The test asserts nothing. Its results are in docs/benchmarks/performance.md.
func TestCost(t *testing.T) {
	if *costTime == 0 {
		t.Skip("give -cost 5s")
	}
	c := newCostServer(t)
	loads := []load{{"cql read", (*costServer).cqlRead}, {"rest read", (*costServer).restRead},
		{"cql insert if not exists", (*costServer).cqlInsert}, {"rest create", (*costServer).restCreate}}
	figures := make([][]float64, len(loads))
	for round := range *costRounds + 1 { // the first round is a warm-up
		for i, l := range loads {
			cpu := c.measure(l, round)
			if round > 0 {
				figures[i] = append(figures[i], cpu)
			}
		}
	}
	median := func(f []float64) float64 { return slices.Sorted(slices.Values(f))[len(f)/2] }
	for i := range loads {
		line := fmt.Sprintf("%-26s %6.1f us of the server's CPU in the middle, %.1f", loads[i].name, median(figures[i]),
			figures[i])
		if i%2 == 1 {
			var ratios []float64
			for n := range figures[i] {
				ratios = append(ratios, figures[i][n]/figures[i-1][n])
			}
			line += fmt.Sprintf("; times CQL: %.2f in the middle, %.2f", median(ratios), ratios)
		}
		t.Log(line)
	}
}

// costServer is the measured process.
type costServer struct {
	t      *testing.T
	server *process.Server
	rest   string
	dir    string
	admin  *rawclient.Conn
	read   []byte // IDs of prepared statements
	insert []byte
	reads  [][]byte // requests over HTTP
	keys   [][]byte
	pad    string
	made   atomic.Int64
}

func newCostServer(t *testing.T) *costServer {
	free, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	c := &costServer{t: t, rest: free, dir: t.TempDir(), pad: strings.Repeat("x", 1000)}
	config := filepath.Join(c.dir, "ilion.yaml")
	write(t, config, "rest:\n  address: "+c.rest+"\n  primary_key: "+restclient.Key+"\n")
	t.Setenv("GOMAXPROCS", "1")
	c.dir = filepath.Join(c.dir, "data")
	c.server = process.Start(t, c.dir, "--config", config, "--rest", c.rest, "--commit", "periodic")
	c.admin = c.server.Dial(t)
	process.Do(t, c.admin, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE k.t (k text, id text, body text, PRIMARY KEY (k, id))")
	c.insert = c.prepare("INSERT INTO k.t (k, id, body) VALUES (?, ?, ?) IF NOT EXISTS")
	c.read = c.prepare("SELECT body FROM k.t WHERE k = ? AND id = ?")
	c.makeContainer()
	for n := range costKeys {
		k := fmt.Sprintf("k%07d", n)
		c.keys = append(c.keys, []byte(k))
		c.reads = append(c.reads, c.request(http.MethodGet, costDocs+"/"+k, k, ""))
	}
	rest, cql := c.dialREST(), c.dialCQL()
	for _, k := range c.keys {
		c.must(cql(c.insert, k, k, []byte(c.pad)))
		c.must(rest(c.request(http.MethodPost, costDocs, string(k), c.item(string(k))), 201))
	}
	return c
}

func (c *costServer) must(err error) {
	if err != nil {
		c.t.Helper()
		c.t.Fatal(err)
	}
}

func (c *costServer) prepare(text string) []byte {
	p, err := c.admin.Prepare(text)
	c.must(err)
	return bytes.Clone(p.ID)
}

// makeContainer creates a database and a container without an index.
func (c *costServer) makeContainer() {
	client := restclient.New(c.rest, time.Minute)
	defer client.Close()
	for _, r := range []*restclient.Request{{Method: "POST", Path: "dbs", Body: map[string]any{"id": "cost"}},
		{Method: "POST", Path: "dbs/cost/colls", Body: map[string]any{"id": "c",
			"partitionKey":   map[string]any{"paths": []string{"/k"}, "kind": "Hash", "version": 2},
			"indexingPolicy": map[string]any{"indexingMode": "none", "automatic": false}}}} {
		var text []byte
		status, _, err := client.Ask(context.Background(), r, &text)
		c.must(err)
		if status != http.StatusCreated {
			c.t.Fatalf("%s %s: %d %s", r.Method, r.Path, status, text)
		}
	}
}

// item returns an item with the size of a row.
func (c *costServer) item(id string) string {
	return `{"id":"` + id + `","k":"` + id + `","body":"` + c.pad + `"}`
}

// request returns a request in the form that azcosmos sends.
func (c *costServer) request(method, path, key, body string) []byte {
	date := time.Now().UTC().Format(http.TimeFormat)
	text := method + " /" + path + " HTTP/1.1\r\nHost: " + c.rest + "\r\nUser-Agent: azsdk-go-azcosmos/v1.5.0 (go1.26; linux)\r\n" +
		"Accept: application/json\r\nAccept-Encoding: gzip\r\nAuthorization: " +
		restclient.Signature(method, path, date) + "\r\nX-Ms-Date: " + date + "\r\nX-Ms-Version: 2020-11-05\r\n" +
		"X-Ms-Documentdb-Partitionkey: [\"" + key + "\"]\r\nX-Ms-Cosmos-Sdk-Supportedcapabilities: 1\r\n"
	if body != "" {
		text += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return []byte(text + "\r\n" + body)
}

// dialREST connects to the REST API. The returned function sends a request and waits for a response with the wanted
// status.
func (c *costServer) dialREST() func(request []byte, want int) error {
	conn, err := net.Dial("tcp", c.rest)
	c.must(err)
	c.t.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReaderSize(conn, 8<<10)
	return func(request []byte, want int) error {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		status, length := "", 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			if len(line) == 2 {
				break
			}
			if status == "" {
				status = string(line[9:12])
			} else if len(line) > 16 && bytes.EqualFold(line[:15], []byte("content-length:")) {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(line[15:])))
			}
		}
		if status != strconv.Itoa(want) {
			body, _ := io.ReadAll(io.LimitReader(in, int64(length)))
			return fmt.Errorf("status %s: %s", status, body)
		}
		_, err := in.Discard(length)
		return err
	}
}

// dialCQL connects to the CQL port. The returned function executes a prepared statement.
func (c *costServer) dialCQL() func(id []byte, values ...[]byte) error {
	conn := c.server.Dial(c.t)
	c.t.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReaderSize(conn, 8<<10)
	var out, body []byte
	return func(id []byte, values ...[]byte) error {
		e := cqlwire.Execute{ID: id}
		e.Values, e.SkipMetadata, e.Consistency, e.Serial = values, true, dberr.Quorum, dberr.Serial
		e.PageSize = cqlwire.NoPaging
		body = e.Append(body[:0], cqlwire.V4)
		out = rawclient.AppendFrame(out[:0], 0, cqlwire.OpExecute, body)
		if _, err := conn.Write(out); err != nil {
			return err
		}
		head, err := in.Peek(cqlwire.HeaderSize)
		if err != nil {
			return err
		}
		h := cqlwire.ParseHeader(head)
		if h.Opcode != cqlwire.OpResult {
			return fmt.Errorf("response %v", h.Opcode)
		}
		_, err = in.Discard(cqlwire.HeaderSize + int(h.Length))
		return err
	}
}

func (c *costServer) cqlRead(n int) exchanger {
	do := c.dialCQL()
	return func() error {
		n = (n*7919 + 1) % costKeys
		return do(c.read, c.keys[n], c.keys[n])
	}
}

func (c *costServer) restRead(n int) exchanger {
	do := c.dialREST()
	return func() error {
		n = (n*7919 + 1) % costKeys
		return do(c.reads[n], 200)
	}
}

func (c *costServer) cqlInsert(int) exchanger {
	do := c.dialCQL()
	return func() error {
		id := fmt.Appendf(nil, "n%07d", c.made.Add(1))
		return do(c.insert, id, id, []byte(c.pad))
	}
}

func (c *costServer) restCreate(int) exchanger {
	do := c.dialREST()
	template := c.request(http.MethodPost, costDocs, "n0000000", c.item("n0000000"))
	return func() error {
		return do(bytes.ReplaceAll(template, []byte("n0000000"), fmt.Appendf(nil, "n%07d", c.made.Add(1))), 201)
	}
}

// measure runs all clients for some time and returns the server's CPU time per request in microseconds.
func (c *costServer) measure(l load, round int) float64 {
	clients := make([]exchanger, *costClients)
	for i := range clients {
		clients[i] = l.connect(c, i*costKeys / *costClients)
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	if *costProfile != "" && round == *costRounds {
		wg.Go(func() { c.profile(l.name) })
	}
	before, until := c.server.CPU(c.t), time.Now().Add(*costTime)
	for _, ask := range clients {
		wg.Go(func() {
			for time.Now().Before(until) {
				if err := ask(); err != nil {
					c.t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64((c.server.CPU(c.t) - before).Microseconds()) / float64(done.Load())
}

// profile takes a CPU profile of the server.
func (c *costServer) profile(name string) {
	r, err := process.Owner(c.dir).Get(fmt.Sprintf("http://localhost/debug/pprof/profile?seconds=%d",
		max(1, int(costTime.Seconds())-1)))
	if err != nil {
		c.t.Error(err)
		return
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = os.WriteFile(filepath.Join(*costProfile, strings.ReplaceAll(name, " ", "-")+".pprof"), b, 0o600)
	}
	if err != nil {
		c.t.Error(err)
	}
}
