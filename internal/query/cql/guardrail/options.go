// SPDX-License-Identifier: Apache-2.0

package guardrail

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Threshold holds the limits of a numeric guardrail. A limit that is not positive is disabled. WithDefaults replaces
// a limit of 0 but keeps a negative limit.
type Threshold struct{ Warn, Fail int64 }

func (t Threshold) on() bool { return t.Warn > 0 || t.Fail > 0 }

// Values holds the values that cause a warning, the values that are ignored, and the values that are rejected. All
// values except consistency levels are in lower case.
type Values struct{ Warned, Ignored, Disallowed []string }

func (v *Values) none() bool { return len(v.Warned)+len(v.Ignored)+len(v.Disallowed) == 0 }

// Options holds the guardrails of a node. The zero value disables all guardrails.
type Options struct {
	Keyspaces, Tables, ColumnsPerTable, SecondaryIndexesPerTable, FieldsPerUDT Threshold
	MaterializedViewsPerTable, VectorDimensions                                Threshold
	PartitionKeysInSelect, InSelectCartesianProduct, PageSize                  Threshold
	ItemsPerCollection                                                         Threshold
	// CollectionSize and ColumnValueSize are in bytes.
	CollectionSize, ColumnValueSize Threshold
	// MaximumTimestamp is the maximum difference between a client's timestamp in the future and the current time.
	// MinimumTimestamp is the maximum difference for a timestamp in the past. Both are in microseconds.
	MaximumTimestamp, MinimumTimestamp                 Threshold
	MaximumReplicationFactor, MinimumReplicationFactor Threshold

	TableProperties, ReadConsistencyLevels, WriteConsistencyLevels Values

	// Disabled contains the option names of disabled features without the suffix _enabled.
	Disabled map[string]bool
	// ZeroTTLWarned enables a warning for tables with TimeWindowCompactionStrategy and no default TTL.
	ZeroTTLWarned bool
}

// WithDefaults sets default limits for options that are not configured. Cassandra has no such defaults. Without these
// limits, clients could create a schema of any size. Every node holds the schema in memory.
func (o Options) WithDefaults() Options {
	for _, d := range []struct {
		bound *int64
		is    int64
	}{
		{&o.Keyspaces.Fail, 10_000},
		{&o.Tables.Fail, 50_000},
		{&o.ColumnsPerTable.Fail, 10_000},
		{&o.FieldsPerUDT.Fail, 10_000},
	} {
		if *d.bound == 0 {
			*d.bound = d.is
		}
	}
	return o
}

// These features can be disabled. Each entry holds the option name without the suffix _enabled. If error texts use a
// different name, the entry also holds this name.
var switches = []struct{ option, name string }{
	{"alter_table", ""},
	{"allow_filtering", ""},
	{"compact_tables", ""},
	{"drop_keyspace", "drop_keyspace_enabled"},
	{"drop_truncate_table", "drop_truncate_table_enabled"},
	{"group_by", ""},
	{"non_partition_restricted_index_query", "non_partition_restricted_index_query_enabled"},
	{"read_before_write_list_operations", ""},
	{"secondary_indexes", ""},
	{"simplestrategy", ""},
	{"uncompressed_tables", "uncompressed_tables_enabled"},
	{"user_timestamps", ""},
	{"zero_ttl_on_twcs", ""},
}

// unit is the unit of a threshold's limits.
type unit uint8

const (
	count unit = iota
	size
	duration
)

func (o *Options) thresholds() []struct {
	name string
	unit unit
	is   *Threshold
} {
	return []struct {
		name string
		unit unit
		is   *Threshold
	}{
		{"collection_size", size, &o.CollectionSize},
		{"column_value_size", size, &o.ColumnValueSize},
		{"columns_per_table", count, &o.ColumnsPerTable},
		{"fields_per_udt", count, &o.FieldsPerUDT},
		{"in_select_cartesian_product", count, &o.InSelectCartesianProduct},
		{"items_per_collection", count, &o.ItemsPerCollection},
		{"keyspaces", count, &o.Keyspaces},
		{"materialized_views_per_table", count, &o.MaterializedViewsPerTable},
		{"maximum_replication_factor", count, &o.MaximumReplicationFactor},
		{"maximum_timestamp", duration, &o.MaximumTimestamp},
		{"minimum_replication_factor", count, &o.MinimumReplicationFactor},
		{"minimum_timestamp", duration, &o.MinimumTimestamp},
		{"page_size", count, &o.PageSize},
		{"partition_keys_in_select", count, &o.PartitionKeysInSelect},
		{"secondary_indexes_per_table", count, &o.SecondaryIndexesPerTable},
		{"tables", count, &o.Tables},
		{"vector_dimensions", count, &o.VectorDimensions},
	}
}

func (o *Options) values() []struct {
	name string
	is   *Values
} {
	return []struct {
		name string
		is   *Values
	}{
		{"read_consistency_levels", &o.ReadConsistencyLevels},
		{"table_properties", &o.TableProperties},
		{"write_consistency_levels", &o.WriteConsistencyLevels},
	}
}

// UnmarshalYAML decodes options with Cassandra's names. The suffixes of the names are _warn_threshold, _fail_threshold,
// _warned, _ignored, _disallowed, and _enabled.
func (o *Options) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: guardrails must be a map of options", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		known, err := o.set(name, value)
		if err != nil {
			return fmt.Errorf("line %d: guardrails.%s: %w", value.Line, name, err)
		}
		if !known {
			return fmt.Errorf("line %d: unknown key %q in guardrails", n.Content[i].Line, name)
		}
	}
	return nil
}

func (o *Options) set(name string, value *yaml.Node) (known bool, err error) {
	for _, t := range o.thresholds() {
		bound, end := &t.is.Warn, ""
		if end, known = strings.CutPrefix(name, t.name+"_"); !known || end != "warn_threshold" &&
			end != "fail_threshold" {
			continue
		}
		if end == "fail_threshold" {
			bound = &t.is.Fail
		}
		*bound, err = t.unit.parse(value.Value)
		return true, err
	}
	for _, v := range o.values() {
		for end, list := range map[string]*[]string{"warned": &v.is.Warned, "ignored": &v.is.Ignored,
			"disallowed": &v.is.Disallowed} {
			if name == v.name+"_"+end {
				return true, value.Decode(list)
			}
		}
	}
	if name == "zero_ttl_on_twcs_warned" {
		return true, value.Decode(&o.ZeroTTLWarned)
	}
	option, isSwitch := strings.CutSuffix(name, "_enabled")
	for _, s := range switches {
		if isSwitch && s.option == option {
			var on bool
			err := value.Decode(&on)
			o.setEnabled(option, on)
			return true, err
		}
	}
	return false, nil
}

func (o *Options) setEnabled(option string, on bool) {
	if o.Disabled == nil {
		o.Disabled = map[string]bool{}
	}
	if on {
		delete(o.Disabled, option)
	} else {
		o.Disabled[option] = true
	}
}

func (u unit) parse(text string) (int64, error) {
	if text == "-1" || text == "null" || text == "~" || text == "" {
		return -1, nil
	}
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzBKMGT")
	n, err := strconv.ParseInt(digits, 10, 64)
	units := map[unit]map[string]int64{
		count: {"": 1},
		size:  {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30},
		duration: {
			"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6, "d": 86400e6,
		},
	}[u]
	factor, ok := units[text[len(digits):]]
	switch {
	case err == nil && ok && n >= 0 && n <= (1<<62)/factor:
		return n * factor, nil
	case u == size:
		return 0, fmt.Errorf("%q is not a size: expected a number followed by B, KiB, MiB, GiB", text)
	case u == duration:
		return 0, fmt.Errorf("%q is not a duration: expected a number followed by us, ms, s, m, h, or d", text)
	}
	return 0, fmt.Errorf("%q is not a number: expected a number, or -1 for no limit", text)
}

func (u unit) text(n int64) string {
	switch {
	case n <= 0:
		return "-1"
	case u == duration:
		return (time.Duration(n) * time.Microsecond).String()
	case u == size:
		return strconv.FormatInt(n, 10) + "B"
	}
	return strconv.FormatInt(n, 10)
}

// Validate returns an error if limits contradict each other.
func (o *Options) Validate() error {
	for _, t := range o.thresholds() {
		low := strings.HasPrefix(t.name, "minimum_rep")
		if w, f := t.is.Warn, t.is.Fail; w > 0 && f > 0 && (w > f && !low || w < f && low) {
			return fmt.Errorf("guardrails.%s_warn_threshold %s exceeds guardrails.%s_fail_threshold %s", t.name,
				t.unit.text(w), t.name, t.unit.text(f))
		}
	}
	return nil
}

// Settings returns the options by name for system_views.settings.
func (o *Options) Settings() map[string]string {
	out := map[string]string{"zero_ttl_on_twcs_warned": strconv.FormatBool(o.ZeroTTLWarned)}
	for _, t := range o.thresholds() {
		out[t.name+"_warn_threshold"], out[t.name+"_fail_threshold"] = t.unit.text(t.is.Warn), t.unit.text(t.is.Fail)
	}
	for _, v := range o.values() {
		out[v.name+"_warned"], out[v.name+"_ignored"], out[v.name+"_disallowed"] = list(v.is.Warned),
			list(v.is.Ignored), list(v.is.Disallowed)
	}
	for _, s := range switches {
		out[s.option+"_enabled"] = strconv.FormatBool(!o.Disabled[s.option])
	}
	return out
}

// list formats a list in the same way as Java.
func list(values []string) string {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return "[" + strings.Join(sorted, ", ") + "]"
}
