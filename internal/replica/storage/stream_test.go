// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// pair is a key and a value of a stream.
type pair struct{ key, value []byte }

// streamOf writes records as a snapshot.
func streamOf(t *testing.T, records []pair) []byte {
	t.Helper()
	var out bytes.Buffer
	w := streamWriter{w: &out}
	h := streamHead{meta: keys.NewMeta(7, keys.Span{Table: testTable})}
	if err := w.begin(&h); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if _, err := w.add(r.key, r.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func readStream(b []byte) (records []pair, err error) {
	r := streamReader{r: bytes.NewReader(b)}
	var h streamHead
	if err := r.begin(&h); err != nil {
		return nil, err
	}
	for more := true; more && err == nil; {
		more, err = r.next(func(key, value []byte) error {
			records = append(records, pair{bytes.Clone(key), bytes.Clone(value)})
			return nil
		})
	}
	return records, err
}

// TestLargeRecords checks that a value of any size is sent in chunks of limited size, together with small values. A
// stream with a missing chunk must be rejected.
func TestLargeRecords(t *testing.T) {
	noise := make([]byte, 3*partBytes+5)
	for i := range noise {
		noise[i] = byte(i * i >> 7)
	}
	var in []pair
	for i, size := range []int{3, partBytes, 10, partBytes + 1, 2 * partBytes, 0, len(noise), 1} {
		in = append(in, pair{[]byte{'k', byte(i)}, noise[:size]})
	}
	stream := streamOf(t, in)
	out, err := readStream(stream)
	if err != nil || len(out) != len(in) {
		t.Fatal(len(out), err)
	}
	for i := range in {
		if !bytes.Equal(in[i].key, out[i].key) || !bytes.Equal(in[i].value, out[i].value) {
			t.Errorf("record %d was decoded as %x, %d bytes", i, out[i].key, len(out[i].value))
		}
	}
	for at := len(streamMagic) + 1; at < len(stream); {
		kind, size, stored := stream[at], binary.LittleEndian.Uint32(stream[at+1:]),
			int(binary.LittleEndian.Uint32(stream[at+5:]))
		if size > chunkBytesMax {
			t.Errorf("a chunk of %d bytes", size)
		}
		end := at + chunkHeadLen + stored
		if kind == chunkLarge || kind == chunkPart {
			if _, err := readStream(append(bytes.Clone(stream[:at]), stream[end:]...)); !errors.Is(err,
				ErrBadSnapshot) {
				t.Errorf("without its chunk of kind %d at %d: %v", kind, at, err)
			}
		}
		at = end
	}
}

// TestNewerStream checks that a snapshot in a later format is rejected as newer.
func TestNewerStream(t *testing.T) {
	stream := streamOf(t, nil)
	stream[len(streamMagic)]++
	if _, err := readStream(stream); !errors.Is(err, ErrBadSnapshot) || !errors.Is(err, feature.ErrNewer) {
		t.Error(err)
	}
}
