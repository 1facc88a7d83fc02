// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// discard is a file that keeps nothing.
type discard struct{ vfs.File }

func (discard) Write(b []byte) (int, error)           { return len(b), nil }
func (discard) ReadAt(b []byte, _ int64) (int, error) { return len(b), nil }

// BenchmarkFile measures the cost of encryption and decryption without a disk.
func BenchmarkFile(b *testing.B) {
	k := open(b, vfs.NewMem(), options(keyFile(b, 1)))
	key, err := k.forWrite()
	if err != nil {
		b.Fatal(err)
	}
	f := &file{File: discard{}, keys: k, key: key, nonce: make([]byte, 16)}
	for _, size := range []int{1 << 10, 4 << 10, 32 << 10} {
		buf := make([]byte, size)
		for i := range buf {
			buf[i] = byte(i | 1)
		}
		b.Run(fmt.Sprintf("write/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Write(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("read/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.ReadAt(buf, 4096); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
