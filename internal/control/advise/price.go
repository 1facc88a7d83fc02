// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// pageRows is how many rows drivers ask for at once: each page is a read of its own.
const pageRows = 5000

// someRows is how many rows a query takes that wants the newest ones, or the first.
const someRows = 100

// cost is what a query costs and how much it asks for.
type cost struct {
	// units are request units; logical and physical are the partitions that it touches.
	units             float64
	logical, physical float64
}

// readPart is what it costs to read so many rows of one logical partition.
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

// scanTable is what it costs to read all physical partitions of a table.
func scanTable(physical int, rows, bytes float64) float64 {
	n := float64(max(physical, 1))
	return n * price(&command.Read{}, rows/n, bytes/n)
}

// writeRow is what it costs to write a row of so many bytes; a condition reads it first.
func writeRow(bytes float64, condition bool) float64 {
	n := int64(math.Round(bytes))
	u := ru.Row(n)
	if condition {
		u += ru.Point(n, true)
	}
	return u.Float()
}
