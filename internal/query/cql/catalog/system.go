// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/md5"
	"maps"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// These are the IDs of the stored system tables. The IDs of virtual tables start at firstComputedID and are never used
// in a store.
const (
	TraceSessionsID = 1000
	TraceEventsID   = 1001
	BatchesID       = 1002

	firstComputedID = 512
)

// declaration declares the tables of a keyspace. Each line has the form: name(partition key | clustering key) columns
// -- comment. Columns are separated by semicolons. A line that starts with a tab continues the previous line. The
// columns are the columns of Cassandra 4.0.
type declaration struct {
	keyspace    string
	replication map[string]string
	tables      string
}

const systemTables = `
available_ranges(keyspace_name text) ranges set<blob>
available_ranges_v2(keyspace_name text) full_ranges set<blob>; transient_ranges set<blob>
batches(id uuid) data blob -- atomic batches over several physical partitions that are under way
built_views(keyspace_name text | view_name text) status_replicated boolean
compaction_history(id uuid) bytes_in bigint; bytes_out bigint; columnfamily_name text; compacted_at timestamp;
	keyspace_name text; rows_merged map<int, bigint>
IndexInfo(table_name text | index_name text) value blob
local(key text) bootstrapped text; broadcast_address inet; broadcast_port int; cluster_name text; cql_version text;
	data_center text; gossip_generation int; host_id uuid; listen_address inet; listen_port int;
	native_protocol_version text; partitioner text; rack text; release_version text; rpc_address inet; rpc_port int;
	schema_version uuid; tokens set<text>; truncated_at map<uuid, blob> -- information about the local node
paxos(row_key blob | cf_id uuid) in_progress_ballot timeuuid; most_recent_commit blob;
	most_recent_commit_at timeuuid; most_recent_commit_version int; proposal blob; proposal_ballot timeuuid;
	proposal_version int
peer_events(peer inet) hints_dropped map<uuid, int>
peer_events_v2(peer inet | peer_port int) hints_dropped map<uuid, int>
peers(peer inet) data_center text; host_id uuid; preferred_ip inet; rack text; release_version text;
	rpc_address inet; schema_version uuid; tokens set<text> -- information about known peers in the cluster
peers_v2(peer inet | peer_port int) data_center text; host_id uuid; native_address inet; native_port int;
	preferred_ip inet; preferred_port int; rack text; release_version text; schema_version uuid; tokens set<text>
	-- information about known peers in the cluster
prepared_statements(prepared_id blob) logged_keyspace text; query_string text -- prepared statements
repairs(parent_id timeuuid) cfids set<uuid>; coordinator inet; coordinator_port int; last_update timestamp;
	participants set<inet>; participants_wp set<text>; ranges set<blob>; repaired_at timestamp; started_at timestamp;
	state int
size_estimates(keyspace_name text | table_name text; range_start text; range_end text) mean_partition_size bigint;
	partitions_count bigint -- per-table primary range size estimates
sstable_activity(keyspace_name text; columnfamily_name text; generation int) rate_120m double; rate_15m double
table_estimates(keyspace_name text | table_name text; range_type text; range_start text;
	range_end text) mean_partition_size bigint; partitions_count bigint
transferred_ranges(operation text; keyspace_name text | peer inet) ranges set<blob>
transferred_ranges_v2(operation text; keyspace_name text | peer inet; peer_port int) ranges set<blob>
view_builds_in_progress(keyspace_name text | view_name text; start_token text; end_token text) keys_built bigint;
	last_token text
`

// optionColumns declares the columns that tables and views share.
const optionColumns = `additional_write_policy text; bloom_filter_fp_chance double; caching frozen<map<text, ` +
	`text>>; cdc boolean; comment text; compaction frozen<map<text, text>>; compression frozen<map<text, text>>; ` +
	`crc_check_chance double; dclocal_read_repair_chance double; default_time_to_live int; extensions ` +
	`frozen<map<text, blob>>; gc_grace_seconds int; id uuid; max_index_interval int; ` +
	`memtable_flush_period_in_ms int; min_index_interval int; read_repair text; read_repair_chance double;
	speculative_retry text`

// ScyllaDB's drivers read these tables of system_schema from any server. scylla_keyspaces lists the keyspaces with
// tablets for the Rust driver. For other keyspaces, the Rust driver discards the partition locations at each metadata
// refresh.
const (
	scyllaTables    = "scylla_tables"
	scyllaKeyspaces = "scylla_keyspaces"
)

// OfScylla reports whether a table of system_schema exists only in ScyllaDB.
func OfScylla(t *schema.Table) bool {
	return t.Keyspace == "system_schema" && (t.Name == scyllaTables || t.Name == scyllaKeyspaces)
}

const schemaTables = `
aggregates(keyspace_name text | aggregate_name text; argument_types frozen<list<text>>) final_func text;
	initcond text; return_type text; state_func text; state_type text -- user defined aggregate definitions
columns(keyspace_name text | table_name text; column_name text) clustering_order text; column_name_bytes blob;
	kind text; position int; type text -- column definitions
dropped_columns(keyspace_name text | table_name text; column_name text) dropped_time timestamp; kind text;
	type text -- dropped column registry
functions(keyspace_name text | function_name text;
	argument_types frozen<list<text>>) argument_names frozen<list<text>>; body text; called_on_null_input boolean;
	language text; return_type text -- user defined function definitions
indexes(keyspace_name text | table_name text; index_name text) kind text; options frozen<map<text, text>>
	-- secondary index definitions
keyspaces(keyspace_name text) durable_writes boolean; replication frozen<map<text, text>> -- keyspace definitions
` + scyllaKeyspaces + `(keyspace_name text) initial_tablets int -- keyspaces whose tables are in tablets
` + scyllaTables + `(keyspace_name text | table_name text) cdc frozen<map<text, text>>; partitioner text;
	version uuid -- empty: what ScyllaDB's drivers ask everybody
tables(keyspace_name text | table_name text) ` + optionColumns + `; flags frozen<set<text>> -- table definitions
triggers(keyspace_name text | table_name text; trigger_name text) options frozen<map<text, text>> -- trigger definitions
types(keyspace_name text | type_name text) field_names frozen<list<text>>; field_types frozen<list<text>>
	-- user defined type definitions
views(keyspace_name text | view_name text) base_table_id uuid; base_table_name text; include_all_columns boolean;
	where_clause text; ` + optionColumns + ` -- view definitions
`

const authTables = `
cidr_groups(cidr_group text) cidrs frozen<set<frozen<tuple<inet, smallint>>>> -- CIDR groups and their addresses
cidr_permissions(role text) cidr_groups frozen<set<text>>
identity_to_role(identity text) role text
network_permissions(role text) dcs frozen<set<text>>
resource_role_permissons_index(resource text | role text)
role_members(role text | member text)
role_permissions(role text | resource text) permissions set<text>
roles(role text) can_login boolean; is_superuser boolean; member_of set<text>; salted_hash text -- role definitions
`

const distributedTables = `
parent_repair_history(parent_id timeuuid) columnfamily_names set<text>; exception_message text;
	exception_stacktrace text; finished_at timestamp; keyspace_name text; options map<text, text>;
	requested_ranges set<text>; started_at timestamp; successful_ranges set<text>
repair_history(keyspace_name text; columnfamily_name text | id timeuuid) coordinator inet; coordinator_port int;
	exception_message text; exception_stacktrace text; finished_at timestamp; parent_id timeuuid;
	participants set<inet>; participants_v2 set<text>; range_begin text; range_end text; started_at timestamp;
	status text
view_build_status(keyspace_name text; view_name text | host_id uuid) status text
`

const traceTables = `
events(session_id uuid | event_id timeuuid) activity text; source inet; source_elapsed int; source_port int;
	thread text -- tracing events
sessions(session_id uuid) client inet; command text; coordinator inet; coordinator_port int; duration int;
	parameters map<text, text>; request text; started_at timestamp -- tracing sessions
`

const (
	latencyColumns   = `count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double`
	histogramColumns = `count bigint; max double; p50th double; p99th double`
	perTable         = `(keyspace_name text | table_name text) `
	internodeKey     = `(address inet; port int | dc text; rack text) `
)

const viewsTables = `
caches(name text) capacity_bytes bigint; entry_count int; hit_count bigint; hit_ratio double;
	recent_hit_rate_per_second bigint; recent_request_rate_per_second bigint; request_count bigint;
	size_bytes bigint -- system caches
clients(address inet | port int) connection_stage text; driver_name text; driver_version text; hostname text;
	protocol_version int; request_count bigint; ssl_cipher_suite text; ssl_enabled boolean; ssl_protocol text;
	username text -- currently connected clients
coordinator_read_latency` + perTable + latencyColumns + `
coordinator_scan_latency` + perTable + latencyColumns + `
coordinator_write_latency` + perTable + latencyColumns + `
disk_usage` + perTable + `mebibytes bigint
internode_inbound` + internodeKey +
	`corrupt_frames_recovered bigint; corrupt_frames_unrecovered bigint; error_bytes bigint; error_count bigint;
	expired_bytes bigint; expired_count bigint; processed_bytes bigint; processed_count bigint; received_bytes bigint;
	received_count bigint; scheduled_bytes bigint; scheduled_count bigint; throttled_count bigint;
	throttled_nanos bigint; using_bytes bigint; using_reserve_bytes bigint
internode_outbound` + internodeKey +
	`active_connections bigint; connection_attempts bigint; error_bytes bigint; error_count bigint;
	expired_bytes bigint; expired_count bigint; overload_bytes bigint; overload_count bigint; pending_bytes bigint;
	pending_count bigint; sent_bytes bigint; sent_count bigint; successful_connection_attempts bigint;
	using_bytes bigint; using_reserve_bytes bigint
local_read_latency` + perTable + latencyColumns + `
local_scan_latency` + perTable + latencyColumns + `
local_write_latency` + perTable + latencyColumns + `
max_partition_size` + perTable + `mebibytes bigint
rows_per_read` + perTable + histogramColumns + `
settings(name text) value text -- current settings
sstable_tasks(keyspace_name text | table_name text; task_id uuid) kind text; progress bigint; total bigint;
	unit text -- current sstable tasks
system_properties(name text) value text -- Cassandra relevant system properties
thread_pools(name text) active_tasks int; active_tasks_limit int; blocked_tasks bigint;
	blocked_tasks_all_time bigint; completed_tasks bigint; pending_tasks int
tombstones_per_read` + perTable + histogramColumns + `
`

const virtualSchemaTables = `
columns(keyspace_name text | table_name text; column_name text) clustering_order text; column_name_bytes blob;
	kind text; position int; type text -- virtual column definitions
keyspaces(keyspace_name text) -- virtual keyspace definitions
tables(keyspace_name text | table_name text) comment text -- virtual table definitions
`

// ilionTables declares the tables of keyspace ilion.
const ilionTables = `
advice(keyspace_name text | table_name text; number int) kind text; level text; headline text;
	evidence frozen<list<text>>; proposal text; ddl text; instead frozen<list<text>>; effect frozen<list<text>>;
	basis text -- what is wrong with designs of tables
hot_keys(keyspace_name text | table_name text; partition_id bigint; place int) key text; token bigint;
	ru_per_second double; share double; minute_units double; too_high_by double; noise double
	-- logical partitions that take most request units, of each physical one
large_keys(keyspace_name text | table_name text; partition_id bigint; place int) key text; token bigint; bytes bigint;
	estimated boolean -- the largest logical partitions of each physical one
partition_usage(keyspace_name text | table_name text; partition_id bigint) request_units double; requests bigint;
	bytes_read bigint; bytes_written bigint; throttled bigint; point_reads bigint; slices bigint; scans bigint;
	writes bigint; conditions bigint; updates bigint; ru_per_second double; requests_per_second double;
	bytes_per_second double; throttled_per_second double; throughput bigint; utilisation double; hot_since timestamp;
	hottest_key text; hottest_key_share double -- what is spent at each physical partition, in the whole cluster
usage_history(keyspace_name text | table_name text; partition_id bigint; minute timestamp) request_units double;
	requests bigint; bytes bigint; throttled bigint; peak_ru_per_second double; given bigint; utilisation double;
	top_key text; top_key_units double -- what was spent at each physical partition, by minute, in the last hour
user_usage(user text) request_units double; requests bigint; throttled bigint; ru_per_second double;
	requests_per_second double; throttled_per_second double -- what users ask, of the whole cluster
partition_changes(keyspace_name text | table_name text; partition_id bigint; number int) kind text; other_id bigint;
	from_node uuid; to_node uuid; cause text; began_at timestamp -- splits, merges and moves that are under way
partition_history(keyspace_name text | number bigint) table_name text; kind text; partition_id bigint; other_id bigint;
	from_node uuid; to_node uuid; cause text; outcome text; began_at timestamp; ended_at timestamp; took_ms bigint;
	disk_bytes bigint; pause_us bigint -- splits, merges and moves that have ended
index_builds(keyspace_name text | table_name text; index_name text) percent int; rows bigint -- indexes that are not
	complete, and how far they are built
physical_partitions(keyspace_name text | table_name text; begin_token bigint; partition_id bigint) end_token bigint;
	epoch bigint; parent_id bigint; changed_at timestamp; leader uuid; replicas map<uuid, text>; disk_bytes bigint;
	logical_partitions bigint; reads bigint; writes bigint -- physical partitions; sizes are those of this node
ring(node uuid | token bigint) address text; state text; region text; zone text; node_share double; replicas int;
	leading int; disk_bytes bigint -- the tokens that drivers see, beside what their nodes really hold
sessions(node uuid | id text) address text; state text; user text; driver_name text; driver_version text;
	protocol_version int; keyspace_name text; tls boolean; requests_under_way int; requests bigint; since timestamp;
	statement text; statement_ms double -- connections of clients of all nodes, those that have most to do
slow_queries(node uuid | at timestamp; number int) statement text; keyspace_name text; table_name text; user text;
	client text; ms double; consistency text; rows int; more_pages boolean; request_units double; outcome text
	-- requests that took longer than slow_query_log_timeout, the newest of all nodes
slow_statements(keyspace_name text | table_name text; statement text) count bigint; min_ms double; mean_ms double;
	max_ms double; last timestamp -- the same by statement
tables(keyspace_name text | table_name text) physical_partitions int; logical_partitions bigint; rows bigint;
	exact boolean; logical_bytes bigint; disk_bytes bigint; tombstones bigint; tombstones_or_more boolean;
	sweep_lag_seconds bigint; ru_per_second double; requests_per_second double; throttled_per_second double;
	request_units double; read_count bigint; read_p50_ms double; read_p99_ms double; scan_count bigint;
	scan_p50_ms double; scan_p99_ms double; write_count bigint; write_p50_ms double; write_p99_ms double
	-- tables, in the whole cluster; rows and logical_bytes are estimates
views(keyspace_name text | view_name text) base_table_name text; built boolean; due bigint; oldest timestamp
	-- materialized views; due is what they have yet to follow of the partitions that this node leads, since oldest
`

func strategy(class string, options ...string) map[string]string {
	m := map[string]string{"class": "org.apache.cassandra.locator." + class}
	if len(options) > 0 {
		m["replication_factor"] = options[0]
	}
	return m
}

// systemKeyspaces holds the system keyspaces of Cassandra 4.0. systemKeyspaces50 holds the system keyspaces of
// Cassandra 5.0. Both lists are immutable.
var systemKeyspaces, systemKeyspaces50 = declareAll(declarations), declareAll(with50(declarations))

var declarations = []declaration{
	{"system", strategy("LocalStrategy"), systemTables},
	{"system_schema", strategy("LocalStrategy"), schemaTables},
	{"system_auth", strategy("SimpleStrategy", "1"), authTables},
	{"system_distributed", strategy("SimpleStrategy", "3"), distributedTables},
	{"system_traces", strategy("SimpleStrategy", "2"), traceTables},
	{"system_views", nil, viewsTables},
	{"system_virtual_schema", nil, virtualSchemaTables},
	{schema.OwnKeyspace, nil, ilionTables},
}

// with50 returns the declarations of Cassandra 5.0. It replaces tables that have changed and adds new tables.
func with50(declarations []declaration) []declaration {
	later := map[string]string{"system": systemTables50, "system_schema": schemaTables50,
		"system_distributed": distributedTables50, "system_views": viewsTables50}
	out := slices.Clone(declarations)
	for i := range out {
		lines := map[string]string{}
		for _, line := range append(linesOf(out[i].tables), linesOf(later[out[i].keyspace])...) {
			name, _, _ := strings.Cut(line, "(")
			lines[name] = line
		}
		var tables []string
		for _, name := range slices.Sorted(maps.Keys(lines)) {
			tables = append(tables, lines[name])
		}
		out[i].tables = strings.Join(tables, "\n")
	}
	return out
}

// linesOf splits a declaration into lines and joins continuation lines.
func linesOf(tables string) []string {
	tables = strings.TrimSpace(strings.ReplaceAll(tables, "\n\t", " "))
	if tables == "" {
		return nil
	}
	return strings.Split(tables, "\n")
}

func declareAll(declarations []declaration) []*schema.Keyspace {
	var keyspaces []*schema.Keyspace
	id := uint32(firstComputedID)
	for _, d := range declarations {
		ks := &schema.Keyspace{
			Name: d.keyspace, Replication: d.replication, DurableWrites: true, Virtual: d.keyspace != "system_traces",
			Tables: map[string]*schema.Table{},
		}
		for _, line := range linesOf(d.tables) {
			t := declare(d.keyspace, line)
			t.Virtual, t.ID = ks.Virtual, id
			id++
			ks.Tables[t.Name] = t
		}
		keyspaces = append(keyspaces, ks)
	}
	traces := keyspaces[4]
	traces.Tables["sessions"].ID = TraceSessionsID
	traces.Tables["events"].ID = TraceEventsID
	batches := keyspaces[0].Tables["batches"]
	batches.ID, batches.Virtual, batches.Options.GCGrace = BatchesID, false, batchesGCGrace
	return keyspaces
}

// batchesGCGrace is the retention of the tombstones of batch records in seconds. The retention exceeds the time during
// which a node may try to write a record. If a deleted record reappeared, the batch would be applied again and could
// restore deleted data.
const batchesGCGrace = 3600

// declare parses one line of a declaration. All lines are constants, so tests detect invalid lines.
func declare(keyspace, line string) *schema.Table {
	line, comment, _ := strings.Cut(line, " -- ")
	name, rest, _ := strings.Cut(line, "(")
	key, columns, _ := strings.Cut(rest, ")")
	partition, clustering, _ := strings.Cut(key, "|")

	t := &schema.Table{
		Keyspace: keyspace, Name: name, UUID: nameUUID(keyspace + name), NextColumn: 1,
		ByName:  map[string]*schema.Column{},
		Indexes: map[string]*schema.Index{}, Options: schema.DefaultTableOptions(),
	}
	t.Options.Comment = comment
	t.Options.GCGrace, t.Options.MemtableFlushPeriod = graceOf(keyspace)
	t.PartitionKey = declareColumns(t, partition, schema.PartitionKey)
	t.Clustering = declareColumns(t, clustering, schema.Clustering)
	t.Regulars = declareColumns(t, columns, schema.Regular)
	return t
}

// graceOf returns Cassandra's gc_grace_seconds and memtable_flush_period_in_ms for the tables of a keyspace.
func graceOf(keyspace string) (seconds, flush int32) {
	const hour, day = 3600, 86400
	switch keyspace {
	case "system":
		return 0, hour * 1000
	case "system_schema":
		return 7 * day, hour * 1000
	case "system_auth":
		return 90 * day, 0
	case "system_traces":
		return 0, 0
	}
	return 10 * day, 0
}

func declareColumns(t *schema.Table, text string, kind schema.ColumnKind) []*schema.Column {
	var columns []*schema.Column
	for _, part := range strings.Split(text, ";") {
		name, typeText, ok := strings.Cut(strings.TrimSpace(part), " ")
		if !ok {
			continue
		}
		spec, err := schema.ParseType(typeText)
		if err != nil {
			panic("catalog: " + t.Name + ": " + err.Error())
		}
		typ, err := spec.Bind(t.Keyspace, nil)
		if err != nil {
			panic("catalog: " + t.Name + ": " + err.Error())
		}
		col := &schema.Column{Name: name, Type: typ, Kind: kind, Position: -1}
		if kind.IsKey() {
			col.Position = len(columns)
		}
		columns = append(columns, col)
		t.ByName[name] = col
	}
	if !kind.IsKey() {
		slices.SortFunc(columns, func(a, b *schema.Column) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, col := range columns {
		col.ID = t.NextColumn
		t.NextColumn++
	}
	return columns
}

// WithSystem adds the missing system keyspaces of Cassandra 4.0 to a schema.
func WithSystem(s *schema.Schema) *schema.Schema { return WithSystemOf(compat.Cassandra40, s) }

// WithSystemOf adds the missing system keyspaces of a release to a schema. If the schema already contains a system
// keyspace, WithSystemOf keeps the replication of the keyspace, because clients can alter the replication of some
// system keyspaces.
func WithSystemOf(r *compat.Release, s *schema.Schema) *schema.Schema {
	keyspaces := systemKeyspaces
	if r.Tables50 {
		keyspaces = systemKeyspaces50
	}
	var missing []*schema.Keyspace
	for _, ks := range keyspaces {
		have := s.Keyspace(ks.Name)
		if have == nil {
			missing = append(missing, ks)
		} else if have.Tables == nil {
			merged := *ks
			merged.Replication, merged.DurableWrites, merged.Options = maps.Clone(have.Replication), have.DurableWrites,
				have.Options
			missing = append(missing, &merged)
		}
	}
	if len(missing) == 0 {
		return s
	}
	return s.With(missing...)
}

// nameUUID returns the version 3 UUID of a name. Cassandra uses such UUIDs for system tables.
func nameUUID(name string) schema.UUID {
	u := schema.UUID(md5.Sum([]byte(name)))
	u[6] = u[6]&0x0f | 0x30
	u[8] = u[8]&0x3f | 0x80
	return u
}
