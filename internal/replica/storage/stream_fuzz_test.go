// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/golang/snappy"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// chunkOf returns a chunk with a payload that states an unpacked size, and with the correct checksum. Mutated input
// would otherwise fail the checksum.
func chunkOf(dst []byte, kind byte, size int, stored []byte) []byte {
	from := len(dst)
	dst = binary.LittleEndian.AppendUint32(append(dst, kind), uint32(size))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(stored)))
	sum := crc32.Update(crc32.Checksum(dst[from:], castagnoli), castagnoli, stored)
	return append(binary.LittleEndian.AppendUint32(dst, sum), stored...)
}

// FuzzStream checks that no bytes in the chunks of a snapshot make the reader panic or deliver data that the chunks do
// not contain. All errors must be ErrBadSnapshot. If packed is set, the test also covers bytes that are not in the
// packed format.
func FuzzStream(f *testing.F) {
	m := keys.NewMeta(5, keys.Span{Table: 1024})
	head := (&streamHead{estimate: 100, meta: m}).append(nil)
	var w streamWriter
	w.w = new(bytes.Buffer)
	_, _ = w.add([]byte("key one"), []byte("value"))
	_, _ = w.add([]byte("key two"), []byte("value"))
	f.Add(head, bytes.Clone(w.raw), []byte{2, 2})
	f.Add(head, snappy.Encode(nil, bytes.Repeat(w.raw, 20)), []byte{2, 2})
	f.Fuzz(func(t *testing.T, head, records, end []byte) {
		for _, size := range []int{len(records), len(records) + 1, chunkBytesMax} {
			if n, err := snappy.DecodedLen(records); size == len(records)+1 && err == nil && n > size {
				size = n
			}
			in := append([]byte(streamMagic), streamFormat)
			in = chunkOf(in, chunkHead, len(head), head)
			in = chunkOf(in, chunkRecords, size, records)
			in = chunkOf(in, chunkEnd, len(end), end)
			r := streamReader{r: bytes.NewReader(in)}
			var h streamHead
			err := r.begin(&h)
			bytesSeen := 0
			for more := err == nil; more; {
				more, err = r.next(func(key, value []byte) error { bytesSeen += len(value); return nil })
			}
			if err != nil && !errors.Is(err, ErrBadSnapshot) {
				t.Fatal(err)
			}
			if bytesSeen > expansionMax*len(in) || cap(r.plain) > expansionMax*len(in) {
				t.Fatalf("%d bytes, and memory of %d, out of %d", bytesSeen, cap(r.plain), len(in))
			}
		}
	})
}
