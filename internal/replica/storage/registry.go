// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// PutReplica records that the node has a replica of a physical partition.
func (b *Batch) PutReplica(r *keys.Replica) {
	b.Set(keys.RegistryID, binary.BigEndian.AppendUint64(nil, r.Partition), r.Append(nil))
}

// DeleteReplica removes the record that PutReplica stored.
func (b *Batch) DeleteReplica(partition uint64) {
	b.Delete(keys.RegistryID, binary.BigEndian.AppendUint64(nil, partition))
}

// DeleteMeta removes the meta and the progress of a physical partition.
func (b *Batch) DeleteMeta(partition uint64) {
	b.metas = true
	b.PutProgress(keys.AppendProgress(nil, &keys.Progress{Partition: partition}))
	b.Delete(keys.PartitionID, binary.BigEndian.AppendUint64(nil, partition))
}

// Replicas returns the replicas of the node, in order of their partitions. A replica without a meta has not received
// its first snapshot.
func (s *Records) Replicas() ([]keys.Replica, error) {
	var out []keys.Replica
	err := s.Scan(keys.RegistryID, nil, func(_, value []byte) error {
		r, err := keys.DecodeReplica(value)
		if err == nil {
			out = append(out, r)
		}
		return err
	})
	return out, err
}
