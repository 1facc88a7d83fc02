// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/server/audit"
)

const (
	// budgetMin is the minimum memory budget.
	budgetMin Bytes = 64 << 20
	// frameBytesMax is the maximum frame size of the protocol.
	frameBytesMax Bytes = 256 << 20
	// frameHeadroom is the size of a frame without the cells of a result.
	frameHeadroom Bytes = 1 << 20
	// logicalBytesMin is the minimum of limits.logical_partition_bytes.
	logicalBytesMin Bytes = 10e6
)

// Validate returns an error if an option or a combination of options is invalid. The options must include their
// defaults.
func (o Options) Validate() error {
	if _, err := compat.Parse(o.Compatibility); err != nil {
		return err
	}
	if o.Commit != "batch" && o.Commit != "periodic" {
		return fmt.Errorf("commit %q is unknown: use batch or periodic", o.Commit)
	}
	if o.InitialPartitions < 1 || o.InitialPartitions > 1024 {
		return fmt.Errorf("initial_partitions %d is out of range: use 1 to 1024", o.InitialPartitions)
	}
	for _, validate := range []func() error{
		o.Memory.validate, o.Limits.validate, o.Splits.validate, o.Merges.validate, o.Guardrails.Validate,
		o.validateLogs, o.Storage.validate, o.validateEncryption, o.validateAuth, o.TLS.validate,
		o.validateCluster, o.REST.validate, o.validateCosmos, o.validateListeners,
	} {
		if err := validate(); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) validate() error {
	if m.Budget < budgetMin {
		return fmt.Errorf("memory.budget %d is too small: use at least 64MiB", m.Budget)
	}
	if m.ChangeBuffer < 1<<20 || m.ChangeBuffer > m.Budget/2 {
		return fmt.Errorf("memory.change_buffer %d is out of range: use 1MiB to half of memory.budget", m.ChangeBuffer)
	}
	if m.BlockCache+4*m.Memtable > m.Budget*9/10 {
		return errors.New("memory.block_cache plus four times memory.memtable is too large: " +
			"the sum must not exceed 90 % of memory.budget")
	}
	return nil
}

// validateLogs validates the options of the audit log and the slow-query log.
func (o *Options) validateLogs() error {
	if err := o.Audit.Validate(); err != nil {
		return err
	}
	if d := *o.SlowQueryLogTimeout; d < 0 {
		return fmt.Errorf("slow_query_log_timeout %v is out of range: use a duration such as 500ms, or 0 to disable it", d)
	}
	if o.Audit.Enabled && o.Data == "" && o.Audit.Logger != audit.Syslog && o.Audit.Dir == "" {
		return errors.New("an in-memory node has no directory for the audit log: set audit_logging_options.audit_logs_dir")
	}
	return nil
}

func (s *Storage) validate() error {
	if p := s.MinFreeDisk; p < -1 || p > 100 {
		return fmt.Errorf("storage.min_free_disk_percent %d is out of range: use 1 to 100, or -1 to never reject writes", p)
	}
	if k := s.SweepKeys; k < 100 {
		return fmt.Errorf("storage.sweep_keys_per_second %d is out of range: use 100 or more", k)
	}
	return nil
}

func (o *Options) validateEncryption() error {
	e := &o.Storage.Encryption
	switch configured := e.Key().Configured(); {
	case e.KeyFile != "" && e.KeyCommand != "":
		return errors.New("storage.encryption.key_file and storage.encryption.key_command are both set: use one of them")
	case e.OldKeyFile != "" && e.OldKeyCommand != "":
		return errors.New("storage.encryption.old_key_file and storage.encryption.old_key_command are both set: use one " +
			"of them")
	case !configured && (e.OldKey().Configured() || e.Decrypt):
		return errors.New("storage.encryption requires a store key: set storage.encryption.key_file or " +
			"storage.encryption.key_command")
	case configured && o.Data == "":
		return errors.New("an in-memory node writes no files: remove storage.encryption, or set data")
	case e.DataKeyBits != 128 && e.DataKeyBits != 256:
		return fmt.Errorf("storage.encryption.data_key_bits %d is not supported: use 128 or 256", e.DataKeyBits)
	case e.Rotation < encryption.RotationMin:
		return fmt.Errorf("storage.encryption.rotation %v is out of range: use %v or more, such as 168h", e.Rotation,
			encryption.RotationMin)
	}
	return nil
}

func (o *Options) validateAuth() error {
	switch o.Auth.Certificates {
	case "":
	case "optional", "required":
		if o.TLS.ClientCA == "" || !o.Auth.Required() {
			return errors.New("auth.certificates requires tls.client_ca, and auth.users or auth.roles")
		}
	default:
		return fmt.Errorf("auth.certificates %q is unknown: use optional or required", o.Auth.Certificates)
	}
	for _, page := range o.Auth.AnonymousEndpoints {
		if page != "metrics" && page != "status" && page != "history" {
			return fmt.Errorf("auth.anonymous_endpoints: %q is not supported: use metrics, status, or history", page)
		}
	}
	return nil
}

func (t *TLS) validate() error {
	if (t.Cert == "") != (t.Key == "") {
		return errors.New("tls.cert and tls.key must be set together")
	}
	if t.ClientCA != "" && t.Cert == "" {
		return errors.New("tls.client_ca requires tls.cert and tls.key")
	}
	return nil
}

func (o *Options) validateCosmos() error {
	if o.CosmosOff() {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.CosmosCQL); err != nil {
		return fmt.Errorf("cosmos_cql address %q is not host:port", o.CosmosCQL)
	}
	if o.TLS.Cert == "" && !IsLoopback(o.CosmosCQL) {
		return fmt.Errorf("refusing to listen on %s (cosmos_cql) without TLS, because clients send the account key: "+
			"configure tls.cert and tls.key", o.CosmosCQL)
	}
	return nil
}

func (o *Options) validateListeners() error {
	for _, l := range []struct{ name, addr string }{{"cql", o.CQL}, {"http", o.HTTP}} {
		if l.addr == "off" && l.name == "http" {
			continue
		}
		if _, _, err := net.SplitHostPort(l.addr); err != nil {
			return fmt.Errorf("%s address %q is not host:port", l.name, l.addr)
		}
		if !o.Insecure && !o.Auth.Required() && !IsLoopback(l.addr) {
			return fmt.Errorf("refusing to listen on %s (%s) without authentication: configure auth.users, or use "+
				"--insecure", l.addr, l.name)
		}
	}
	return nil
}

func (o *Options) validateCluster() error {
	c := &o.Cluster
	if c.Internal == "" {
		if c.Bootstrap || len(c.Join) > 0 {
			return errors.New("a cluster node requires an address for other nodes: specify --internal HOST:PORT")
		}
		return nil
	}
	if o.Commit == "periodic" {
		return errors.New("commit periodic is supported only on a standalone node: in a cluster, every acknowledged write " +
			"must be on the disks of a majority of its replicas")
	}
	for _, a := range append([]string{c.Internal, c.Advertise}, c.Join...) {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("node address %q is not host:port", a)
		}
	}
	if host, port, _ := net.SplitHostPort(c.Advertise); port != "0" && IsUnspecified(host) {
		return fmt.Errorf("other nodes cannot reach %s: set cluster.advertise to an address of this machine",
			c.Advertise)
	}
	if n := &c.TLS; (n.CA == "") != (n.Cert == "") || (n.CA == "") != (n.Key == "") {
		return errors.New("cluster.tls.ca, cluster.tls.cert, and cluster.tls.key must be set together")
	}
	if c.TLS.CA == "" && !o.Insecure && !IsLoopback(c.Internal) {
		return fmt.Errorf("refusing to listen on %s (internal) without mutual TLS: configure cluster.tls (see "+
			"ilion cert), or use --insecure", c.Internal)
	}
	if c.RebuildDelay < 0 || c.ClockSkew < 0 || c.Capacity < 0 || c.SnapshotRate < 0 ||
		c.BalanceThreshold < 0 {
		return errors.New("cluster.rebuild_delay, cluster.clock_skew, cluster.capacity, cluster.balance_threshold, and " +
			"cluster.snapshot_rate must not be negative")
	}
	return nil
}

// IsUnspecified reports whether a host represents all interfaces.
func IsUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func (l *Limits) validate() error {
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
	if l.FrameBytes < 2*frameHeadroom || l.FrameBytes > frameBytesMax {
		return fmt.Errorf("limits.frame_bytes %d is out of range: use %d to %d", l.FrameBytes, 2*frameHeadroom,
			frameBytesMax)
	}
	if l.ResultBytes < 1 || l.ResultBytes > l.FrameBytes-frameHeadroom {
		return fmt.Errorf("limits.result_bytes %d is out of range: it must be at least %d less than "+
			"limits.frame_bytes, %d", l.ResultBytes, frameHeadroom, l.FrameBytes)
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

// IsLoopback reports whether a host:port is on the loopback interface.
func IsLoopback(addr string) bool {
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
