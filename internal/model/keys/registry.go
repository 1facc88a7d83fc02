// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// MetaPartition is the physical partition with the cluster metadata. Its rows are the keys under MetaID. It does not
// belong to a table.
const MetaPartition uint64 = 1 << 62

// ErrReplicaCorrupt is returned for bytes that Replica.Append did not write.
var ErrReplicaCorrupt = errors.New("corrupt replica record")

// Replica is a node's record of a physical partition replica. Its key is under RegistryID. The record is written
// before the replica stores any data, and deleted together with the replica's data. It is not part of snapshots.
type Replica struct {
	Partition uint64
	// Replica is the replica ID. The ID is never reused, even for another partition.
	Replica uint64
	// Created is the time at which the record was written, in seconds since the epoch.
	Created int64

	// Rest holds the encoded fields that a later build has added.
	Rest string
}

const replicaFormat = 2

// Append appends the encoded record. It consists of the format, the parts in order as varints, and the fields of later
// builds.
func (r *Replica) Append(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(replicaFormat)
	w.Uint(r.Partition)
	w.Uint(r.Replica)
	w.Int(r.Created)
	w = append(w, r.Rest...)
	w.EndFields()
	return w
}

// DecodeReplica reads the output of Append.
func DecodeReplica(b []byte) (Replica, error) {
	d := codec.NewReader(b, ErrReplicaCorrupt)
	if err := checkFormat("a replica record", d.Uint(), replicaFormat, ErrReplicaCorrupt); err != nil {
		return Replica{}, err
	}
	r := Replica{Partition: d.Uint(), Replica: d.Uint(), Created: d.Int()}
	kept, refused := d.KeepFields()
	if refused != 0 {
		return Replica{}, &feature.Newer{What: "a replica record", Unit: "field", Has: refused}
	}
	r.Rest = string(kept)
	return r, d.End()
}
