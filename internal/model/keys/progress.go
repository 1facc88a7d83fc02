// SPDX-License-Identifier: Apache-2.0

package keys

import "github.com/ilion-db/ilion/internal/model/codec"

// Progress is the part of a partition's meta that nearly every log entry changes. A node stores the progress of all
// its partitions in one record. Each batch merges its changes into this record, so it writes one key instead of one
// key per partition. If the meta itself has a higher applied index, the meta has precedence. The meta is stored again
// only when another part of the meta changes.
type Progress struct {
	// Partition is the ID of the physical partition. The other fields have the same meaning as in Meta. Applied is 0
	// if the partition has left the node, which invalidates its earlier progress.
	Partition, Applied, Term uint64
	MaxTimestamp             int64
	SchemaVersion            uint64
}

const progressFormat = 1

// BeginProgress appends an empty progress record, which consists only of the format. Partitions follow in any order.
func BeginProgress(dst []byte) []byte { return append(dst, progressFormat) }

// AppendProgress appends a partition to a progress record. If record is empty, AppendProgress starts the record.
func AppendProgress(record []byte, p *Progress) []byte {
	if len(record) == 0 {
		record = BeginProgress(record)
	}
	w := codec.Writer(record)
	w.Uint(p.Partition)
	w.Uint(p.Applied)
	w.Uint(p.Term)
	w.Int(p.MaxTimestamp)
	w.Uint(p.SchemaVersion)
	return w
}

// DecodeProgress calls f for each partition in a progress record. On failure, it returns ErrCorrupt or a
// *feature.Newer.
func DecodeProgress(b []byte, f func(p Progress)) error {
	d := codec.NewReader(b, ErrCorrupt)
	if err := checkFormat("the progress of partitions", d.Uint(), progressFormat, ErrCorrupt); err != nil {
		return err
	}
	for len(d.Rest()) > 0 {
		p := Progress{Partition: d.Uint(), Applied: d.Uint(), Term: d.Uint(), MaxTimestamp: d.Int(),
			SchemaVersion: d.Uint()}
		if d.Err() != nil {
			return d.Err()
		}
		f(p)
	}
	return d.End()
}

// Advance updates m with its partition's progress p if p has a higher applied index.
func (m *Meta) Advance(p *Progress) {
	if p.Applied > m.Applied {
		m.Applied, m.Term, m.MaxTimestamp, m.SchemaVersion = p.Applied, p.Term, p.MaxTimestamp, p.SchemaVersion
	}
}
