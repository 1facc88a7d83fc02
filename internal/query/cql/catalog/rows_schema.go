// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/hex"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// keyspaces calls fn for the keyspaces that the current table describes. Tables of system_virtual_schema describe
// virtual keyspaces. Tables of system_schema describe all other keyspaces.
func (b *builder) keyspaces(fn func(*schema.Keyspace)) {
	virtual := b.table.Keyspace == "system_virtual_schema"
	for ks := range b.schema.All() {
		if schema.IsVirtualSystem(ks.Name) == virtual && b.wants(ks.Name) {
			fn(ks)
		}
	}
}

func (b *builder) tables(fn func(*schema.Table)) {
	b.keyspaces(func(ks *schema.Keyspace) {
		for _, t := range ks.SortedTables() {
			fn(t)
		}
	})
}

func fillKeyspaces(b *builder) {
	b.keyspaces(func(ks *schema.Keyspace) {
		b.add(values{"keyspace_name": text(ks.Name), "durable_writes": boolean(ks.DurableWrites),
			"replication": mapOf(b.info.Replication(ks))})
	})
}

// fillScyllaKeyspaces lists the user keyspaces of a cluster as keyspaces with tablets. Drivers receive partition
// locations for these keyspaces.
func fillScyllaKeyspaces(b *builder) {
	if b.info.EffectiveReplication == 0 {
		return
	}
	b.keyspaces(func(ks *schema.Keyspace) {
		if !schema.IsSystem(ks.Name) {
			b.add(values{"keyspace_name": text(ks.Name), "initial_tablets": int32Value(0)})
		}
	})
}

func fillTables(b *builder) {
	b.tables(func(t *schema.Table) {
		if t.View != nil {
			return
		}
		v := optionsOf(t)
		v["table_name"], v["flags"] = text(t.Name), set(t.Flags())
		b.add(v)
	})
}

func fillViews(b *builder) {
	b.tables(func(t *schema.Table) {
		base := b.schema.Table(t.Keyspace, baseOf(t))
		if base == nil {
			return
		}
		v := optionsOf(t)
		v["view_name"], v["base_table_name"], v["base_table_id"] = text(t.Name), text(base.Name), uuidValue(base.UUID)
		v["where_clause"], v["include_all_columns"] = text(t.View.WhereText()), boolean(t.View.AllColumns)
		b.add(v)
	})
}

// baseOf returns the base table of a view, or an empty string for other tables.
func baseOf(t *schema.Table) string {
	if t.View == nil {
		return ""
	}
	return t.View.Base
}

// optionsOf returns the columns that tables and views share.
func optionsOf(t *schema.Table) values {
	o := &t.Options
	v := values{
		"keyspace_name": text(t.Keyspace), "id": uuidValue(t.UUID),
		"additional_write_policy": text(o.AdditionalWritePolicy),
		"bloom_filter_fp_chance":  double(o.BloomFilterFPChance),
		"caching":                 mapOf(o.Caching), "comment": text(o.Comment), "compaction": mapOf(o.Compaction),
		"compression":      mapOf(o.Compression),
		"crc_check_chance": double(o.CRCCheckChance), "dclocal_read_repair_chance": double(0),
		"read_repair_chance":   double(0),
		"default_time_to_live": int32Value(o.DefaultTTL), "extensions": blobs(o.Extensions),
		"gc_grace_seconds":            int32Value(o.GCGrace),
		"max_index_interval":          int32Value(o.MaxIndexInterval),
		"memtable_flush_period_in_ms": int32Value(o.MemtableFlushPeriod),
		"min_index_interval":          int32Value(o.MinIndexInterval), "read_repair": text(o.ReadRepair),
		"speculative_retry": text(o.SpeculativeRetry),
	}
	if o.SnapshotsOff {
		v["allow_auto_snapshot"] = boolean(false)
	}
	if o.BackupsOff {
		v["incremental_backups"] = boolean(false)
	}
	if o.CDC { // in Cassandra, this column is null if CDC is off
		v["cdc"] = boolean(true)
	}
	return v
}

func fillColumns(b *builder) {
	b.tables(func(t *schema.Table) {
		for c := range t.Columns() {
			order := "none"
			if c.Kind == schema.Clustering {
				order = "asc"
				if c.Desc {
					order = "desc"
				}
			}
			b.add(values{
				"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "column_name": text(c.Name),
				"clustering_order":  text(order),
				"column_name_bytes": text(c.Name), "kind": text(c.Kind.String()),
				"position": int32Value(int32(c.Position)), "type": text(c.Type.String()),
			})
		}
	})
}

var booleans = cqltype.ListOf(cqltype.Native(cqltype.Boolean))

func fillMasks(b *builder) {
	b.tables(func(t *schema.Table) {
		for c := range t.Columns() {
			if m := c.Mask; m != nil {
				v := values{"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "column_name": text(c.Name),
					"function_keyspace": text(m.Keyspace), "function_name": text(m.Function)}
				types, shown, nulls := b.maskArguments(t, m)
				v["function_argument_types"], v["function_argument_values"] = list(types), list(shown)
				v["function_argument_nulls"] = booleans.AppendCollection(nil, nulls...)
				b.add(v)
			}
		}
	})
}

// maskArguments returns the types and values of a mask's arguments. It also returns which arguments are null. Values of
// native types are represented by texts. Other values are represented by hexadecimal strings.
func (b *builder) maskArguments(t *schema.Table, m *schema.Mask) (types, shown []string, nulls [][]byte) {
	ks := b.schema.Keyspace(t.Keyspace)
	for i, value := range m.Values {
		text := hex.EncodeToString(value)
		if typ, err := m.Types[i].Bind(ks.Name, ks.Types); err == nil && typ.Kind.IsNative() {
			text = typ.Text(value)
		}
		types, shown = append(types, m.Types[i].String()), append(shown, text)
		nulls = append(nulls, boolean(value == nil))
	}
	return types, shown, nulls
}

func fillDropped(b *builder) {
	b.tables(func(t *schema.Table) {
		for i := range t.Dropped {
			d := &t.Dropped[i]
			if t.LastDropped(d.Name) != d {
				continue // the column was dropped, added, and dropped again
			}
			b.add(values{
				"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "column_name": text(d.Name),
				"dropped_time": bigint(d.DroppedAt / 1000), "kind": text(d.Kind.String()),
				"type": text(d.Type.String()),
			})
		}
	})
}

func fillIndexes(b *builder) {
	b.tables(func(t *schema.Table) {
		for _, ix := range t.ShownIndexes() {
			options := map[string]string{"target": ix.TargetText()}
			for k, v := range ix.Options {
				options[k] = v
			}
			b.add(values{
				"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "index_name": text(ix.Name),
				"kind":    text(ix.Kind),
				"options": mapOf(options),
			})
		}
	})
}

// fillSAIIndexes fills the table of storage-attached indexes.
func fillSAIIndexes(b *builder) {
	var building map[uint32]bool
	if b.info.Metadata != nil {
		building = b.info.Metadata.Building
	}
	b.stored(func(t *schema.Table) {
		for _, ix := range t.ShownIndexes() {
			if !ix.Attached() {
				continue
			}
			analyzer := "NoOpAnalyzer"
			if ix.Analyzed() {
				a := ix.Analysis()
				analyzer = fmt.Sprintf("NonTokenizingAnalyzer{caseSensitive=%v, normalized=%v, ascii=%v}", !a.Lower,
					a.Normalize, a.ASCII)
			}
			types := ix.Indexed(t.ByName[ix.Column])
			literal := len(types) > 1
			switch types[0].Kind {
			case cqltype.Text, cqltype.Ascii, cqltype.Boolean, cqltype.List, cqltype.Set, cqltype.Map, cqltype.Tuple,
				cqltype.UDT, cqltype.Vector:
				literal = true
			}
			b.add(values{
				"keyspace_name": text(t.Keyspace), "index_name": text(ix.Name), "table_name": text(t.Name),
				"column_name": text(ix.Column), "analyzer": text(analyzer), "is_building": boolean(building[ix.ID]),
				"is_queryable": boolean(!building[ix.ID]), "is_string": boolean(literal),
			})
		}
	})
}

func fillTypes(b *builder) {
	b.keyspaces(func(ks *schema.Keyspace) {
		for _, t := range ks.SortedTypes() {
			types := make([]string, len(t.Elems))
			for i, e := range t.Elems {
				types[i] = e.String()
			}
			b.add(values{"keyspace_name": text(ks.Name), "type_name": text(t.Name), "field_names": list(t.Fields),
				"field_types": list(types)})
		}
	})
}

func fillFunctions(b *builder) {
	b.keyspaces(func(ks *schema.Keyspace) {
		for f := range ks.Scalars(false) {
			b.add(values{
				"keyspace_name": text(ks.Name), "function_name": text(f.Name), "argument_types": list(f.ArgTypes()),
				"argument_names": list(f.ArgNames), "body": text(f.Body), "called_on_null_input": boolean(f.Nulls),
				"language": text(f.Language), "return_type": text(f.Returns.String()),
			})
		}
	})
}

func fillAggregates(b *builder) {
	b.keyspaces(func(ks *schema.Keyspace) {
		for f := range ks.Scalars(true) {
			v := values{
				"keyspace_name": text(ks.Name), "aggregate_name": text(f.Name), "argument_types": list(f.ArgTypes()),
				"return_type": text(f.Returns.String()), "state_func": text(f.Aggregate.StateFunc),
				"state_type": text(f.Aggregate.State.String()),
			}
			if f.Aggregate.FinalFunc != "" {
				v["final_func"] = text(f.Aggregate.FinalFunc)
			}
			if f.Aggregate.Initial != nil {
				v["initcond"] = text(f.Aggregate.State.Format(f.Aggregate.Initial))
			}
			b.add(v)
		}
	})
}

func fillVirtualKeyspaces(b *builder) {
	b.keyspaces(func(ks *schema.Keyspace) { b.add(values{"keyspace_name": text(ks.Name)}) })
}

func fillVirtualTables(b *builder) {
	b.tables(func(t *schema.Table) {
		b.add(values{"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "comment": text(t.Options.Comment)})
	})
}
