// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// Workloads lists the names of all workloads.
var Workloads = []string{"read", "write", "mixed", "scan", "update", "condition", "lookup", "indexed", "viewed"}

const (
	createKeyspace = "CREATE KEYSPACE IF NOT EXISTS ilion_bench WITH replication = " +
		"{'class': 'SimpleStrategy', 'replication_factor': 1}"
	createRows = "CREATE TABLE IF NOT EXISTS ilion_bench.rows (k text PRIMARY KEY, " + columnTypes + ")"

	columnNames = "c0, c1, c2, c3, c4"
	columnTypes = "c0 text, c1 text, c2 text, c3 text, c4 text"
)

// tables describes the tables of a workload.
type tables struct {
	// name is the name of the table that is written. create contains the statements that create the table.
	name   string
	create []string
	// paged is set if a key has rowsPerPartition rows.
	paged bool
	// rows is the number of rows per request.
	rows int
}

var (
	plain = tables{name: "rows", rows: 1}
	paged = tables{name: "pages", rows: rowsPerPartition, paged: true, create: []string{
		"CREATE TABLE IF NOT EXISTS ilion_bench.pages (k text, r int, " + columnTypes + ", PRIMARY KEY (k, r))"}}
	// indexed is a table with rowsPerGroup rows for each value of g.
	indexed = tables{name: "indexed", rows: rowsPerGroup, create: []string{
		"CREATE TABLE IF NOT EXISTS ilion_bench.indexed (k text PRIMARY KEY, g text, " + columnTypes + ")",
		"CREATE INDEX IF NOT EXISTS indexed_g ON ilion_bench.indexed (g) USING 'sai'"}}
	viewed = tables{name: "viewed", rows: 1, create: []string{
		"CREATE TABLE IF NOT EXISTS ilion_bench.viewed (k text PRIMARY KEY, g text, " + columnTypes + ")",
		"CREATE MATERIALIZED VIEW IF NOT EXISTS ilion_bench.viewed_g AS SELECT g, k, c0 FROM ilion_bench.viewed " +
			"WHERE g IS NOT NULL AND k IS NOT NULL PRIMARY KEY (g, k)"}}
)

// bind identifies the value of a bind marker.
type bind byte

const (
	bindKey bind = iota
	bindRow
	// bindGroup is the value that rowsPerGroup keys share.
	bindGroup
	// bindCell is the value of the next column.
	bindCell
)

// request is a prepared statement with the values for its markers.
type request struct {
	text  string
	binds []bind
	id    []byte
}

var (
	fiveCells = []bind{bindCell, bindCell, bindCell, bindCell, bindCell}

	insertRow = request{text: "INSERT INTO ilion_bench.rows (k, " + columnNames + ") VALUES (?, ?, ?, ?, ?, ?)",
		binds: append([]bind{bindKey}, fiveCells...)}
	readRow = request{text: "SELECT " + columnNames + " FROM ilion_bench.rows WHERE k = ?", binds: []bind{bindKey}}

	updateRow = request{text: "UPDATE ilion_bench.rows SET c2 = ? WHERE k = ?", binds: []bind{bindCell, bindKey}}

	updateIfExists = request{text: updateRow.text + " IF EXISTS", binds: updateRow.binds}

	insertPage = request{text: "INSERT INTO ilion_bench.pages (k, r, " + columnNames + ") VALUES (?, ?, ?, ?, ?, ?, ?)",
		binds: append([]bind{bindKey, bindRow}, fiveCells...)}
	readPage = request{text: "SELECT " + columnNames + " FROM ilion_bench.pages WHERE k = ?", binds: []bind{bindKey}}

	insertGrouped = request{binds: append([]bind{bindKey, bindGroup}, fiveCells...),
		text: "INSERT INTO ilion_bench.indexed (k, g, " + columnNames + ") VALUES (?, ?, ?, ?, ?, ?, ?)"}
	readGroup = request{text: "SELECT " + columnNames + " FROM ilion_bench.indexed WHERE g = ?",
		binds: []bind{bindGroup}}

	insertViewed = request{binds: insertGrouped.binds,
		text: "INSERT INTO ilion_bench.viewed (k, g, " + columnNames + ") VALUES (?, ?, ?, ?, ?, ?, ?)"}
)

// writes reports whether the request modifies rows.
func (r *request) writes() bool { return slices.Contains(r.binds, bindCell) }

// append appends the EXECUTE frame of r. cell returns the values of columns.
func (w *workload) append(dst []byte, stream int16, r *request, key, row int, cell func(column int) []byte) []byte {
	start := len(dst)
	dst = rawclient.AppendFrame(dst, stream, cqlwire.OpExecute, nil)
	dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(r.id))), r.id...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(w.o.Consistency))
	dst = append(dst, 0x01|0x02) // values, skip metadata
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.binds)))
	column := 0
	for _, b := range r.binds {
		switch b {
		case bindKey:
			dst = appendKey(dst, key)
		case bindGroup:
			dst = appendKey(dst, key/rowsPerGroup)
		case bindRow:
			dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, 4), uint32(row))
		case bindCell:
			v := cell(column)
			dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(v))), v...)
			column++
		}
	}
	binary.BigEndian.PutUint32(dst[start+5:], uint32(len(dst)-start-cqlwire.HeaderSize))
	return dst
}

// appendKey appends a key of keySize hexadecimal digits.
func appendKey(dst []byte, key int) []byte {
	return appendHex(binary.BigEndian.AppendUint32(dst, keySize), uint64(key))
}
