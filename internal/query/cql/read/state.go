// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// position is a position in a result, either after a row or after a whole partition.
type position struct {
	key        []byte
	token      token.Token
	clustering []byte
	// afterPartition reports whether the position is after the whole partition.
	afterPartition bool
	// remaining is the remaining number of rows for LIMIT. inPartition is the remaining number of rows for PER
	// PARTITION LIMIT. If the statement does not contain the clause, the number is unlimited.
	remaining, inPartition int64
}

// The paging state consists of a version byte, a flag byte, and the table ID. The remaining limits, the partition key,
// the clustering key, and a CRC-32C follow the table ID. Each limit is stored as a uvarint of the limit plus one, and 0
// represents unlimited. The checksum detects damaged states. Clients may store a state for days, so old versions must
// remain readable.
//
// If key columns are masked, the state consists of a different version byte and the ciphertext of the other fields.
// Therefore, a client cannot read the keys in the state or find keys with forged states.
const (
	stateVersion        = 1
	encryptedVersion    = 2
	stateAfterPartition = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendState encodes a position of a query on a table.
func appendState(dst []byte, t *schema.Table, p *position) ([]byte, error) {
	if !t.SealsPages() {
		return appendPlain(dst, t.ID, p), nil
	}
	return encrypt(append(dst, encryptedVersion), appendPlain(nil, t.ID, p), t.Secret)
}

func appendPlain(dst []byte, table uint32, p *position) []byte {
	start := len(dst)
	flags := byte(0)
	if p.afterPartition {
		flags |= stateAfterPartition
	}
	w := codec.Writer(append(dst, stateVersion, flags))
	w = binary.BigEndian.AppendUint32(w, table)
	writeRemainder(&w, p.remaining)
	writeRemainder(&w, p.inPartition)
	w.Bytes(p.key)
	w.Bytes(p.clustering)
	return binary.BigEndian.AppendUint32(w, crc32.Checksum(w[start:], castagnoli))
}

func writeRemainder(w *codec.Writer, n int64) {
	if n == unlimited {
		w.Uint(0)
		return
	}
	w.Uint(uint64(n) + 1)
}

var errState = dberr.Protocolf("Invalid value for the paging state")

// readState decodes a paging state. The position may refer to the memory of b. The token of the position is not set.
func readState(b []byte, t *schema.Table) (p position, err error) {
	if !t.SealsPages() {
		return readPlain(b, t.ID)
	}
	if len(b) == 0 || b[0] != encryptedVersion {
		return p, errState
	}
	if b, err = decrypt(b[1:], t.Secret); err != nil {
		return p, errState
	}
	return readPlain(b, t.ID)
}

func readPlain(b []byte, table uint32) (p position, err error) {
	if len(b) < 10 || b[0] != stateVersion || b[1]&^stateAfterPartition != 0 {
		return p, errState
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) ||
		binary.BigEndian.Uint32(body[2:]) != table {
		return p, errState
	}
	p.afterPartition = body[1]&stateAfterPartition != 0
	r := codec.NewReader(body[6:], errState)
	p.remaining, p.inPartition = readRemainder(&r), readRemainder(&r)
	p.key, p.clustering = r.Bytes(), r.Bytes()
	return p, r.End() // a view may have an empty key
}

func readRemainder(r *codec.Reader) int64 {
	v := r.UpTo(math.MaxInt32 + 1)
	if v == 0 {
		return unlimited
	}
	return int64(v) - 1
}
