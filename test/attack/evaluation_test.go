// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/freeport"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/restclient"
)

const (
	// evaluatorBudget is the memory budget of the processes of TestEvaluation.
	evaluatorBudget = 256 << 20
	// oneMax is the maximum by which one request may raise the resident memory. allMax is the maximum for many
	// concurrent requests. Both are relative to the resident memory before the attack. TestEvaluation prints the
	// memory that the process uses without requests (program, stacks, store).
	oneMax = evaluatorBudget / 4
	allMax = evaluatorBudget * 5 / 4
	// cpuMax is the maximum CPU time of the server for one request, including garbage collection.
	cpuMax = 5 * time.Second
	// atOnce is the number of clients that send the same attack concurrently.
	atOnce = 16
)

// reader is a role that may read one table.
const reader = "reader"

// evaluator is a process with little memory. Clients with read permission attack the process.
type evaluator struct {
	t *testing.T
	*process.Server
	rest  string
	lines *strings.Builder
	table *tabwriter.Writer
}

// attack is a request of a client with read permission.
type attack struct {
	name, text string
	rest       bool
	// brief is set if the attack belongs to the short form of the test.
	brief bool
}

func newEvaluator(t *testing.T) *evaluator {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	free, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	e := &evaluator{t: t, rest: free, lines: new(strings.Builder)}
	e.table = tabwriter.NewWriter(e.lines, 0, 0, 2, ' ', 0)
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("memory: {budget: %d}\nauth: {users: {%s: '%s'}, open_pages: [metrics]}\n"+
		"user_defined_functions_enabled: true\nrest: {address: '%s', primary_key: '%s', read_only_key: '%s'}\n",
		evaluatorBudget, boss, hash, e.rest, restclient.Key, restclient.ReadOnlyKey)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Server = process.Start(t, filepath.Join(dir, "data"), "--config", config, "--rest", e.rest, "--commit",
		"periodic")
	e.loadTable()
	e.loadItems()
	return e
}

// dial connects a client with a role.
func (e *evaluator) dial(role string) *rawclient.Conn {
	e.t.Helper()
	c, err := rawclient.Dial(context.Background(), e.CQL,
		rawclient.Options{User: role, Password: password, Timeout: 2 * time.Minute})
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

// loadTable creates a table with large values that the role reader may read, and functions that the role may call.
func (e *evaluator) loadTable() {
	c := e.dial(boss)
	defer c.Close()
	javascript := func(name, body string) string {
		return "CREATE FUNCTION big." + name + " (v text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE javascript " +
			"AS $$" + body + "$$"
	}
	process.Do(e.t, c,
		"CREATE KEYSPACE big WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE big.t (p int, c int, v text, l frozen<list<text>>, m frozen<map<int, text>>, i varint, d decimal, "+
			"PRIMARY KEY (p, c))",
		"INSERT INTO big.t (p, c, v, i, d) VALUES (1, 1, '"+strings.Repeat("\n", 100_000)+strings.Repeat("x", 900_000)+
			"', "+strings.Repeat("7", 5_000)+", 1E-2000)",
		"INSERT INTO big.t (p, c, v, l, m) VALUES (2, 1, 'small', ["+many(5_000, ",", "'%d'")+"], {"+
			many(5_000, ",", "%[1]d:'%[1]d'")+"})",
		"INSERT INTO big.t (p, c, v) VALUES (3, 1, '"+strings.Repeat("abcdefgh", 6_000)+"')",
		javascript("array", "var a = []; for (;;) a.push({v: v, n: a.length}); return v;"),
		javascript("string", "var a = []; for (var i = 0; ; i++) a.push(v.substring(0, 1000) + i); return v;"),
		javascript("spin", "for (;;) ; return v;"),
		"CREATE FUNCTION big.list (v text) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS "+
			"$$ java.util.List<String> l = new java.util.ArrayList<>(); while (true) l.add(v + l.size()); $$",
		"CREATE FUNCTION big.longer (v text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE java AS "+
			"$$ return v.repeat(15); $$",
		"CREATE ROLE "+reader+" WITH PASSWORD = '"+password+"' AND LOGIN = true",
		"GRANT SELECT ON TABLE big.t TO "+reader,
		"GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE big TO "+reader)
}

// loadItems writes an item of 100 KB, an item of 200,000 words, and 201 small items.
func (e *evaluator) loadItems() {
	client := restclient.New(e.rest, time.Minute)
	defer client.Close()
	create := func(path, key string, body any) {
		e.t.Helper()
		var text []byte
		status, _, err := client.Ask(context.Background(), &restclient.Request{Method: http.MethodPost, Path: path,
			Key: key, Body: body}, &text)
		if err != nil || status != http.StatusCreated {
			e.t.Fatalf("%s: %d %.300s %v", path, status, text, err)
		}
	}
	create("dbs", "", map[string]any{"id": "items"})
	create("dbs/items/colls", "", map[string]any{"id": "c",
		"partitionKey": map[string]any{"paths": []string{"/k"}, "kind": "Hash", "version": 2}})
	numbers := make([]int, 2_000)
	for i := range numbers {
		numbers[i] = i
	}
	create("dbs/items/colls/c/docs", "one", map[string]any{"id": "one", "k": "one", "t": strings.Repeat("x", 80_000),
		"a": numbers, "b": numbers, "o": map[string]int{"x": 1, "y": 2}})
	create("dbs/items/colls/c/docs", "words", map[string]any{"id": "words", "k": "words",
		"words": many(200_000, " ", "w%d")})
	for i := range 201 {
		create("dbs/items/colls/c/docs", "small", map[string]any{"id": fmt.Sprint("s", i), "k": "small", "n": i,
			"t": fmt.Sprint("text ", i), "a": numbers[:20]})
	}
}

// send runs an attack and returns its outcome.
func (e *evaluator) send(a *attack) (status string) {
	if !a.rest {
		c := e.dial(reader)
		defer c.Close()
		r, err := c.Query(a.text)
		if err == nil {
			return fmt.Sprintf("%d rows", r.RowCount)
		}
		refused := (*cqlwire.Error)(nil)
		if !errors.As(err, &refused) {
			e.t.Errorf("%s: no response: %.200v", a.name, err)
			return "no response"
		}
		return fmt.Sprintf("0x%04x %.60s", uint32(refused.Code), refused.Message)
	}
	client := restclient.NewWithKey(e.rest, restclient.ReadOnlyKey, 2*time.Minute)
	defer client.Close()
	var text []byte
	code, header, err := client.Ask(context.Background(), &restclient.Request{Method: http.MethodPost,
		Path: "dbs/items/colls/c/docs", Body: map[string]any{"query": a.text},
		Headers: map[string]string{"x-ms-documentdb-isquery": "True", "Content-Type": "application/query+json",
			"x-ms-documentdb-query-enablecrosspartition": "True"}}, &text)
	if err != nil {
		e.t.Errorf("%s: no response: %v", a.name, err)
		return "no response"
	}
	if status = fmt.Sprintf("%d, %s RU", code, header.Get("x-ms-request-charge")); code >= 300 {
		return status + " " + fmt.Sprintf("%.70s", text)
	}
	return status + fmt.Sprintf(", %d KiB", len(text)>>10)
}

// quiet waits until the process has no more work for its clients. Work after the response is an error, and its CPU
// time is counted.
func (e *evaluator) quiet() {
	for last, calm := e.CPU(e.t), 0; calm < 3; {
		time.Sleep(20 * time.Millisecond)
		now := e.CPU(e.t)
		if calm++; now-last > 10*time.Millisecond {
			calm = 0
		}
		last = now
	}
}

// measure runs do and returns the CPU time of the process and the increase of its resident memory.
func (e *evaluator) measure(do func()) (peak int64, cpu time.Duration) {
	e.quiet()
	before, began := e.RSS(e.t), e.CPU(e.t)
	e.ResetPeakRSS(e.t)
	do()
	e.quiet()
	return e.PeakRSS(e.t) - before, e.CPU(e.t) - began
}

// note adds a line to the table.
func (e *evaluator) note(name string, peak int64, cpu time.Duration, status string) {
	fmt.Fprintf(e.table, "%s\t%d MiB\t%.1f s\t%s\n", name, peak>>20, cpu.Seconds(),
		strings.Join(strings.Fields(status), " "))
}

// TestEvaluation checks S8 and S9 for clients that may read one table or have the read-only key. One request may use
// at most a quarter of the memory budget and five seconds of CPU time. Many concurrent requests may use at most 1.25
// times the budget.
func TestEvaluation(t *testing.T) {
	e := newEvaluator(t)
	loaded := e.RSS(t)
	fmt.Fprintln(e.table, "attack\tpeak\tCPU\tanswer")
	peaks := map[*attack]int64{}
	for _, a := range attacks() {
		if !a.brief && !*long {
			continue
		}
		status := ""
		peak, cpu := e.measure(func() { status = e.send(a) })
		e.note(a.name, peak, cpu, status)
		if peak > oneMax {
			t.Errorf("%s: resident memory increased by %d MiB, limit %d MiB", a.name, peak>>20, oneMax>>20)
		}
		if cpu > cpuMax {
			t.Errorf("%s: used %s of CPU time, limit %s", a.name, cpu, cpuMax)
		}
		peaks[a] = peak
		if !e.Running() {
			t.Fatalf("%s: the process has ended: %s", a.name, e.Stderr())
		}
	}
	worst := slices.SortedFunc(maps.Keys(peaks), func(a, b *attack) int { return cmp.Compare(peaks[b], peaks[a]) })
	for _, a := range worst[:3] {
		var clients sync.WaitGroup
		peak, cpu := e.measure(func() {
			for range atOnce {
				clients.Go(func() { e.send(a) })
			}
			clients.Wait()
		})
		e.note(fmt.Sprintf("%d times %s", atOnce, a.name), peak, cpu, "")
		if peak > allMax {
			t.Errorf("%d concurrent requests %s: resident memory increased by %d MiB, limit %d MiB", atOnce, a.name, peak>>20,
				allMax>>20)
		}
	}
	_ = e.table.Flush()
	t.Logf("budget %d MiB, resident before the first attack %d MiB\n%s", evaluatorBudget>>20, loaded>>20, e.lines)
	if log := e.Stderr(); strings.Contains(log, "panic") || strings.Contains(log, "fatal error") {
		t.Errorf("in the log: %s", log)
	}
}
