// SPDX-License-Identifier: Apache-2.0

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

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

var (
	against    = flag.String("against", "", "host:port of an Apache Cassandra")
	seed       = flag.Uint64("seed", 1, "seed of the statements")
	rounds     = flag.Int("rounds", 25, "rounds of writes and selects")
	partitions = flag.Int("partitions", 16, "physical partitions that the node cuts the table into")
)

// TestAgainstCassandra runs the same random statements on a fresh node and on a Cassandra, and expects the same
// answers.
func TestAgainstCassandra(t *testing.T) {
	if *against == "" {
		t.Skip("no -against: there is no Cassandra to compare with")
	}
	db, err := ilion.Start(t.Context(), ilion.Options{InitialPartitions: *partitions})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p := &pair{T: t}
	for i, addr := range []string{db.CQLAddr().String(), *against} {
		if p.conns[i], err = rawclient.Dial(t.Context(), addr, rawclient.Options{}); err != nil {
			t.Fatal(err)
		}
		defer p.conns[i].Close()
	}
	d := draw{rand.New(rand.NewPCG(*seed, 0))}
	for _, s := range []string{
		"DROP KEYSPACE IF EXISTS compared",
		"CREATE KEYSPACE compared WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"USE compared",
		fmt.Sprintf("CREATE TABLE t (k int, a int, b int, s int static, v int, w text, l list<int>, m map<int, int>, st set<int>, f frozen<list<int>>, "+
			"PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a %s, b %s)", pick(d, "ASC", "DESC"),
			pick(d, "ASC", "DESC")),
	} {
		for _, c := range p.conns {
			answer(c, s, 0)
		}
	}
	for range *rounds {
		for range 6 {
			s := d.write()
			if d.chance(0.08) {
				s = "BEGIN " + pick(d, "", "UNLOGGED ") + "BATCH " + s + "; " + d.write() + "; " + d.write() +
					"; APPLY BATCH"
			}
			p.compare(s, 0)
		}
		if d.chance(0.5) {
			p.compare(d.conditional(), 0)
		}
		p.compare("SELECT * FROM t", 0)
		p.history = nil
		for range 8 {
			p.compare(d.query(), pick(d, 0, 1, 2, 3, 5))
		}
	}
}

// pair is the node and the Cassandra.
type pair struct {
	*testing.T
	conns   [2]*rawclient.Conn
	history []string // since the tables were last seen to be equal
}

// stamps are the timestamps of servers, which differ.
var stamps = regexp.MustCompile(`\b1[78]\d{14}\b`)

func (p *pair) compare(statement string, page int) {
	p.Helper()
	p.history = append(p.history, statement)
	var got [2]string
	for i, c := range p.conns {
		got[i] = stamps.ReplaceAllString(answer(c, statement, page), "now")
	}
	if strings.Contains(got[0], "Cannot page queries") {
		return // Cassandra may find before that nothing is selected
	}
	if strings.HasPrefix(got[1], "error 0x1300") {
		return // Cassandra 5.0 fails at pages of groups
	}
	for i := range got { // texts changed with 5.0
		if strings.HasPrefix(got[i], "error") {
			got[i], _, _ = strings.Cut(got[i], ":")
		}
	}
	if got[0] != got[1] {
		p.Fatalf("%s\npages of %d: (- Ilion, + Cassandra)\n%s\nsince the tables were equal:\n  %s", statement, page,
			cmp.Diff(got[0], got[1]), strings.Join(p.history, "\n  "))
	}
}

// answer returns the answer to a statement as text, with all pages.
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
