// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// KeyNames names the logical partitions of tables for operators.
type KeyNames struct {
	catalog *catalog.Catalog
	store   *storage.Store
}

// NewKeyNames returns KeyNames that look up unknown keys in a store.
func NewKeyNames(c *catalog.Catalog, store *storage.Store) KeyNames { return KeyNames{c, store} }

// Name returns the readable name of a logical partition. The name consists of the key columns in CQL, or of the token
// if the key is unknown.
func (n KeyNames) Name(table uint32, at token.Token, key []byte) string {
	t := n.catalog.Snapshot().TableByID(table)
	if key == nil && (t == nil || !t.MaskedKey()) {
		var err error
		if key, err = n.store.KeyAt(table, at); err != nil || key == nil {
			return fmt.Sprintf("token %d", at)
		}
	}
	if t == nil {
		return fmt.Sprintf("key 0x%x", key)
	}
	return keyLiterals(t, key)
}

// Describe returns the readable name of a logical partition. The name consists of the table and the key.
func (n KeyNames) Describe(table uint32, key []byte) string {
	t := n.catalog.Snapshot().TableByID(table)
	if t == nil {
		return fmt.Sprintf("key 0x%x", key)
	}
	return t.String() + " " + keyLiterals(t, key)
}

// keyLiterals returns the columns and values of a partition key in CQL. For containers, it returns them in JSON. It
// never shows masked columns, because the reader is unknown.
func keyLiterals(t *schema.Table, key []byte) string {
	columns := make([]string, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		if c.Mask != nil {
			columns[i] = c.Name + " is masked"
			continue
		}
		value, err := expr.PartitionKeyValue(t, key, i)
		if err != nil {
			return fmt.Sprintf("key 0x%x", key)
		}
		literal := c.Type.Format(value)
		if t.Container != nil {
			literal = string(value) // the column contains JSON text
		}
		columns[i] = c.Name + " = " + literal
	}
	return strings.Join(columns, " AND ")
}
