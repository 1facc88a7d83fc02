// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// pageRows is the page size of drivers in rows. Each page requires a separate read.
const pageRows = 5000

// someRows is the number of rows of a query for the newest or the first rows.
const someRows = 100

// cost is the cost and the fan-out of a query.
type cost struct {
	// units is the cost in request units. logical and physical are the numbers of logical and physical partitions that
	// the query reads.
	units             float64
	logical, physical float64
}

// readPart returns the cost of reading rows of one logical partition.
func readPart(rows, bytes float64) float64 {
	c := command.Read{Key: []byte{}}
	var sum float64
	for rows > pageRows {
		part := bytes * pageRows / rows
		sum += price(&c, pageRows, part)
		rows, bytes = rows-pageRows, bytes-part
	}
	return sum + price(&c, rows, bytes)
}

func price(c *command.Read, rows, bytes float64) float64 {
	m := ru.Meter{Rows: int64(math.Round(rows)), Bytes: int64(math.Round(bytes))}
	return m.Price(c).Float()
}

// scanTable returns the cost of reading all physical partitions of a table.
func scanTable(physical int, rows, bytes float64) float64 {
	n := float64(max(physical, 1))
	return n * price(&command.Read{}, rows/n, bytes/n)
}

// writeRow returns the cost of writing a row. If condition is true, the cost includes a read of the row.
func writeRow(bytes float64, condition bool) float64 {
	n := int64(math.Round(bytes))
	u := ru.Row(n)
	if condition {
		u += ru.Point(n, true)
	}
	return u.Float()
}
