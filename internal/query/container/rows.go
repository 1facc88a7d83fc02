// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// columns holds the IDs of a container's columns.
type columns struct{ body, etag, ts uint32 }

func columnsOf(t *schema.Table) columns {
	of := func(name string) uint32 { return t.ByName[name].ID }
	return columns{of(schema.ItemBody), of(schema.ItemEtag), of(schema.ItemTime)}
}

// keySlack is the approximate size of an item's clustering key and slice end, excluding the ID.
const keySlack = 4

// clustering returns the clustering key of an item.
func (c *Container) clustering(id string) []byte {
	col := c.table.Clustering[0]
	return col.Type.AppendKey(make([]byte, 0, len(id)+keySlack), []byte(id), col.Desc)
}

// idOf returns the ID of an item from its clustering key.
func (c *Container) idOf(clustering []byte) (string, error) {
	col := c.table.Clustering[0]
	v, _, err := col.Type.ReadKey(nil, clustering, col.Desc)
	return string(v), err
}

// pointRead returns the command that reads one item.
func (c *Container) pointRead(key []byte, tok token.Token, id string) *command.Read {
	return &command.Read{Table: c.table.ID, Key: key, Token: tok, Level: dberr.Quorum, Limit: 1,
		Slices: []command.Slice{c.sliceOf(id)}}
}

// sliceOf returns the slice of one item.
func (c *Container) sliceOf(id string) command.Slice {
	end := append(c.clustering(id), 0)
	n := len(end) - 1
	return command.Slice{Start: end[:n:n], End: end}
}

// read extracts an item from its row. Its body refers to the row.
func (c *Container) read(r *row.Row) (s stored) {
	columns := &c.columns
	if cell := r.Cell(columns.body); cell != nil {
		s.body = cell.Value
	}
	if cell := r.Cell(columns.etag); cell != nil {
		copy(s.etag[:], cell.Value)
	}
	s.ts = timeOf(c.table, r)
	return s
}

// timestampValue converts a time in seconds to a CQL timestamp, which has milliseconds.
func timestampValue(seconds int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(seconds*1000))
}
