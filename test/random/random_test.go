// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

var (
	against    = flag.String("against", "", "host:port of an Apache Cassandra")
	seed       = flag.Uint64("seed", 1, "seed of the statements")
	rounds     = flag.Int("rounds", 25, "number of rounds of writes and selects")
	partitions = flag.Int("partitions", 16, "number of physical partitions of the table")
	processes  = flag.Int("nodes", 0,
		"number of processes that are killed while they serve requests, 1 or 4; 0: one node in this process")
	alone = flag.Bool("alone", false, "compare two nodes of Ilion with the stored seeds")
	kills = flag.Float64("kills", 0.05, "probability of a kill before a statement")
)

// TestAgainstCassandra checks that the same random statements have the same results on a new node and on a Cassandra
// server.
func TestAgainstCassandra(t *testing.T) {
	if *against == "" {
		t.Skip("needs a Cassandra: -against")
	}
	d := draw{rand.New(rand.NewPCG(*seed, 0))}
	p := &pair{T: t, d: d}
	if *processes > 0 {
		p.nodes = startNodes(t, *processes)
		defer p.nodes.wait.Wait() // wait before the processes are stopped
	} else {
		db, err := ilion.Start(t.Context(), ilion.Options{InitialPartitions: *partitions, UserDefinedFunctions: true})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		p.inside = dial(t, db.CQLAddr().String())
	}
	p.cassandra = dial(t, *against)
	for _, s := range d.schema() {
		p.staticIndex = p.staticIndex || s == indexOf("s")
		for _, c := range p.conns() {
			answer(c, s, 0)
		}
	}
	if p.nodes != nil {
		p.nodes.whole()
	}
	for range *rounds {
		p.round()
	}
	if p.nodes != nil {
		t.Logf("%d kills", p.nodes.kills.Load())
	}
}

func dial(t *testing.T, address string) *rawclient.Conn {
	t.Helper()
	c, err := rawclient.Dial(t.Context(), address, rawclient.Options{Timeout: statementTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// round makes some writes, a full read, and some selects.
func (p *pair) round() {
	d := p.d
	for range 6 {
		p.compare(d.change(), 0)
	}
	if d.chance(0.5) {
		p.compare(d.conditional(), 0)
	}
	if d.chance(0.3) {
		p.compare(d.conditionalBatch(), 0)
	}
	for range d.IntN(3) {
		p.compare(d.count(), 0)
	}
	if d.chance(0.05) {
		p.compare(d.shortLived(), 0)
		time.Sleep(2500 * time.Millisecond) // all these rows have expired on both sides after this time
	}
	p.compare("SELECT * FROM t", 0)
	p.compare("SELECT * FROM c", pick(d, 0, 2))
	p.history = nil
	for range 8 {
		page := pick(d, 0, 1, 2, 3, 5)
		if p.staticIndex {
			page = 0 // Cassandra loses rows between pages in this case (see docs/compatibility.md)
		}
		p.compare(d.query(), page)
	}
}

// pair is an Ilion node or cluster and a Cassandra server.
type pair struct {
	*testing.T
	d draw
	// nodes holds Ilion's processes. inside is the node in this process, or nil.
	nodes     *nodes
	inside    *rawclient.Conn
	cassandra *rawclient.Conn
	// staticIndex is set if the index is on a static column.
	staticIndex bool
	history     []string // changes since the tables were last known to be equal
	// differences holds the differences that same has found. apart is set when the contents of the tables may differ.
	// failed is set if the last statement may have changed the contents differently although its results were equal.
	differences   []string
	apart, failed bool
	// texts enables the comparison of error texts. plain is set if the tables of the second server have no indexes.
	texts, plain bool
	// keyForms is set if the table stores decimals or tuples by their value.
	keyForms bool
	// statements counts the statements that same has executed.
	statements int
}

// conns returns the connections to Ilion and to Cassandra.
func (p *pair) conns() [2]*rawclient.Conn {
	if p.nodes != nil {
		return [2]*rawclient.Conn{p.nodes.conn, p.cassandra}
	}
	return [2]*rawclient.Conn{p.inside, p.cassandra}
}

// stamps matches timestamps that the servers assign. These timestamps differ between the servers.
var stamps = regexp.MustCompile(`\b1[78]\d{14}\b`)

func (p *pair) compare(statement string, page int) {
	p.Helper()
	p.history = append(p.history, statement)
	if p.nodes != nil && p.d.chance(*kills) {
		p.nodes.disturb(p.d)
	}
	var got [2]string
	for i, c := range p.conns() {
		got[i] = stamps.ReplaceAllString(answer(c, statement, page), "now")
	}
	if p.nodes != nil && strings.HasPrefix(got[0], "broken") {
		p.Fatalf("%s: %s\n%s", statement, got[0], p.nodes.goroutines())
	}
	if strings.Contains(got[0], "Cannot page queries") {
		return // Cassandra may detect earlier that no row is selected
	}
	if strings.HasPrefix(got[1], "error 0x1300") {
		return // Cassandra 5.0 fails when it pages groups
	}
	for i := range got { // Cassandra 5.0 has different texts
		if strings.HasPrefix(got[i], "error") {
			got[i], _, _ = strings.Cut(got[i], ":")
		}
	}
	if got[0] != got[1] {
		p.Fatalf("%s\npages of %d: (- Ilion, + Cassandra)\n%s\nsince the tables were equal:\n  %s", statement, page,
			cmp.Diff(got[0], got[1]), strings.Join(p.history, "\n  "))
	}
}

// answer returns the result of a statement as text, with all pages.
func answer(c *rawclient.Conn, statement string, page int) string {
	var out strings.Builder
	var state []byte
	for {
		q := cqlwire.Query{Text: []byte(statement)}
		q.Consistency, q.PageSize, q.PagingState = dberr.Quorum, int32(page), state
		_, body, err := c.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
		if e := (*cqlwire.Error)(nil); errors.As(err, &e) {
			return fmt.Sprintf("error 0x%04x: %s", int(e.Code), e.Message)
		}
		if err != nil {
			return fmt.Sprintf("broken: %v", err)
		}
		r, err := cqlwire.DecodeResult(body, cqlwire.V4)
		if err != nil {
			return fmt.Sprintf("undecodable: %v", err)
		}
		for _, w := range c.Warnings {
			if strings.HasPrefix(w, "Materialized views are experimental") {
				continue // Ilion's views are not experimental
			}
			out.WriteString("warning: " + w + "\n")
		}
		appendRows(&out, r)
		if len(r.PagingState) == 0 {
			return out.String()
		}
		state = append([]byte(nil), r.PagingState...)
		out.WriteString("-- next page\n")
	}
}

func appendRows(out *strings.Builder, r *cqlwire.Result) {
	for _, c := range r.Columns {
		fmt.Fprintf(out, "%s %s, ", c.Name, c.Type)
	}
	fmt.Fprintf(out, "%d rows\n", r.RowCount)
	cells := r.Cells
	for range r.RowCount {
		for _, c := range r.Columns {
			n := int32(binary.BigEndian.Uint32(cells))
			cells = cells[4:]
			if n < 0 {
				out.WriteString("null, ")
				continue
			}
			out.WriteString(c.Type.Format(cells[:n]) + ", ")
			cells = cells[n:]
		}
		out.WriteString("\n")
	}
}
