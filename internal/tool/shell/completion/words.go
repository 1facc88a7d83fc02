// SPDX-License-Identifier: Apache-2.0

package completion

import "strings"

// starts contains the first words of statements.
var starts = strings.Fields(`SELECT INSERT UPDATE DELETE BEGIN APPLY COMMIT LET CREATE ALTER DROP TRUNCATE USE DESCRIBE
	EXPLAIN GRANT REVOKE LIST CALL`)

// follows maps a word to the words that can follow it. If columns or functions can also follow the word, operandAfter
// contains it.
var follows = map[string][]string{
	"CREATE": strings.Fields(`KEYSPACE TABLE INDEX TYPE FUNCTION AGGREGATE ROLE USER MATERIALIZED CUSTOM OR`),
	"ALTER":  strings.Fields(`KEYSPACE TABLE TYPE ROLE USER MATERIALIZED`),
	"DROP":   strings.Fields(`KEYSPACE TABLE INDEX TYPE FUNCTION AGGREGATE ROLE USER MATERIALIZED`),
	"DESCRIBE": strings.Fields(`KEYSPACES TABLES TYPES FUNCTIONS AGGREGATES CLUSTER SCHEMA FULL KEYSPACE TABLE TYPE INDEX
		FUNCTION AGGREGATE MATERIALIZED`),
	"BEGIN":        strings.Fields(`BATCH UNLOGGED COUNTER TRANSACTION`),
	"UNLOGGED":     {"BATCH"},
	"COUNTER":      {"BATCH"},
	"APPLY":        {"BATCH"},
	"COMMIT":       {"TRANSACTION"},
	"INSERT":       {"INTO"},
	"DELETE":       {"FROM"},
	"TRUNCATE":     {"TABLE"},
	"MATERIALIZED": {"VIEW"},
	"CUSTOM":       {"INDEX"},
	"FULL":         {"SCHEMA"},
	"OR":           {"REPLACE"},
	"REPLACE":      strings.Fields(`FUNCTION AGGREGATE`),
	"ORDER":        {"BY"},
	"GROUP":        {"BY"},
	"PER":          {"PARTITION"},
	"PARTITION":    {"LIMIT"},
	"PRIMARY":      {"KEY"},
	"ALLOW":        {"FILTERING"},
	"CLUSTERING":   {"ORDER"},
	"IF":           strings.Fields(`NOT EXISTS`),
	"NOT":          strings.Fields(`EXISTS IN NULL CONTAINS`),
	"IS":           {"NOT"},
	"CONTAINS":     {"KEY"},
	"USING":        strings.Fields(`TTL TIMESTAMP`),
	"EXPLAIN":      strings.Fields(`SELECT INSERT UPDATE DELETE BEGIN`),
	"CONSISTENCY": strings.Fields(`ANY ONE TWO THREE QUORUM ALL LOCAL_QUORUM EACH_QUORUM LOCAL_ONE SERIAL
		LOCAL_SERIAL`),
	"SERIAL":  {"CONSISTENCY"},
	"EXPAND":  strings.Fields(`ON OFF`),
	"TRACING": strings.Fields(`ON OFF`),
	"PAGING":  strings.Fields(`ON OFF`),
	"SHOW":    strings.Fields(`VERSION HOST SESSION`),
	"LIST":    strings.Fields(`ALL ROLES USERS PERMISSIONS`),
	"WITH": strings.Fields(`replication = durable_writes clustering comment compaction compression default_time_to_live
		gc_grace_seconds caching cdc throughput PASSWORD LOGIN SUPERUSER OPTIONS`),
}

// clauses maps the first word of a statement to the words that can follow an operand.
var clauses = map[string][]string{
	"SELECT": strings.Fields(`FROM AS WHERE AND IN CONTAINS LIKE BETWEEN ORDER GROUP PER LIMIT ALLOW ASC DESC ANN OF`),
	"INSERT": strings.Fields(`VALUES JSON IF USING AND DEFAULT NULL UNSET`),
	"UPDATE": strings.Fields(`SET USING WHERE AND IF IN TTL TIMESTAMP`),
	"DELETE": strings.Fields(`FROM USING WHERE AND IF IN`),
	"CREATE": strings.Fields(`IF NOT EXISTS ON PRIMARY KEY STATIC WITH AND CLUSTERING ORDER BY USING AS SELECT WHERE
		RETURNS LANGUAGE CALLED NULL INPUT SFUNC STYPE FINALFUNC INITCOND`),
	"ALTER": strings.Fields(`ADD DROP RENAME TO ALTER WITH AND IF EXISTS`),
	"DROP":  strings.Fields(`IF EXISTS`),
	"GRANT": strings.Fields(`ALL SELECT MODIFY CREATE ALTER DROP AUTHORIZE DESCRIBE EXECUTE PERMISSION PERMISSIONS ON TO
		KEYSPACE KEYSPACES TABLE ROLE ROLES`),
	"REVOKE": strings.Fields(`ALL SELECT MODIFY CREATE ALTER DROP AUTHORIZE DESCRIBE EXECUTE PERMISSION PERMISSIONS ON
		FROM KEYSPACE KEYSPACES TABLE ROLE ROLES`),
	"LIST": strings.Fields(`OF ON NORECURSIVE`),
}

// operandAfter contains the tokens after which a column or function is expected in a statement about rows.
var operandAfter = strings.Fields(`SELECT DISTINCT WHERE AND BY SET IF DELETE , ( = < > + - IN`)

// tableAfter contains the words after which a table is expected. keyspaceAfter and typeAfter contain the words after
// which a keyspace or a type is expected.
var (
	tableAfter    = strings.Fields(`FROM INTO UPDATE TRUNCATE TABLE COLUMNFAMILY ON VIEW DESCRIBE DESC TABLES`)
	keyspaceAfter = strings.Fields(`USE KEYSPACE`)
	typeAfter     = []string{"TYPE"}
)

// These are the native types and functions.
var (
	natives = strings.Fields(`ascii bigint blob boolean counter date decimal double duration float frozen inet int list
		map set smallint text time timestamp timeuuid tinyint tuple uuid varchar varint vector`)
	functions = strings.Fields(`token count min max sum avg cast ttl writetime maxwritetime now uuid toJson fromJson
		to_json from_json to_date to_timestamp to_unix_timestamp current_date current_time current_timestamp
		current_timeuuid min_timeuuid max_timeuuid floor abs exp log log10 round map_keys map_values collection_count
		collection_min collection_max collection_sum collection_avg similarity_cosine similarity_euclidean
		similarity_dot_product mask_default mask_inner mask_outer mask_hash mask_null mask_replace`)
)
