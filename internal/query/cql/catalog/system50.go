// SPDX-License-Identifier: Apache-2.0

package catalog

// The declarations in this file are the tables of Cassandra 5.0 that are new or have changed since 4.0. Each table
// replaces the 4.0 table with the same name. For all releases, system.batches is Ilion's own table.

const ofTable = `(keyspace_name text; table_name text) `

const systemTables50 = `
compaction_history(id timeuuid) bytes_in bigint; bytes_out bigint; columnfamily_name text; compacted_at
	timestamp; compaction_properties frozen<map<text, text>>; keyspace_name text; rows_merged map<int, bigint> --
	week-long compaction history
paxos(row_key blob | cf_id uuid) in_progress_ballot timeuuid; in_progress_read_ballot timeuuid;
	most_recent_commit blob; most_recent_commit_at timeuuid; most_recent_commit_version int; proposal blob;
	proposal_ballot timeuuid; proposal_version int -- in-progress paxos proposals
paxos_repair_history(keyspace_name text | table_name text) points frozen<list<frozen<tuple<blob, timeuuid>>>> --
	paxos repair history
peer_events(peer inet) hints_dropped map<timeuuid, int> -- events related to peers
peer_events_v2(peer inet | peer_port int) hints_dropped map<timeuuid, int> -- events related to peers
sstable_activity_v2(keyspace_name text; table_name text; id text) rate_120m double; rate_15m double -- historic
	sstable read rates
top_partitions(keyspace_name text | table_name text; top_type text) last_update timestamp; top
	frozen<list<frozen<tuple<text, bigint>>>> -- Stores the top partitions
`

// snapshotColumns declares additional columns of tables and views in Cassandra 5.0.
const snapshotColumns = `; allow_auto_snapshot boolean; incremental_backups boolean; memtable text`

const schemaTables50 = `
column_masks(keyspace_name text | table_name text; column_name text) function_argument_nulls
	frozen<list<boolean>>; function_argument_types frozen<list<text>>; function_argument_values frozen<list<text>>;
	function_keyspace text; function_name text -- column dynamic data masks
tables(keyspace_name text | table_name text) ` + optionColumns + snapshotColumns + `; flags frozen<set<text>>
	-- table definitions
views(keyspace_name text | view_name text) base_table_id uuid; base_table_name text; include_all_columns boolean;
	where_clause text; ` + optionColumns + snapshotColumns + ` -- view definitions
`

const distributedTables50 = `
partition_denylist(ks_name text; table_name text | key blob) -- Partition keys which have been denied access
`

const viewsTables50 = `
batch_metrics(name text) max bigint; p50th double; p999th double; p99th double -- Metrics specific to batch
	statements
cidr_filtering_metrics_counts(name text) value bigint -- Count metrics specific to CIDR filtering
cidr_filtering_metrics_latencies(name text) max double; p50th double; p95th double; p999th double; p99th double
	-- Latency metrics specific to CIDR filtering
clients(address inet | port int) client_options frozen<map<text, text>>; connection_stage text; driver_name
	text; driver_version text; hostname text; keyspace_name text; protocol_version int; request_count bigint;
	ssl_cipher_suite text; ssl_enabled boolean; ssl_protocol text; username text -- currently connected clients
coordinator_read_latency` + ofTable + latencyColumns + `
coordinator_scan_latency` + ofTable + latencyColumns + `
coordinator_write_latency` + ofTable + latencyColumns + `
cql_metrics(name text) value double -- Metrics specific to CQL prepared statement caching
credentials_cache_keys(role text) -- keys in the credentials cache
disk_usage` + ofTable + `mebibytes bigint
gossip_info(address inet | port int) dc text; dc_version int; disk_usage text; disk_usage_version int;
	generation int; heartbeat int; host_id text; host_id_version int; hostname text; index_status text;
	index_status_version int; internal_address_and_port text; internal_address_and_port_version int; internal_ip
	text; internal_ip_version int; load text; load_version int; native_address_and_port text;
	native_address_and_port_version int; net_version text; net_version_version int; rack text; rack_version int;
	release_version text; release_version_version int; removal_coordinator text; removal_coordinator_version int;
	rpc_address text; rpc_address_version int; rpc_ready text; rpc_ready_version int; schema text; schema_version
	int; severity text; severity_version int; sstable_versions text; sstable_versions_version int; status text;
	status_version int; status_with_port text; status_with_port_version int; tokens_version int; x1 text; x10 text;
	x10_version int; x1_version int; x2 text; x2_version int; x3 text; x3_version int; x4 text; x4_version int; x5
	text; x5_version int; x6 text; x6_version int; x7 text; x7_version int; x8 text; x8_version int; x9 text;
	x9_version int; x_11_padding text; x_11_padding_version int -- lists the gossip information for the cluster
jmx_permissions_cache_keys(role text) -- keys in the JMX permissions cache
local_read_latency` + ofTable + latencyColumns + `
local_scan_latency` + ofTable + latencyColumns + `
local_write_latency` + ofTable + latencyColumns + `
max_partition_size` + ofTable + `mebibytes bigint
max_sstable_duration` + ofTable + `max_sstable_duration bigint
max_sstable_size` + ofTable + `mebibytes bigint
network_permissions_cache_keys(role text) -- keys in the network permissions cache
pending_hints(host_id uuid) address inet; dc text; files int; newest timestamp; oldest timestamp; port int; rack
	text; status text -- Pending hints that this node has for other nodes
permissions_cache_keys(role text; resource text) -- keys in the permissions cache
queries(thread_id text) queued_micros bigint; running_micros bigint; task text -- Lists currently running
	queries
repair_jobs(id uuid) completed boolean; duration_millis bigint; failure_cause text; keyspace_name text;
	last_updated_at timestamp; participants frozen<list<text>>; ranges frozen<list<text>>; repair_id timeuuid;
	session_id timeuuid; state_failure_timestamp timestamp; state_init_timestamp timestamp; state_skipped_timestamp
	timestamp; state_snapshot_complete_timestamp timestamp; state_snapshot_start_timestamp timestamp;
	state_start_timestamp timestamp; state_stream_start_timestamp timestamp; state_success_timestamp timestamp;
	state_validation_complete_timestamp timestamp; state_validation_start_timestamp timestamp; status text;
	success_message text; table_name text -- Repair job
repair_participates(id timeuuid) completed boolean; duration_millis bigint; failure_cause text; global boolean;
	incremental boolean; initiator text; last_updated_at timestamp; preview_kind text; ranges frozen<list<text>>;
	repaired_at timestamp; state_failure_timestamp timestamp; state_init_timestamp timestamp;
	state_skipped_timestamp timestamp; state_success_timestamp timestamp; success_message text; tables
	frozen<set<text>>; validations frozen<set<uuid>> -- Repair participate summary
repair_sessions(id timeuuid) completed boolean; duration_millis bigint; failure_cause text; jobs
	frozen<set<uuid>>; keyspace_name text; last_updated_at timestamp; participants frozen<list<text>>; ranges
	frozen<list<text>>; repair_id timeuuid; state_failure_timestamp timestamp; state_init_timestamp timestamp;
	state_jobs_start_timestamp timestamp; state_skipped_timestamp timestamp; state_start_timestamp timestamp;
	state_success_timestamp timestamp; status text; success_message text; table_names frozen<list<text>> -- Repair
	session
repair_validations(id uuid) bytes_read bigint; completed boolean; duration_millis bigint; estimated_partitions
	bigint; estimated_total_bytes bigint; failure_cause text; initiator text; keyspace_name text; last_updated_at
	timestamp; partitions_processed bigint; progress_percentage float; ranges frozen<list<text>>; repair_id
	timeuuid; session_id timeuuid; state_accept_timestamp timestamp; state_failure_timestamp timestamp;
	state_init_timestamp timestamp; state_sending_trees_timestamp timestamp; state_skipped_timestamp timestamp;
	state_start_timestamp timestamp; state_success_timestamp timestamp; status text; success_message text;
	table_name text -- Repair validation
repairs(id timeuuid) command_id int; completed boolean; duration_millis bigint; failure_cause text;
	keyspace_name text; last_updated_at timestamp; options_column_families frozen<set<text>>; options_data_centers
	frozen<set<text>>; options_force_repair boolean; options_hosts frozen<set<text>>;
	options_ignore_unreplicated_keyspaces boolean; options_incremental boolean; options_job_threads int;
	options_optimise_streams boolean; options_parallelism text; options_preview_kind text; options_primary_range
	boolean; options_pull_repair boolean; options_ranges frozen<set<text>>; options_subrange_repair boolean;
	options_trace boolean; participants frozen<list<text>>; ranges frozen<list<frozen<list<text>>>>; sessions
	frozen<set<timeuuid>>; state_failure_timestamp timestamp; state_init_timestamp timestamp;
	state_prepare_complete_timestamp timestamp; state_prepare_start_timestamp timestamp;
	state_repair_complete_timestamp timestamp; state_repair_start_timestamp timestamp; state_setup_timestamp
	timestamp; state_skipped_timestamp timestamp; state_start_timestamp timestamp; state_success_timestamp
	timestamp; status text; success_message text; table_names frozen<list<text>>; type text; unfiltered_ranges
	frozen<list<frozen<list<text>>>> -- Repair summary
roles_cache_keys(role text) -- keys in the roles cache
rows_per_read` + ofTable + histogramColumns + `
sai_column_indexes(keyspace_name text | index_name text) analyzer text; column_name text; is_building boolean;
	is_queryable boolean; is_string boolean; table_name text -- Storage-attached column index metadata
sai_sstable_index_segments(keyspace_name text | index_name text; sstable_name text; segment_row_id_offset
	bigint) cell_count bigint; column_name text; component_metadata frozen<map<text, frozen<map<text, text>>>>;
	end_token text; max_sstable_row_id bigint; max_term text; min_sstable_row_id bigint; min_term text; start_token
	text; table_name text -- SSTable index segment metadata
sai_sstable_indexes(keyspace_name text | index_name text; sstable_name text) cell_count bigint; column_name
	text; end_token text; format_version text; max_row_id bigint; min_row_id bigint; per_column_disk_size bigint;
	per_table_disk_size bigint; start_token text; table_name text -- SSTable index metadata
snapshots(name text | keyspace_name text; table_name text) created_at timestamp; ephemeral boolean; expires_at
	timestamp; size_on_disk bigint; true_size bigint -- available snapshots
sstable_tasks(keyspace_name text | table_name text; task_id timeuuid) completion_ratio double; kind text;
	progress bigint; sstables int; target_directory text; total bigint; unit text -- current sstable tasks
streaming(id timeuuid) bytes_received bigint; bytes_sent bigint; bytes_to_receive bigint; bytes_to_send bigint;
	duration_millis bigint; failure_cause text; files_received bigint; files_sent bigint; files_to_receive bigint;
	files_to_send bigint; follower boolean; last_updated_at timestamp; operation text; peers frozen<list<text>>;
	progress_percentage float; status text; status_failure_timestamp timestamp; status_init_timestamp timestamp;
	status_start_timestamp timestamp; status_success_timestamp timestamp; success_message text
system_logs(timestamp timestamp | order_in_millisecond int) level text; logger text; message text -- Cassandra
	logs
tombstones_per_read` + ofTable + histogramColumns + `
`
