// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/server/audit"
)

// Options holds all settings of a node: the fields of the configuration file. The command line can set the most
// important ones. The zero value of a field means its default. Sizes are in bytes, durations are Go durations.
type Options struct {
	// Data is the data directory. If it is empty, the data is kept in memory.
	Data string `yaml:"data"`
	// CQL is the address of the CQL listener, host:port. Port 0 selects a free port.
	CQL string `yaml:"cql"`
	// CosmosCQL is the address, host:port, for clients of Azure Cosmos DB's Cassandra API, which authenticate with a
	// key in RESTOptions. Empty or "off" disables it.
	CosmosCQL string `yaml:"cosmos_cql"`
	// HTTP is the address, host:port, of health checks and metrics. "off" disables it.
	HTTP string `yaml:"http"`
	// Compatibility is the Cassandra release to be compatible with: 4.0, or 5.0 (default). It must be the same on all
	// nodes.
	Compatibility string `yaml:"compatibility"`
	// Masking enables data masking. nil means true. It must be the same on all nodes.
	Masking *bool `yaml:"dynamic_data_masking_enabled"`
	// DropCompactStorage permits DROP COMPACT STORAGE; the option has Cassandra's name. nil means the default of the
	// compatible release: true with 4.0, false with 5.0.
	DropCompactStorage *bool `yaml:"drop_compact_storage_enabled"`
	// Commit is batch (acknowledged writes are on disk) or periodic (on disk within 10 ms; standalone nodes only).
	Commit string `yaml:"commit"`
	// ClusterName is the name that clients see. Clients see Region as the data center and Zone as the rack of the node.
	ClusterName string `yaml:"cluster_name"`
	Region      string `yaml:"region"`
	Zone        string `yaml:"zone"`
	// Insecure permits non-loopback listeners without authentication.
	Insecure bool `yaml:"insecure"`
	// InitialPartitions is the number of physical partitions of a new table, from 1 to 1024.
	InitialPartitions int `yaml:"initial_partitions"`

	Memory  MemoryOptions  `yaml:"memory"`
	Limits  LimitOptions   `yaml:"limits"`
	Storage StorageOptions `yaml:"storage"`
	Splits  SplitOptions   `yaml:"splits"`
	Merges  MergeOptions   `yaml:"merges"`
	// UserFunctions enables user-defined functions; the option has Cassandra's name.
	UserFunctions bool `yaml:"user_defined_functions_enabled"`
	// VectorListsRows is the number of rows from which a table's vector index has lists; the default is 2,500.
	// VectorListsPause is how often the number is checked; the default is 20 s.
	VectorListsRows  int64         `yaml:"-"`
	VectorListsPause time.Duration `yaml:"-"`
	// Guardrails limits statements; the options have Cassandra's names.
	Guardrails guardrail.Options `yaml:"guardrails"`
	Auth       AuthOptions       `yaml:"auth"`
	TLS        TLSOptions        `yaml:"tls"`
	// SlowQueryLogTimeout is the minimum duration of logged slow requests; the option has Cassandra's name. nil means
	// 500 ms, 0 disables the log.
	SlowQueryLogTimeout *time.Duration `yaml:"slow_query_log_timeout"`
	// Audit configures the audit log; the options have Cassandra's names.
	Audit   audit.Options  `yaml:"audit_logging_options"`
	Cluster ClusterOptions `yaml:"cluster"`
	// REST configures the REST API of containers. The zero value disables it.
	REST RESTOptions `yaml:"rest"`

	// File is the path of the configuration file, for the log, or empty.
	File string `yaml:"-"`
	// Deprecations are warnings about options of the file that were set by a former name. The node logs them.
	Deprecations []string `yaml:"-"`
	// Log receives the log messages. nil discards them.
	Log *slog.Logger `yaml:"-"`

	// newest overrides, in tests, the newest feature level that this version supports.
	newest feature.Level
	// usage overrides, in tests, the disk usage.
	usage func(dir string) (vfs.DiskUsage, error)
	// now overrides, in tests, the clock for timestamps, usage records, and the times and expirations of items. If it
	// stands still, no minute ends and nothing expires during a test.
	now func() time.Time
}

// MemoryOptions divides the memory of the process.
type MemoryOptions struct {
	// Budget is the total memory of the process. 0 means half of the memory of the machine or container.
	Budget Bytes `yaml:"budget"`
	// BlockCache and Memtable are parts of the budget. 0 means 40 % and 1/128 (up to 64 MiB). Up to four memtables
	// exist at the same time, and reads of fresh rows become slower with their size.
	BlockCache Bytes `yaml:"block_cache"`
	Memtable   Bytes `yaml:"memtable"`
	// ChangeBuffer is the memory for recent changes while an archive is running; 0 means 1/32 of the budget. The
	// minimum is 4 MiB.
	ChangeBuffer Bytes `yaml:"change_buffer"`
}

// LimitOptions limits the resources that clients can use.
type LimitOptions struct {
	Connections        int           `yaml:"connections"`
	AddressConnections int           `yaml:"connections_per_address"`
	IdleTimeout        time.Duration `yaml:"idle_timeout"`
	// QueueDelayTarget is the average queue delay above which requests are rejected; a negative value disables the
	// check.
	QueueDelayTarget time.Duration `yaml:"queue_delay_target"`
	// ThrottleTimeout is the time for which a request waits when the throughput is used up, before it is rejected; 0
	// rejects it immediately.
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

// StorageOptions configures the store.
type StorageOptions struct {
	// MinFreeDisk is the free share of the disk, in percent, below which writes are rejected. -1 disables the check.
	MinFreeDisk int `yaml:"min_free_disk_percent"`
	// SweepKeys is the maximum number of keys per second that are examined to remove deleted and expired data.
	SweepKeys int `yaml:"sweep_keys_per_second"`
}

// AuthOptions configures password authentication and permissions. They are enabled if there are users, or if Roles is
// true.
type AuthOptions struct {
	// Users maps names to bcrypt hashes as printed by `ilion hash-password`. Users are superusers.
	Users map[string]string `yaml:"users"`
	// Roles requires authentication even without configured users: as a role created with CREATE ROLE.
	Roles bool `yaml:"roles"`
	// Certificates maps client certificates to roles (ADD IDENTITY). "optional" requests a password from clients whose
	// certificate has no role; "required" rejects them. Empty disables the mapping.
	Certificates string `yaml:"certificates"`
	// EndChangedLogins closes the connections of a role when its password or LOGIN changes. Connections of dropped
	// roles are always closed.
	EndChangedLogins bool `yaml:"end_sessions_on_credential_change"`
	// AnonymousEndpoints lists the HTTP endpoints that need no login: metrics, status, and history.
	AnonymousEndpoints []string `yaml:"anonymous_endpoints"`
}

// TLSOptions configures TLS for CQL and HTTP. TLS is enabled if there is a certificate.
type TLSOptions struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ClientCA, if set, requires client certificates signed by it.
	ClientCA string `yaml:"client_ca"`
}

// ClusterOptions configures a cluster node. A node is standalone if Internal is empty.
type ClusterOptions struct {
	// Internal is the listener address for other nodes, host:port. Advertise is the address sent to other nodes; it
	// defaults to Internal.
	Internal  string `yaml:"internal"`
	Advertise string `yaml:"advertise"`
	// Bootstrap creates a cluster, with existing data in the directory. It has no effect on a member. With Join, all
	// nodes can use the same options: the first node in the list creates the cluster, unless another node responds as a
	// member.
	Bootstrap bool `yaml:"bootstrap"`
	// Join lists internal addresses of cluster nodes. One of them must respond.
	Join []string `yaml:"join"`
	// JoinSecretFile holds the secret with which nodes without TLS authenticate. It defaults to join-secret in the data
	// directory, which the bootstrapping node creates. If it is set together with TLS, both are required.
	JoinSecretFile string `yaml:"join_secret_file"`
	// RebuildDelay is the time after which the replicas of an unreachable node are rebuilt on other nodes; 0 means 5
	// min.
	RebuildDelay time.Duration `yaml:"rebuild_delay"`
	// Capacity is the disk capacity of this node for placement; 0 means the free disk space plus the data.
	Capacity Bytes `yaml:"capacity"`
	// BalanceThreshold is the amount of data by which a node may exceed its share, in addition to a tenth of the share,
	// before it moves replicas to other nodes; 0 means 256 MiB. The value of the node that leads the metadata applies.
	BalanceThreshold Bytes `yaml:"balance_threshold"`
	// SnapshotRate is the rate at which this node sends replicas to other nodes, in bytes per second; 0 means 64 MB.
	SnapshotRate Bytes `yaml:"snapshot_rate"`
	// ClockSkew is the difference between node clocks above which a problem is reported. The default is 500 ms.
	ClockSkew time.Duration `yaml:"clock_skew"`
	// TLS configures the mutual authentication of nodes.
	TLS NodeTLSOptions `yaml:"tls"`
}

// NodeTLSOptions names the files that `ilion cert` creates. Either all or none must be set.
type NodeTLSOptions struct {
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

const (
	// budgetMin is the minimum memory budget.
	budgetMin Bytes = 64 << 20
	// frameBytesMax is the maximum frame size of the protocol.
	frameBytesMax Bytes = 256 << 20
	// frameHeadroom is the size of a frame without the cells of a result.
	frameHeadroom Bytes = 1 << 20
)

// Bytes is a size. In the configuration file it is a number of bytes, or a number with a unit: 512KiB, 64MiB, 30GB.
type Bytes int64

// UnmarshalYAML decodes a size.
func (b *Bytes) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseBytes(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*b = v
	return nil
}

// units are the units of sizes, by their names.
var units = map[string]int64{
	"": 1, "B": 1,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// ParseBytes parses a size: digits and one of the units B, KiB, MiB, GiB, TiB, KB, MB, GB, TB. Without a unit the size
// is in bytes.
func ParseBytes(s string) (Bytes, error) {
	digits := strings.TrimRight(s, "BKMGTi ")
	v, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := units[strings.TrimSpace(s[len(digits):])]
	if err != nil || !ok || v < 0 || v > (1<<62)/unit || strconv.FormatInt(v, 10) != digits {
		return 0, fmt.Errorf("%q is not a size: use a number with a unit, such as 64MiB or 30GB", s)
	}
	return Bytes(v * unit), nil
}

// LoadOptions reads a configuration file into o. The error for an unknown key contains its name and line.
func LoadOptions(path string, o *Options) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	source, o.Deprecations, err = currentNames(source)
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(source))
	d.KnownFields(true)
	err = d.Decode(o)
	if err == nil && !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
		err = errors.New("more than one document")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
		text = unknownField.ReplaceAllString(text, `unknown key "$1"`)
		return fmt.Errorf("configuration file %s: %s", path, strings.Join(strings.Fields(text), " "))
	}
	return nil
}

// unknownField matches the error of the YAML package for an unknown key.
var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

func (o Options) withDefaults() Options {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	size := func(n *Bytes, v Bytes) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.CQL, "127.0.0.1:9042")
	def(&o.HTTP, "127.0.0.1:8080")
	def(&o.Commit, "batch")
	def(&o.ClusterName, "Ilion")
	def(&o.Region, "datacenter1")
	def(&o.Zone, "rack1")
	num(&o.InitialPartitions, 1)
	size(&o.Memory.Budget, machineMemory()/2)
	size(&o.Memory.BlockCache, o.Memory.Budget*2/5)
	size(&o.Memory.Memtable, min(max(o.Memory.Budget/128, 4<<20), 64<<20))
	size(&o.Memory.ChangeBuffer, max(o.Memory.Budget/32, 4<<20))
	num(&o.Limits.Connections, 20_000)
	num(&o.Limits.AddressConnections, max(1, o.Limits.Connections/2))
	if o.Limits.IdleTimeout == 0 {
		o.Limits.IdleTimeout = time.Hour
	}
	if o.Limits.QueueDelayTarget == 0 {
		o.Limits.QueueDelayTarget = 20 * time.Millisecond
	}
	size(&o.Limits.FrameBytes, 256<<20)
	num(&o.Limits.RequestsPerConnection, 32_768)
	num(&o.Limits.Requests, 1<<17)
	size(&o.Limits.RequestBytes, max(o.Memory.Budget/8, 64<<20))
	size(&o.Limits.ResultBytes, min(o.Limits.FrameBytes-frameHeadroom, max(o.Memory.Budget/32, 16<<20)))
	size(&o.Limits.BatchBytes, 50<<10)
	size(&o.Limits.MutationBytes, 16<<20)
	size(&o.Limits.RowBytes, o.Limits.MutationBytes)
	size(&o.Limits.LogicalPartitionBytes, 20e9)
	num(&o.Limits.PreparedStatements, 10_000)
	if o.Limits.ReadTimeout == 0 {
		o.Limits.ReadTimeout = 5 * time.Second
	}
	if o.Limits.ScanTimeout == 0 {
		o.Limits.ScanTimeout = time.Minute
	}
	if o.Limits.WriteTimeout == 0 {
		o.Limits.WriteTimeout = 2 * time.Second
	}
	if o.Storage.MinFreeDisk == 0 {
		o.Storage.MinFreeDisk = 5
	}
	num(&o.Storage.SweepKeys, 100_000)
	o.Splits = o.Splits.withDefaults()
	o.Merges = o.Merges.withDefaults()
	def(&o.Cluster.Advertise, o.Cluster.Internal)
	if o.Cluster.RebuildDelay == 0 {
		o.Cluster.RebuildDelay = 5 * time.Minute
	}
	if o.Cluster.ClockSkew == 0 {
		o.Cluster.ClockSkew = 500 * time.Millisecond
	}
	o.Guardrails = o.Guardrails.WithDefaults()
	if o.SlowQueryLogTimeout == nil {
		o.SlowQueryLogTimeout = new(500 * time.Millisecond)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if _, err := compat.Parse(o.Compatibility); err != nil {
		return err
	}
	if o.Commit != "batch" && o.Commit != "periodic" {
		return fmt.Errorf("commit %q is unknown: use batch or periodic", o.Commit)
	}
	if o.InitialPartitions < 1 || o.InitialPartitions > 1024 {
		return fmt.Errorf("initial_partitions %d is out of range: use 1 to 1024", o.InitialPartitions)
	}
	if o.Memory.Budget < budgetMin {
		return fmt.Errorf("memory.budget %d is too small: give at least 64MiB", o.Memory.Budget)
	}
	if o.Memory.ChangeBuffer < 1<<20 || o.Memory.ChangeBuffer > o.Memory.Budget/2 {
		return fmt.Errorf("memory.change_buffer %d is out of range: use 1MiB to half of memory.budget", o.Memory.ChangeBuffer)
	}
	if o.Memory.BlockCache+4*o.Memory.Memtable > o.Memory.Budget*9/10 {
		return fmt.Errorf("memory.block_cache and four times memory.memtable leave too little of memory.budget: " +
			"together they may take 90 %% of it")
	}
	if err := o.Limits.validate(); err != nil {
		return err
	}
	if err := o.Splits.validate(); err != nil {
		return err
	}
	if err := o.Merges.validate(); err != nil {
		return err
	}
	if err := o.Guardrails.Validate(); err != nil {
		return err
	}
	if err := o.Audit.Validate(); err != nil {
		return err
	}
	if d := *o.SlowQueryLogTimeout; d < 0 {
		return fmt.Errorf("slow_query_log_timeout %v is out of range: use a time like 500ms, or 0 to keep no slow queries", d)
	}
	if o.Audit.Enabled && o.Data == "" && o.Audit.Logger != audit.Syslog && o.Audit.Dir == "" {
		return errors.New("audit_logging_options.audit_logs_dir: a node in memory has no directory for the audit log: give one")
	}
	if p := o.Storage.MinFreeDisk; p < -1 || p > 100 {
		return fmt.Errorf("storage.min_free_disk_percent %d is out of range: use 1 to 100, or -1 to never refuse writes", p)
	}
	if k := o.Storage.SweepKeys; k < 100 {
		return fmt.Errorf("storage.sweep_keys_per_second %d is out of range: use 100 or more", k)
	}
	if o.Limits.FrameBytes < 2*frameHeadroom || o.Limits.FrameBytes > frameBytesMax {
		return fmt.Errorf("limits.frame_bytes %d is out of range: use %d to %d", o.Limits.FrameBytes, 2*frameHeadroom,
			frameBytesMax)
	}
	if o.Limits.ResultBytes < 1 || o.Limits.ResultBytes > o.Limits.FrameBytes-frameHeadroom {
		return fmt.Errorf("limits.result_bytes %d is out of range: it must be at least %d less than "+
			"limits.frame_bytes, %d", o.Limits.ResultBytes, frameHeadroom, o.Limits.FrameBytes)
	}
	switch o.Auth.Certificates {
	case "":
	case "optional", "required":
		if o.TLS.ClientCA == "" || !o.Auth.on() {
			return errors.New("auth.certificates needs tls.client_ca, and auth.users or auth.roles")
		}
	default:
		return fmt.Errorf("auth.certificates %q is unknown: use optional or required", o.Auth.Certificates)
	}
	for _, page := range o.Auth.AnonymousEndpoints {
		if page != "metrics" && page != "status" && page != "history" {
			return fmt.Errorf("auth.anonymous_endpoints: %q is not supported: use metrics, status, or history", page)
		}
	}
	if (o.TLS.Cert == "") != (o.TLS.Key == "") {
		return errors.New("tls.cert and tls.key belong together: give both or neither")
	}
	if o.TLS.ClientCA != "" && o.TLS.Cert == "" {
		return errors.New("tls.client_ca needs tls.cert and tls.key")
	}
	if err := o.Cluster.validate(o.Insecure, o.Commit); err != nil {
		return err
	}
	if err := o.REST.validate(); err != nil {
		return err
	}
	if err := o.validateCosmos(); err != nil {
		return err
	}
	for _, l := range []struct{ name, addr string }{{"cql", o.CQL}, {"http", o.HTTP}} {
		if l.addr == "off" && l.name == "http" {
			continue
		}
		if _, _, err := net.SplitHostPort(l.addr); err != nil {
			return fmt.Errorf("%s address %q is not host:port", l.name, l.addr)
		}
		if !o.Insecure && !o.Auth.on() && !isLoopback(l.addr) {
			return fmt.Errorf("refusing to listen on %s (%s) without authentication: configure auth.users, or say "+
				"--insecure", l.addr, l.name)
		}
	}
	return nil
}

func (c ClusterOptions) validate(insecure bool, commit string) error {
	if c.Internal == "" {
		if c.Bootstrap || len(c.Join) > 0 {
			return errors.New("a node of a cluster needs an address for the others: specify --internal HOST:PORT")
		}
		return nil
	}
	if commit == "periodic" {
		return errors.New("commit periodic is for a node that stands alone: in a cluster every acknowledged write " +
			"is on the disks of three nodes")
	}
	for _, a := range append([]string{c.Internal, c.Advertise}, c.Join...) {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("address %q of a node is not host:port", a)
		}
	}
	if host, port, _ := net.SplitHostPort(c.Advertise); port != "0" && isUnspecified(host) {
		return fmt.Errorf("other nodes cannot reach %s: set cluster.advertise to an address of this machine",
			c.Advertise)
	}
	if n := c.TLS; (n.CA == "") != (n.Cert == "") || (n.CA == "") != (n.Key == "") {
		return errors.New("cluster.tls.ca, cluster.tls.cert and cluster.tls.key belong together: give all or none")
	}
	if c.TLS.CA == "" && !insecure && !isLoopback(c.Internal) {
		return fmt.Errorf("refusing to listen on %s (internal) without mutual TLS: configure cluster.tls (see "+
			"ilion cert), or say --insecure", c.Internal)
	}
	if c.RebuildDelay < 0 || c.ClockSkew < 0 || c.Capacity < 0 || c.SnapshotRate < 0 ||
		c.BalanceThreshold < 0 {
		return errors.New("cluster.rebuild_delay, cluster.clock_skew, cluster.capacity, cluster.balance_threshold, and " +
			"cluster.snapshot_rate must not be negative")
	}
	return nil
}

func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func (l LimitOptions) validate() error {
	for _, v := range []struct {
		name  string
		value int64
		shown any
	}{
		{"connections", int64(l.Connections), l.Connections},
		{"connections_per_address", int64(l.AddressConnections), l.AddressConnections},
		{"idle_timeout", int64(l.IdleTimeout), l.IdleTimeout},
		{"requests_per_connection", int64(l.RequestsPerConnection), l.RequestsPerConnection},
		{"requests", int64(l.Requests), l.Requests},
		{"request_bytes", int64(l.RequestBytes), l.RequestBytes},
		{"batch_bytes", int64(l.BatchBytes), l.BatchBytes},
		{"mutation_bytes", int64(l.MutationBytes), l.MutationBytes},
		{"row_bytes", int64(l.RowBytes), l.RowBytes},
		{"prepared_statements", int64(l.PreparedStatements), l.PreparedStatements},
		{"read_timeout", int64(l.ReadTimeout), l.ReadTimeout},
		{"scan_timeout", int64(l.ScanTimeout), l.ScanTimeout},
		{"write_timeout", int64(l.WriteTimeout), l.WriteTimeout},
	} {
		if v.value <= 0 {
			return fmt.Errorf("limits.%s %v is out of range: it must be positive", v.name, v.shown)
		}
	}
	if l.ThrottleTimeout < 0 {
		return fmt.Errorf("limits.throttle_timeout %v is out of range: it must not be negative", l.ThrottleTimeout)
	}
	if l.LogicalPartitionBytes < logicalBytesMin {
		return fmt.Errorf("limits.logical_partition_bytes %d is too small: use %d or more", l.LogicalPartitionBytes,
			logicalBytesMin)
	}
	return nil
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// ShareOfMemory returns a memory budget for each of several nodes on one machine.
func ShareOfMemory(nodes int) Bytes {
	return max(machineMemory()/2/Bytes(max(nodes, 1)), budgetMin)
}

// machineMemory returns the memory available to the process: the memory of the machine, or the container's limit
// if it is smaller.
func machineMemory() Bytes {
	total := Bytes(4 << 30)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kib); err == nil {
			total = Bytes(kib << 10)
		}
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		var limit int64
		if _, err := fmt.Sscanf(string(b), "%d", &limit); err == nil && limit > 0 && Bytes(limit) < total {
			total = Bytes(limit)
		}
	}
	return total
}
