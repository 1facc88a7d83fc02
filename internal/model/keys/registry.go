// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"encoding/binary"
	"errors"
)

// MetaPartition is the physical partition of the cluster's own records. Its rows are the keys under MetaID; it is in no table.
const MetaPartition uint64 = 1 << 62

// ErrReplicaCorrupt is returned for bytes that Replica.Append did not write, or a newer version wrote.
var ErrReplicaCorrupt = errors.New("corrupt replica record")

// Replica is a node's own note that it has a replica of a physical partition, under RegistryID. It is written before the replica
// holds anything, and deleted together with what it held; it is in no snapshot.
type Replica struct {
	Partition uint64
	// Replica is never used twice, not for another partition either.
	Replica uint64
	// Created is when the record was written, in seconds since the epoch.
	Created int64
}

const replicaFormat = 1

// Append appends the encoded record: the format, then the fields in order, as varints.
func (r *Replica) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, replicaFormat)
	dst = binary.AppendUvarint(dst, r.Partition)
	dst = binary.AppendUvarint(dst, r.Replica)
	return binary.AppendVarint(dst, r.Created)
}

// DecodeReplica reads what Append wrote.
func DecodeReplica(b []byte) (Replica, error) {
	d := decoder{b: b}
	if d.uint() != replicaFormat {
		return Replica{}, ErrReplicaCorrupt
	}
	r := Replica{Partition: d.uint(), Replica: d.uint(), Created: d.int()}
	if d.bad || len(d.b) > 0 {
		return Replica{}, ErrReplicaCorrupt
	}
	return r, nil
}
