// SPDX-License-Identifier: Apache-2.0

// Package options holds the settings of a node. It defines their types, the configuration file, the defaults, and the
// rules for valid values. Start reading at Options, and continue with Load and Validate.
package options

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/server/audit"
)

// Options holds all settings of a node. It contains the fields of the configuration file. The command line can set the
// most important ones. If a field is zero, its default applies. Sizes are in bytes, and durations are Go durations.
type Options struct {
	// Data is the data directory. If it is empty, the data is kept in memory.
	Data string `yaml:"data"`
	// CQL is the address of the CQL listener in the form host:port. Port 0 selects a free port.
	CQL string `yaml:"cql"`
	// CosmosCQL is the address, host:port, for clients of Azure Cosmos DB's Cassandra API. These clients authenticate
	// with a key in REST. If CosmosCQL is empty or "off", the listener is disabled.
	CosmosCQL string `yaml:"cosmos_cql"`
	// HTTP is the address, host:port, for health checks and metrics. The value "off" disables the listener.
	HTTP string `yaml:"http"`
	// Compatibility is the emulated Cassandra release, which is 4.0 or 5.0 (default). All nodes must have the same
	// value.
	Compatibility string `yaml:"compatibility"`
	// Masking enables data masking. A nil value means true. All nodes must have the same value.
	Masking *bool `yaml:"dynamic_data_masking_enabled"`
	// DropCompactStorage permits DROP COMPACT STORAGE. The option has Cassandra's name. If it is nil, the default of
	// the emulated release applies, which is true for 4.0 and false for 5.0.
	DropCompactStorage *bool `yaml:"drop_compact_storage_enabled"`
	// Commit is batch or periodic. With batch, acknowledged writes are on disk. With periodic, which only standalone
	// nodes support, they are on disk within 10 ms.
	Commit string `yaml:"commit"`
	// ClusterName is the name that clients see. Clients see Region as the data center and Zone as the rack of the node.
	ClusterName string `yaml:"cluster_name"`
	Region      string `yaml:"region"`
	Zone        string `yaml:"zone"`
	// Insecure permits non-loopback listeners without authentication.
	Insecure bool `yaml:"insecure"`
	// InitialPartitions is the number of physical partitions of a new table, from 1 to 1024.
	InitialPartitions int `yaml:"initial_partitions"`

	Memory  Memory  `yaml:"memory"`
	Limits  Limits  `yaml:"limits"`
	Storage Storage `yaml:"storage"`
	Splits  Splits  `yaml:"splits"`
	Merges  Merges  `yaml:"merges"`
	// UserFunctions enables user-defined functions. The option has Cassandra's name.
	UserFunctions bool `yaml:"user_defined_functions_enabled"`
	// Guardrails limits statements. The options have Cassandra's names.
	Guardrails guardrail.Options `yaml:"guardrails"`
	Auth       Auth              `yaml:"auth"`
	TLS        TLS               `yaml:"tls"`
	// SlowQueryLogTimeout is the minimum duration of logged slow requests. The option has Cassandra's name. The value
	// nil selects 500 ms, and the value 0 disables the log.
	SlowQueryLogTimeout *time.Duration `yaml:"slow_query_log_timeout"`
	// Audit configures the audit log. The options have Cassandra's names.
	Audit   audit.Options `yaml:"audit_logging_options"`
	Cluster Cluster       `yaml:"cluster"`
	// REST configures the REST API of containers. The zero value disables it.
	REST REST `yaml:"rest"`

	// File is the path of the configuration file, or empty. The node logs the path.
	File string `yaml:"-"`
	// Deprecations holds warnings about options in the file that were set by a former name. The node logs them.
	Deprecations []string `yaml:"-"`
	// Log receives the log messages. If Log is nil, they are discarded.
	Log *slog.Logger `yaml:"-"`

	// Testing replaces parts of a node in tests.
	Testing Testing `yaml:"-"`
}

// Testing replaces parts of a node in tests. Fields that are zero have no effect.
type Testing struct {
	// NewestLevel is the newest feature level that the version supports.
	NewestLevel feature.Level
	// DiskUsage returns the usage of the disk that contains a directory.
	DiskUsage func(dir string) (vfs.DiskUsage, error)
	// Clock is used for timestamps, usage records, and the expiration times of items. If the clock stands still, no
	// minute ends and no data expires during a test.
	Clock sched.Clock
	// TransactionTime is the maximum run time of the program of a transaction. The default is 1 s.
	TransactionTime time.Duration
	// SchemaTimeout is the timeout of a change of the schema or the roles. The default is 10 s.
	SchemaTimeout time.Duration
	// ElectionTicks is the minimum silence of a leader, in units of 50 ms, before other nodes campaign. The default is
	// 20.
	ElectionTicks int
	// VectorListsRows is the minimum number of rows at which a table's vector index has lists. The default is 2,500.
	// VectorListsPause is the interval between two checks of this number. The default is 20 s.
	VectorListsRows  int64
	VectorListsPause time.Duration
}

// Memory divides the memory of the process.
type Memory struct {
	// Budget is the total memory of the process. The value 0 selects half of the memory of the machine or container.
	Budget Bytes `yaml:"budget"`
	// BlockCache and Memtable are parts of the budget. The value 0 selects 40 % for BlockCache and 1/128, up to 64
	// MiB, for Memtable. Up to four memtables exist at the same time. Reads of recent rows become slower as memtables
	// become larger.
	BlockCache Bytes `yaml:"block_cache"`
	Memtable   Bytes `yaml:"memtable"`
	// ChangeBuffer is the memory for recent changes while an archive is running. The value 0 selects 1/32 of the
	// budget. The minimum is 4 MiB.
	ChangeBuffer Bytes `yaml:"change_buffer"`
}

// Limits limits the resources that clients can use.
type Limits struct {
	Connections        int           `yaml:"connections"`
	AddressConnections int           `yaml:"connections_per_address"`
	IdleTimeout        time.Duration `yaml:"idle_timeout"`
	// QueueDelayTarget is the average queue delay above which requests are rejected. A negative value disables the
	// check.
	QueueDelayTarget time.Duration `yaml:"queue_delay_target"`
	// ThrottleTimeout is the maximum time that a request waits for throughput before it is rejected. The value 0
	// rejects the request immediately.
	ThrottleTimeout time.Duration `yaml:"throttle_timeout"`
	// Lending lets partitions lend unused throughput to busy partitions that share it.
	Lending               bool          `yaml:"throughput_lending"`
	FrameBytes            Bytes         `yaml:"frame_bytes"`
	RequestsPerConnection int           `yaml:"requests_per_connection"`
	Requests              int           `yaml:"requests"`
	RequestBytes          Bytes         `yaml:"request_bytes"`
	ResultBytes           Bytes         `yaml:"result_bytes"`
	BatchBytes            Bytes         `yaml:"batch_bytes"`
	MutationBytes         Bytes         `yaml:"mutation_bytes"`
	RowBytes              Bytes         `yaml:"row_bytes"`
	LogicalPartitionBytes Bytes         `yaml:"logical_partition_bytes"`
	PreparedStatements    int           `yaml:"prepared_statements"`
	ReadTimeout           time.Duration `yaml:"read_timeout"`
	ScanTimeout           time.Duration `yaml:"scan_timeout"`
	WriteTimeout          time.Duration `yaml:"write_timeout"`
}

// Storage configures the store.
type Storage struct {
	// MinFreeDisk is the percentage of free disk space below which writes are rejected. The value -1 disables the
	// check.
	MinFreeDisk int `yaml:"min_free_disk_percent"`
	// SweepKeys is the maximum number of keys per second that are examined to remove deleted and expired data.
	SweepKeys int `yaml:"sweep_keys_per_second"`
	// Encryption configures the encryption of the data directory. The zero value disables it.
	Encryption Encryption `yaml:"encryption"`
}

// Encryption configures the encryption of the data directory. It is enabled if KeyFile or KeyCommand is set.
type Encryption struct {
	// KeyFile contains the store key. KeyCommand is a program, with arguments, that prints the key.
	KeyFile    string `yaml:"key_file"`
	KeyCommand string `yaml:"key_command"`
	// OldKeyFile and OldKeyCommand provide the previous store key if the key was changed while the node was stopped.
	OldKeyFile    string `yaml:"old_key_file"`
	OldKeyCommand string `yaml:"old_key_command"`
	// Rotation is the age at which a data key is replaced; the default is 7 days.
	Rotation time.Duration `yaml:"rotation"`
	// DataKeyBits is the size of the AES keys that encrypt the contents of files: 128 (default) or 256.
	DataKeyBits int `yaml:"data_key_bits"`
	// Decrypt switches encryption off: new files are not encrypted. The key is still required to read older files.
	Decrypt bool `yaml:"decrypt"`
}

// Key returns the source of the store key.
func (e *Encryption) Key() encryption.KeySource {
	return encryption.KeySource{File: e.KeyFile, Command: e.KeyCommand}
}

// OldKey returns the source of the previous store key.
func (e *Encryption) OldKey() encryption.KeySource {
	return encryption.KeySource{File: e.OldKeyFile, Command: e.OldKeyCommand}
}

// Auth configures password authentication and permissions. They are enabled if users are configured or Roles is true.
type Auth struct {
	// Users maps names to bcrypt hashes in the format of `ilion hash-password`. Users are superusers.
	Users map[string]string `yaml:"users"`
	// Roles requires authentication even without configured users. Clients then log in with a role that was created
	// with CREATE ROLE.
	Roles bool `yaml:"roles"`
	// Certificates maps client certificates to roles (ADD IDENTITY). With "optional", clients whose certificate has no
	// role must send a password. With "required", such clients are rejected. An empty value disables the mapping.
	Certificates string `yaml:"certificates"`
	// EndChangedLogins closes the connections of a role when its password or LOGIN changes. Connections of dropped
	// roles are always closed.
	EndChangedLogins bool `yaml:"end_sessions_on_credential_change"`
	// AnonymousEndpoints lists the HTTP endpoints that require no login. The endpoints are metrics, status, and
	// history.
	AnonymousEndpoints []string `yaml:"anonymous_endpoints"`
}

// TLS configures TLS for CQL and HTTP. TLS is enabled if a certificate is configured.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ClientCA, if set, requires client certificates that the given authority has signed.
	ClientCA string `yaml:"client_ca"`
}

// Cluster configures a cluster node. A node is standalone if Internal is empty.
type Cluster struct {
	// Internal is the address, host:port, on which the node listens for other nodes. Advertise is the address that
	// other nodes use. The default is Internal.
	Internal  string `yaml:"internal"`
	Advertise string `yaml:"advertise"`
	// Bootstrap creates a cluster. The cluster keeps existing data in the directory. On a member of a cluster, the
	// option has no effect. If Join is also set, all nodes can use the same options. The first node in the list
	// creates the cluster unless another node responds as a member.
	Bootstrap bool `yaml:"bootstrap"`
	// Join lists internal addresses of cluster nodes. At least one of these nodes must respond.
	Join []string `yaml:"join"`
	// JoinSecretFile is the file with the secret with which nodes without TLS authenticate. The default is join-secret
	// in the data directory. The node that bootstraps the cluster creates this file. If JoinSecretFile is set together
	// with TLS, both are required.
	JoinSecretFile string `yaml:"join_secret_file"`
	// RebuildDelay is the time after which the replicas of an unreachable node are rebuilt on other nodes. The value 0
	// selects 5 minutes.
	RebuildDelay time.Duration `yaml:"rebuild_delay"`
	// Capacity is the disk capacity of this node for placement. The value 0 selects the free disk space plus the data.
	Capacity Bytes `yaml:"capacity"`
	// BalanceThreshold is the amount of data by which a node may exceed its share before it moves replicas to other
	// nodes. A tenth of the share is added to this amount. The value 0 selects 256 MiB. The node that leads the
	// metadata determines the value that applies.
	BalanceThreshold Bytes `yaml:"balance_threshold"`
	// SnapshotRate is the rate, in bytes per second, at which this node sends replicas to other nodes. The value 0
	// selects 64 MB.
	SnapshotRate Bytes `yaml:"snapshot_rate"`
	// ClockSkew is the clock difference between nodes above which a problem is reported. The default is 500 ms.
	ClockSkew time.Duration `yaml:"clock_skew"`
	// TLS configures the mutual authentication of nodes.
	TLS NodeTLS `yaml:"tls"`
}

// NodeTLS names the files that `ilion cert` creates. Either all files or no files must be set.
type NodeTLS struct {
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Required reports whether clients must authenticate.
func (a *Auth) Required() bool { return len(a.Users) > 0 || a.Roles }

// CosmosOff reports whether the listener for clients of Azure Cosmos DB's Cassandra API is disabled.
func (o *Options) CosmosOff() bool { return o.CosmosCQL == "" || o.CosmosCQL == "off" }

// MaskingOff reports whether data masking is disabled.
func (o *Options) MaskingOff() bool { return o.Masking != nil && !*o.Masking }

// DropsCompact reports whether DROP COMPACT STORAGE is permitted with a given release.
func (o *Options) DropsCompact(r *compat.Release) bool {
	if o.DropCompactStorage != nil {
		return *o.DropCompactStorage
	}
	return !r.FixedCompact
}
