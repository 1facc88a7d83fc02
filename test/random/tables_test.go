// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

// TestTablesAgainstCassandra executes random statements on random tables with indexes and views. It checks that a new
// node and a Cassandra server return the same results.
func TestTablesAgainstCassandra(t *testing.T) {
	if *against == "" {
		t.Skip("needs a Cassandra: -against")
	}
	compareTables(t, *seed, *rounds, dial(t, startNode(t, *partitions)), dial(t, *against), false, (*table).schema)
}

// TestCompactTablesAgainstCassandra checks the same property for tables with COMPACT STORAGE, whose rows may have null
// in their last clustering columns.
func TestCompactTablesAgainstCassandra(t *testing.T) {
	if *against == "" {
		t.Skip("needs a Cassandra: -against")
	}
	compareTables(t, *seed, *rounds, dial(t, startNode(t, *partitions)), dial(t, *against), false,
		(*table).compactSchema)
}

// keptSeeds lists seeds that have found differences.
var keptSeeds = []uint64{1, 2, 3}

// TestTablesWithoutCassandra runs the stored seeds on two tables. One table has 16 physical partitions and indexes,
// and the other has a single partition without indexes. The test checks that statements with ALLOW FILTERING return
// the same rows in the same order.
func TestTablesWithoutCassandra(t *testing.T) {
	if !*alone {
		t.Skip("needs -alone: a difference in one of several runs is not explained")
	}
	for _, seed := range keptSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			compareTables(t, seed, 2, dial(t, startNode(t, 16)), dial(t, startNode(t, 1)), true, (*table).schema)
		})
	}
}

// startNode starts a node with release 5.0 in this process.
func startNode(t *testing.T, partitions int) (address string) {
	t.Helper()
	return testnode.One(t, options.Options{InitialPartitions: partitions, UserFunctions: true,
		Compatibility: "5.0"}).CQLAddr().String()
}

// viewWait is the maximum delay of a view.
const viewWait = 5 * time.Second

// compareTables compares the results of first and second on tables that draw creates. If plain is set, the tables of
// second have no indexes.
func compareTables(t *testing.T, seed uint64, rounds int, first, second *rawclient.Conn, plain bool,
	draw func(*table, int) []string) {
	d := newDraw(seed)
	statements, differ := 0, map[string]bool{}
	for n := range rounds {
		g := &table{draw: d}
		p := &pair{T: t, d: d, inside: first, cassandra: second, texts: true, plain: plain}
		schema := draw(g, n)
		for _, s := range schema {
			p.change(s)
		}
		shown := 0
		for _, s := range g.indexes {
			if plain {
				answer(first, s, 0)
			} else {
				p.change(s)
			}
		}
		for i := 0; i < 15 && !p.apart; i++ {
			for range 8 {
				p.change(g.write())
			}
			for d.chance(0.5) {
				p.change(g.conditional())
			}
			if p.change("SELECT * FROM t"); p.apart {
				break
			}
			for _, v := range g.views {
				p.settle("SELECT * FROM " + v)
			}
			if p.apart {
				break
			}
			p.history = nil
			for range 12 {
				page := pick(d, 0, 0, 1, 2, 3, 5, 100)
				q := g.query()
				if plain && (!strings.HasSuffix(q, "FILTERING") || page > 0) {
					continue
				}
				if strings.Contains(q, "GROUP BY") {
					page = 0 // Cassandra 5.0 does not page groups correctly
				}
				p.same(q, page)
			}
		}
		statements += p.statements
		for _, line := range p.differences {
			if key := signature(line); !differ[key] {
				differ[key] = true
				t.Errorf("round %d: %s", n, line)
				shown++
				if shown == 1 || strings.Contains(line, " v0") {
					t.Log(strings.Join(append(schema, g.indexes...), ";\n"))
				}
			}
		}
		for _, c := range p.conns() {
			answer(c, fmt.Sprint("DROP KEYSPACE tables", n), 0)
		}
	}
	t.Logf("%d statements", statements)
}

func newDraw(seed uint64) draw { return draw{rand.New(rand.NewPCG(seed, 2))} }

// settle waits until a view is the same on both sides, because the view follows its table with a delay.
func (p *pair) settle(statement string) {
	p.Helper()
	a, b := p.conns()[0], p.conns()[1]
	_, _ = eventually.Try(viewWait, func() string {
		if answer(a, statement, 0) != answer(b, statement, 0) {
			return "the views differ"
		}
		return ""
	})
	p.change(statement)
}

// literals matches the parts in which statements of one kind differ.
var literals = regexp.MustCompile(`'[^']*'|\b[0-9a-f]{8}-[0-9a-f-]{27}|\b0x[0-9a-f]*|-?\b\d+(\.\d+)?\b|\b[tspcrv]\d\b`)

// signature returns a difference without its literals. Differences with the same signature are printed only once.
func signature(difference string) string {
	lines := strings.Split(difference, "\n")
	if len(lines) > 3 && strings.Contains(difference, "error 0x") {
		return literals.ReplaceAllString(strings.Join(lines[2:4], "\n"), "_")
	}
	return difference
}
