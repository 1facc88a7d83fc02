// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

var quote = cqltype.QuoteName

// replicationText formats a replication for CREATE KEYSPACE. The class is the first entry and does not contain the
// package.
func replicationText(replication map[string]string) string {
	var b strings.Builder
	b.WriteString("{'class': " + schema.FormatString(schema.StrategyName(replication)))
	for _, k := range slices.Sorted(maps.Keys(replication)) {
		if k != "class" {
			b.WriteString(", " + schema.FormatString(k) + ": " + schema.FormatString(replication[k]))
		}
	}
	b.WriteByte('}')
	return b.String()
}

func createKeyspace(ks *schema.Keyspace) string {
	if schema.IsVirtualSystem(ks.Name) {
		return "/*\nWarning: Keyspace " + quote(ks.Name) +
			" is a virtual keyspace and cannot be recreated with CQL.\nStructure, for reference:\nVIRTUAL KEYSPACE " +
			quote(ks.Name) + ";\n*/"
	}
	text := "CREATE KEYSPACE " + quote(ks.Name) + " WITH replication = " + replicationText(ks.Replication) +
		"  AND durable_writes = " + strconv.FormatBool(ks.DurableWrites)
	for _, name := range slices.Sorted(maps.Keys(ks.Options)) {
		text += " AND " + name + " = " + optionValueText(ks.Options[name])
	}
	return text + ";"
}

// optionValueText formats the stored value of an option. Numbers, booleans, and maps are not quoted.
func optionValueText(v string) string {
	if _, err := strconv.ParseFloat(v, 64); err == nil || v == "true" || v == "false" || strings.HasPrefix(v, "{") {
		return v
	}
	return schema.FormatString(v)
}

func createType(t *cqltype.Type) string {
	var b strings.Builder
	b.WriteString("CREATE TYPE " + quote(t.Keyspace) + "." + quote(t.Name) + " (")
	for i, f := range t.Fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    " + quote(f) + " " + t.Elems[i].String())
	}
	b.WriteString("\n);")
	return b.String()
}

func createIndex(t *schema.Table, ix *schema.Index) string {
	var b strings.Builder
	b.WriteString("CREATE ")
	if ix.Kind == "CUSTOM" {
		b.WriteString("CUSTOM ")
	}
	b.WriteString("INDEX " + quote(ix.Name) + " ON " + tableName(t) + " (" + ix.TargetText() + ")")
	if ix.Kind == "CUSTOM" {
		options := maps.Clone(ix.Options)
		b.WriteString(" USING " + schema.FormatString(options["class_name"]))
		delete(options, "class_name")
		if len(options) > 0 {
			b.WriteString(" WITH OPTIONS = " + schema.FormatMap(options))
		}
	}
	b.WriteByte(';')
	return b.String()
}

func tableName(t *schema.Table) string { return quote(t.Keyspace) + "." + quote(t.Name) }

// createTable formats a table. If internals is true, executing the statement creates an equal table, including dropped
// columns.
func createTable(ks *schema.Keyspace, t *schema.Table, internals bool, rel *compat.Release) string {
	var b strings.Builder
	keyword := "CREATE"
	virtual := schema.IsVirtualSystem(t.Keyspace)
	if virtual {
		b.WriteString("/*\nWarning: Table " + tableName(t) +
			" is a virtual table and cannot be recreated with CQL.\nStructure, for reference:\n")
		keyword = "VIRTUAL"
	}
	b.WriteString(keyword + " TABLE " + tableName(t) + " (\n")
	writeColumns(&b, ks, t, internals)
	b.WriteString(") WITH ")
	if internals {
		b.WriteString("ID = " + t.UUID.String() + "\n    AND ")
	}
	if t.CompactStorage {
		b.WriteString("COMPACT STORAGE\n    AND ")
	}
	writeClusteringOrder(&b, t)
	if virtual {
		b.WriteString("comment = " + schema.FormatString(t.Options.Comment) + ";\n*/")
		return b.String()
	}
	b.WriteString(strings.Join(optionTexts(&t.Options, rel), "\n    AND ") + ";")
	if internals {
		writeDropped(&b, ks, t)
	}
	return b.String()
}

func order(c *schema.Column) string {
	if c.Desc {
		return " DESC"
	}
	return " ASC"
}

// writeColumns writes the columns in Cassandra's order. Key columns precede static columns, which precede regular
// columns. Among static and regular columns, single-cell columns are first. If internals is true, dropped columns
// follow with their former types, even if a column with the same name exists.
func writeColumns(b *strings.Builder, ks *schema.Keyspace, t *schema.Table, internals bool) {
	line := func(name string, typ *cqltype.Type, static, only bool, mask *schema.Mask) {
		b.WriteString("    " + quote(name) + " " + typ.String())
		if static {
			b.WriteString(" static")
		}
		if mask != nil {
			b.WriteString(" MASKED WITH " + expr.MaskText(mask, ks))
		}
		if only {
			b.WriteString(" PRIMARY KEY")
		}
	}
	single := len(t.PartitionKey) == 1 && len(t.Clustering) == 0
	first := true
	next := func() {
		if !first {
			b.WriteString(",\n")
		}
		first = false
	}
	for _, c := range slices.Concat(t.PartitionKey, t.Clustering, singleCellFirst(t.Statics),
		singleCellFirst(t.Regulars)) {
		if internals && t.LastDropped(c.Name) != nil {
			continue
		}
		next()
		line(c.Name, c.Type, c.Kind == schema.Static, single && c.Kind == schema.PartitionKey, c.Mask)
	}
	if internals {
		for _, d := range lastDropped(t) {
			next()
			line(d.Name, d.Type, d.Kind == schema.Static, false, nil)
		}
	}
	if !single {
		next()
		b.WriteString("    PRIMARY KEY (")
		partition := quoted(t.PartitionKey)
		if len(t.PartitionKey) > 1 {
			partition = "(" + partition + ")"
		}
		b.WriteString(partition)
		if len(t.Clustering) > 0 {
			b.WriteString(", " + quoted(t.Clustering))
		}
		b.WriteByte(')')
	}
	b.WriteByte('\n')
}

func quoted(columns []*schema.Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = quote(c.Name)
	}
	return strings.Join(names, ", ")
}

func singleCellFirst(columns []*schema.Column) []*schema.Column {
	sorted := slices.Clone(columns)
	slices.SortStableFunc(sorted, func(a, b *schema.Column) int {
		switch am, bm := a.Type.MultiCell(), b.Type.MultiCell(); {
		case am == bm:
			return 0
		case bm:
			return -1
		}
		return 1
	})
	return sorted
}

// lastDropped returns the most recently dropped column for each name, sorted by name.
func lastDropped(t *schema.Table) []*schema.DroppedColumn {
	var dropped []*schema.DroppedColumn
	for i := range t.Dropped {
		if d := &t.Dropped[i]; t.LastDropped(d.Name) == d {
			dropped = append(dropped, d)
		}
	}
	slices.SortFunc(dropped, func(a, b *schema.DroppedColumn) int { return strings.Compare(a.Name, b.Name) })
	return dropped
}

// writeDropped writes statements that drop the dropped columns. It also writes statements that add columns that were
// added again.
func writeDropped(b *strings.Builder, ks *schema.Keyspace, t *schema.Table) {
	for _, d := range lastDropped(t) {
		fmt.Fprintf(b, "\nALTER TABLE %s DROP %s USING TIMESTAMP %d;", tableName(t), quote(d.Name), d.DroppedAt)
		if c := t.Column(d.Name); c != nil {
			b.WriteString("\nALTER TABLE " + tableName(t) + " ADD " + quote(c.Name) + " " + c.Type.String())
			if c.Kind == schema.Static {
				b.WriteString(" static")
			}
			if c.Mask != nil {
				b.WriteString(" MASKED WITH " + expr.MaskText(c.Mask, ks))
			}
			b.WriteByte(';')
		}
	}
}

// optionTexts returns the options in the form name = value, sorted by name. memtable has the same position as in
// Cassandra. For older releases, the result also contains options of Cassandra 5.0 that differ from the default.
func optionTexts(o *schema.TableOptions, rel *compat.Release) []string {
	extensions := make([]string, 0, len(o.Extensions))
	for _, k := range slices.Sorted(maps.Keys(o.Extensions)) {
		extensions = append(extensions, schema.FormatString(k)+": 0x"+hex.EncodeToString(o.Extensions[k]))
	}
	texts := []string{
		"additional_write_policy = " + schema.FormatString(o.AdditionalWritePolicy),
	}
	if rel.SnapshotOptions || o.SnapshotsOff {
		texts = append(texts, "allow_auto_snapshot = "+strconv.FormatBool(!o.SnapshotsOff))
	}
	if o.MergesOff {
		texts = append(texts, "automatic_merges = false")
	}
	texts = append(texts,
		"bloom_filter_fp_chance = "+schema.FormatDouble(o.BloomFilterFPChance),
		"caching = "+schema.FormatMap(o.Caching),
		"cdc = "+strconv.FormatBool(o.CDC))
	if kept := o.Retention(); kept != schema.RetentionDefault {
		texts = append(texts, "cdc_retention_seconds = "+strconv.FormatInt(kept, 10))
	}
	texts = append(texts,
		"comment = "+schema.FormatString(o.Comment),
		"compaction = "+schema.FormatMap(o.Compaction),
		"compression = "+schema.FormatMap(o.Compression))
	for _, name := range slices.Sorted(maps.Keys(o.Cosmos)) {
		texts = append(texts, name+" = "+optionValueText(o.Cosmos[name]))
	}
	if rel.SnapshotOptions {
		texts = append(texts, "memtable = 'default'")
	}
	texts = append(texts,
		"crc_check_chance = "+schema.FormatDouble(o.CRCCheckChance),
		"default_time_to_live = "+strconv.Itoa(int(o.DefaultTTL)),
		"extensions = {"+strings.Join(extensions, ", ")+"}",
		"gc_grace_seconds = "+strconv.Itoa(int(o.GCGrace)))
	if rel.SnapshotOptions || o.BackupsOff {
		texts = append(texts, "incremental_backups = "+strconv.FormatBool(!o.BackupsOff))
	}
	texts = append(texts,
		"max_index_interval = "+strconv.Itoa(int(o.MaxIndexInterval)),
		"memtable_flush_period_in_ms = "+strconv.Itoa(int(o.MemtableFlushPeriod)),
		"min_index_interval = "+strconv.Itoa(int(o.MinIndexInterval)),
		"read_repair = "+schema.FormatString(o.ReadRepair),
		"speculative_retry = "+schema.FormatString(o.SpeculativeRetry))
	if most := o.StorageCapText(); most != "" {
		texts = append(texts, "storage_cap_gb = "+most)
	}
	return texts
}

// writeClusteringOrder writes the order of the clustering columns as the first option of a table. For a table without
// clustering columns, it writes nothing.
func writeClusteringOrder(b *strings.Builder, t *schema.Table) {
	if len(t.Clustering) == 0 {
		return
	}
	texts := make([]string, len(t.Clustering))
	for i, c := range t.Clustering {
		texts[i] = quote(c.Name) + order(c)
	}
	b.WriteString("CLUSTERING ORDER BY (" + strings.Join(texts, ", ") + ")\n    AND ")
}
