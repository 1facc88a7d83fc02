// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// keyValue returns the value of the i-th column of a partition key, or nil if the value does not exist.
func keyValue(t *schema.Table, key []byte, i int) []byte {
	if len(t.PartitionKey) == 1 {
		return key
	}
	for ; ; i-- {
		v, rest, ok := token.SplitComponent(key)
		if !ok {
			return nil
		}
		if i == 0 {
			return v
		}
		key = rest
	}
}

// keyText returns the readable form of a partition key. It contains the columns and the unmasked values.
func keyText(t *schema.Table, key []byte) string {
	parts := make([]string, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		if c.Mask != nil {
			parts[i] = cqltype.QuoteName(c.Name) + " is masked"
			continue
		}
		parts[i] = cqltype.QuoteName(c.Name) + " = " + shortened(c.Type.Format(keyValue(t, key, i)))
	}
	return strings.Join(parts, " AND ")
}

// valueTextMax is the maximum displayed length of a value.
const valueTextMax = 60

func shortened(s string) string {
	if r := []rune(s); len(r) > valueTextMax {
		return string(r[:valueTextMax]) + "..."
	}
	return s
}

// clusteringPrefix returns the bytes of the first n clustering columns of a clustering key.
func clusteringPrefix(t *schema.Table, clustering []byte, n int) []byte {
	rest := clustering
	for _, c := range t.Clustering[:n] {
		var err error
		if rest, err = c.Type.SkipKey(rest, c.Desc); err != nil {
			return clustering
		}
	}
	return clustering[:len(clustering)-len(rest)]
}

// isTime reports whether the values of a column are instants.
func isTime(c *schema.Column) bool {
	switch c.Type.Kind {
	case cqltype.Timestamp, cqltype.Timeuuid, cqltype.Date:
		return true
	}
	return false
}

// instant returns the value of a time column. ok is false if the value is not an instant.
func instant(c *schema.Column, wire []byte) (at time.Time, ok bool) {
	switch {
	case c.Type.Kind == cqltype.Timestamp && len(wire) == 8:
		return time.UnixMilli(int64(binary.BigEndian.Uint64(wire))).UTC(), true
	case c.Type.Kind == cqltype.Timeuuid && len(wire) == 16:
		return time.UnixMilli(cqltype.TimeUUIDMillis([16]byte(wire))).UTC(), true
	case c.Type.Kind == cqltype.Date && len(wire) == 4:
		return time.Unix((int64(binary.BigEndian.Uint32(wire))-1<<31)*86400, 0).UTC(), true
	}
	return at, false
}

// timeColumn returns the first clustering column with instants and its index, or nil.
func timeColumn(t *schema.Table) (c *schema.Column, i int) {
	i = slices.IndexFunc(t.Clustering, isTime)
	if i < 0 {
		return nil, 0
	}
	return t.Clustering[i], i
}

// clusteringInstant returns the instant in the i-th clustering column of a clustering key.
func clusteringInstant(t *schema.Table, clustering []byte, i int) (at time.Time, ok bool) {
	rest := clustering[len(clusteringPrefix(t, clustering, i)):]
	c := t.Clustering[i]
	wire, _, err := c.Type.ReadKey(nil, rest, c.Desc)
	if err != nil {
		return at, false
	}
	return instant(c, wire)
}
