// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// builder collects the rows of one table.
type builder struct {
	ctx    context.Context
	table  *schema.Table
	schema *schema.Schema
	info   *NodeInfo
	// key is the key of the requested partition. If all partitions are requested, key is nil.
	key  []byte
	rows []Row
}

// release returns the Cassandra release that the node reports.
func (b *builder) release() *compat.Release { return cmp.Or(b.info.Release, compat.Cassandra40) }

type values map[string][]byte

// wants reports whether a partition is requested. The partition key of the table must be a single text column.
func (b *builder) wants(key string) bool { return b.key == nil || string(b.key) == key }

// add adds a row. Key columns must not be null.
func (b *builder) add(v values) {
	var r Row
	var components [][]byte
	for _, c := range b.table.PartitionKey {
		components = append(components, v[c.Name])
	}
	r.Key = token.AppendKey(nil, components...)
	r.token = token.Hash(r.Key)
	r.Clustering = []byte{}
	for _, c := range b.table.Clustering {
		r.Clustering = c.Type.AppendKey(r.Clustering, v[c.Name], c.Desc)
	}
	for _, c := range b.table.Regulars {
		if wire := v[c.Name]; wire != nil {
			r.Cells = appendCells(r.Cells, c, wire)
		}
	}
	b.rows = append(b.rows, r)
}

// appendCells appends a value as one cell, or as one cell per element.
func appendCells(cells []row.Cell, c *schema.Column, wire []byte) []row.Cell {
	cell := row.Cell{Column: c.ID, Value: wire, Expiry: row.NoExpiry}
	if !c.Type.MultiCell() {
		return append(cells, cell)
	}
	for path, value := range row.Elements(c.Type, wire) {
		cell.Path, cell.Value = path, value
		cells = append(cells, cell)
	}
	return cells
}

// The following functions return values in wire format.

func text(s string) []byte { return append([]byte{}, s...) }

// textOrNull returns a text, or null for an empty text.
func textOrNull(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func boolean(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

func int32Value(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }

func bigint(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func double(v float64) []byte { return binary.BigEndian.AppendUint64(nil, math.Float64bits(v)) }

func uuidValue(u schema.UUID) []byte { return append([]byte{}, u[:]...) }

// inet returns an address, or null for an invalid address.
func inet(a netip.Addr) []byte {
	if !a.IsValid() {
		return nil
	}
	return a.Unmap().AsSlice()
}

func port(a netip.AddrPort) []byte { return int32Value(int32(a.Port())) }

var (
	textType = cqltype.Native(cqltype.Text)
	textList = cqltype.ListOf(textType)
	textSet  = cqltype.SetOf(textType)
	textMap  = cqltype.MapOf(textType, textType)
	blobMap  = cqltype.MapOf(textType, cqltype.Native(cqltype.Blob))
)

func list(texts []string) []byte {
	elems := make([][]byte, len(texts))
	for i, s := range texts {
		elems[i] = text(s)
	}
	return textList.AppendCollection(nil, elems...)
}

func set(texts []string) []byte {
	elems := make([][]byte, len(texts))
	for i, s := range texts {
		elems[i] = text(s)
	}
	return textSet.SortedSet(elems)
}

func mapOf(m map[string]string) []byte {
	var pairs [][]byte
	for k, v := range m {
		pairs = append(pairs, text(k), text(v))
	}
	return textMap.SortedMap(pairs)
}

func blobs(m map[string][]byte) []byte {
	var pairs [][]byte
	for k, v := range m {
		pairs = append(pairs, text(k), append([]byte{}, v...))
	}
	return blobMap.SortedMap(pairs)
}
