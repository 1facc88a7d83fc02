// SPDX-License-Identifier: Apache-2.0

package options

import (
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/node/process"
)

// setDefault sets a value if it is zero.
func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}

// WithDefaults returns the options with defaults for all fields that are zero.
func (o Options) WithDefaults() Options {
	setDefault(&o.CQL, "127.0.0.1:9042")
	setDefault(&o.HTTP, "127.0.0.1:8080")
	setDefault(&o.Commit, "batch")
	setDefault(&o.ClusterName, "Ilion")
	setDefault(&o.Region, "datacenter1")
	setDefault(&o.Zone, "rack1")
	setDefault(&o.InitialPartitions, 1)
	o.Memory.setDefaults()
	o.Limits.setDefaults(o.Memory.Budget)
	setDefault(&o.Storage.MinFreeDisk, 5)
	setDefault(&o.Storage.SweepKeys, 100_000)
	setDefault(&o.Storage.Encryption.DataKeyBits, 128)
	setDefault(&o.Storage.Encryption.Rotation, 7*24*time.Hour)
	setDefault(&o.Splits.StorageCap, storageCap)
	setDefault(&o.Splits.Units, splitUnits)
	setDefault(&o.Merges.IdlePeriod, idlePeriod)
	setDefault(&o.Cluster.Advertise, o.Cluster.Internal)
	setDefault(&o.Cluster.RebuildDelay, 5*time.Minute)
	setDefault(&o.Cluster.ClockSkew, 500*time.Millisecond)
	o.Guardrails = o.Guardrails.WithDefaults()
	if o.SlowQueryLogTimeout == nil {
		o.SlowQueryLogTimeout = new(500 * time.Millisecond)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (m *Memory) setDefaults() {
	setDefault(&m.Budget, Bytes(process.MachineMemory()/2))
	setDefault(&m.BlockCache, m.Budget*2/5)
	setDefault(&m.Memtable, min(max(m.Budget/128, 4<<20), 64<<20))
	setDefault(&m.ChangeBuffer, max(m.Budget/32, 4<<20))
}

func (l *Limits) setDefaults(budget Bytes) {
	setDefault(&l.Connections, 20_000)
	setDefault(&l.AddressConnections, max(1, l.Connections/2))
	setDefault(&l.IdleTimeout, time.Hour)
	setDefault(&l.QueueDelayTarget, 20*time.Millisecond)
	setDefault(&l.FrameBytes, 256<<20)
	setDefault(&l.RequestsPerConnection, 32_768)
	setDefault(&l.Requests, 1<<17)
	setDefault(&l.RequestBytes, max(budget/8, 64<<20))
	setDefault(&l.ResultBytes, min(l.FrameBytes-frameHeadroom, max(budget/32, 16<<20)))
	setDefault(&l.BatchBytes, 50<<10)
	setDefault(&l.MutationBytes, 16<<20)
	setDefault(&l.RowBytes, l.MutationBytes)
	setDefault(&l.LogicalPartitionBytes, 20e9)
	setDefault(&l.PreparedStatements, 10_000)
	setDefault(&l.ReadTimeout, 5*time.Second)
	setDefault(&l.ScanTimeout, time.Minute)
	setDefault(&l.WriteTimeout, 2*time.Second)
}
