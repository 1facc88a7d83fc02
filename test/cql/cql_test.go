// SPDX-License-Identifier: Apache-2.0

// Package cql defines the database's behavior as text. The files testdata/*.txt contain statements and their results.
//
// The same files run on three kinds of nodes: a new node in memory, a node that divides every table into 16 physical
// partitions, and a node whose physical partitions split and merge between the statements. With the build tag
// integration, the files also run on clusters of four and six nodes. Every statement goes to the next node. A cluster
// of six nodes divides tables at the tokens of its nodes. With -stir, the partitions of clusters change between the
// statements. With -against=host:port, the files run on any CQL server. The flag -rewrite writes the actual results to
// the files.
//
// Directives:
//
//	cql                     runs the statements of the input, each ended by a semicolon at the end of a line, and prints each answer,
//	                        behind the warnings that came with it
//	cql page=N              the same, in pages of N rows, with a line between pages
//
// A file starts in a separate keyspace, which is dropped at the end.
package cql

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/topochaos"
)

var (
	against  = flag.String("against", "", "host:port of a server to use instead of nodes in this process")
	stirSeed = flag.Uint64("stir.seed", 1, "seed of the changes of physical partitions")
)

// TestStatements checks that statements have the expected results, regardless of the number of physical partitions.
func TestStatements(t *testing.T) {
	if *against != "" {
		runFiles(t, strings.Split(*against, ","), nil)
		return
	}
	for _, partitions := range []int{1, 16} {
		t.Run(fmt.Sprintf("partitions=%d", partitions), func(t *testing.T) {
			runFiles(t, []string{startAlone(t, partitions).CQLAddr().String()}, nil)
		})
	}
}

// TestStatementsWhilePartitionsChange checks that statements have the expected results while physical partitions of
// their tables split and merge between statements.
func TestStatementsWhilePartitionsChange(t *testing.T) {
	db := startAlone(t, 1)
	runFiles(t, []string{db.CQLAddr().String()}, topochaos.New(t, *stirSeed, db.HTTPAddr().String()))
}

// startAlone starts a standalone node in memory.
func startAlone(t *testing.T, partitions int) *ilion.DB {
	db, err := ilion.Start(t.Context(), ilion.Options{InitialPartitions: partitions, HTTPAddr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// runFiles runs all files. If changer is not nil, it changes partitions before each statement.
func runFiles(t *testing.T, addrs []string, changer *topochaos.Changer) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		ks := "golden_" + strings.TrimSuffix(filepath.Base(path), ".txt")
		cs := make([]*rawclient.Conn, len(addrs))
		for i, addr := range addrs {
			c, err := rawclient.Dial(t.Context(), addr, rawclient.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cs[i] = c
		}
		for _, s := range []string{
			"DROP KEYSPACE IF EXISTS " + ks,
			"CREATE KEYSPACE " + ks + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		} {
			if _, err := cs[0].Query(s); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range cs {
			if _, err := c.Query("USE " + ks); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "cql" {
				d.Fatalf(t, "unknown directive %s", d.Cmd)
			}
			page := 0
			d.MaybeScanArgs(t, "page", &page)
			var out strings.Builder
			for _, s := range statements(d.Input) {
				if changer != nil {
					changer.Change(ks + ".")
				}
				out.WriteString(answer(slices.Concat(cs[n%len(cs):], cs[:n%len(cs)]), s, page))
				n++
			}
			return out.String()
		})
		if _, err := cs[0].Query("DROP KEYSPACE " + ks); err != nil {
			t.Error(err)
		}
	})
}

// statements splits an input after semicolons at the end of a line.
func statements(input string) []string {
	var out []string
	for _, s := range strings.SplitAfter(input+"\n", ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// answer runs a statement and prints its result. If page is not 0, it reads the result page by page. It reads each
// page from the next node.
func answer(cs []*rawclient.Conn, text string, page int) string {
	var out strings.Builder
	var state []byte
	for i := 0; ; i++ {
		c := cs[i%len(cs)]
		q := cqlwire.Query{Text: []byte(text)}
		q.Consistency = dberr.Quorum
		if page > 0 {
			q.PageSize, q.PagingState = int32(page), state
		}
		_, body, err := c.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
		for _, w := range c.Warnings {
			out.WriteString("warning: " + w + "\n")
		}
		if e := (*cqlwire.Error)(nil); errors.As(err, &e) {
			return out.String() + fmt.Sprintf("error 0x%04x: %s\n", int(e.Code), e.Message)
		}
		if err != nil {
			return out.String() + fmt.Sprintf("broken: %v\n", err)
		}
		r, err := cqlwire.DecodeResult(body, cqlwire.V4)
		if err != nil {
			return out.String() + fmt.Sprintf("undecodable: %v\n", err)
		}
		out.WriteString(show(r))
		if len(r.PagingState) == 0 {
			return out.String()
		}
		state = append([]byte(nil), r.PagingState...)
		out.WriteString("-- next page\n")
	}
}

// show formats a result with one line per row, in the form `name: value, ...`.
func show(r *cqlwire.Result) string {
	switch r.Kind {
	case cqlwire.ResultVoid:
		return "ok\n"
	case cqlwire.ResultSetKeyspace:
		return "using " + r.Keyspace + "\n"
	case cqlwire.ResultSchemaChange:
		return strings.TrimSpace(strings.ToLower(r.Change.Change+" "+r.Change.Target)+" "+r.Change.Name) + "\n"
	case cqlwire.ResultRows:
	default:
		return fmt.Sprintf("result kind %d\n", r.Kind)
	}
	if r.RowCount == 0 {
		return "no rows\n"
	}
	var out strings.Builder
	cells := r.Cells
	for range r.RowCount {
		for i, col := range r.Columns {
			if i > 0 {
				out.WriteString(", ")
			}
			n := int32(binary.BigEndian.Uint32(cells))
			cells = cells[4:]
			out.WriteString(col.Name + ": ")
			if n < 0 {
				out.WriteString("null")
				continue
			}
			out.WriteString(col.Type.Format(cells[:n]))
			cells = cells[n:]
		}
		out.WriteString("\n")
	}
	return out.String()
}
