// SPDX-License-Identifier: Apache-2.0

package keys

import "github.com/ilion-db/ilion/internal/model/codec"

// Progress is the part of a partition's meta that nearly every entry changes. A node keeps that of all its partitions
// in one record, which each batch merges what it changes into: a key in a batch, not one for each partition that the
// batch has entries of. What a meta itself says counts where it is further: it is stored again only when something else
// in it changes.
type Progress struct {
	// Partition is the id of the physical partition. The others are as in Meta; Applied is 0 where the partition has
	// left the node, and what was known of it does not count any more.
	Partition, Applied, Term uint64
	MaxTimestamp             int64
	SchemaVersion            uint64
}

const progressFormat = 1

// BeginProgress appends an empty record of progress: its format. Partitions follow until its end, in any order.
func BeginProgress(dst []byte) []byte { return append(dst, progressFormat) }

// AppendProgress appends a partition to a record of progress, which it begins if it is empty.
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

// DecodeProgress passes on what AppendProgress wrote. Errors are ErrCorrupt or a *feature.Newer.
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

// Advance takes over progress of the meta's partition that is further than the meta.
func (m *Meta) Advance(p *Progress) {
	if p.Applied > m.Applied {
		m.Applied, m.Term, m.MaxTimestamp, m.SchemaVersion = p.Applied, p.Term, p.MaxTimestamp, p.SchemaVersion
	}
}
