// SPDX-License-Identifier: Apache-2.0

package rowdiff

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Digest is the sum of the hashes of rows. The hashes include keys and values. Digest does not depend on the order of
// the rows. It does not include timestamps, because a rewritten list has other timestamps.
type Digest [2]uint64

// Add adds another digest.
func (d *Digest) Add(o Digest) {
	d[0] += o[0]
	d[1] += o[1]
}

// String returns the digest in hexadecimal.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d[0], d[1]) }

// Digest returns the digest of a row.
func (r *Row) Digest() Digest {
	var room [512]byte
	b := cqltype.AppendValue(room[:0], r.partition)
	b = cqltype.AppendValue(b, r.clustering) // the value is null in static rows
	for _, cells := range r.columns {
		b = binary.BigEndian.AppendUint32(b, uint32(len(cells)))
		for _, c := range cells {
			b = cqltype.AppendValue(cqltype.AppendValue(b, c.key), c.value)
		}
	}
	sum := sha256.Sum256(b)
	return Digest{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}
