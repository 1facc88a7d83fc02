// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/ilion-db/ilion/internal/model/feature"
)

const (
	fileMagic  = "ilionrow"
	fileFormat = 1
	// FileMin is the minimum size of a file's records in bytes. The last file of a partition may be smaller.
	FileMin = 1 << 20
	// FileMean is the average size in bytes that a file has in addition to FileMin.
	FileMean = 1 << 20
	// FileMax is the size in bytes at which a file ends, regardless of its keys.
	FileMax = 8 << 20
	// RecordMax is the maximum size of a record, in bytes. A larger record does not fit into a message between nodes.
	RecordMax = 48 << 20
	// plainMax is the maximum size of the uncompressed records of a file that can be read.
	plainMax = FileMax + RecordMax + 1<<16
)

// These are the errors of files and manifests.
var (
	// ErrDamaged reports data that differs from the written data.
	ErrDamaged = errors.New("damaged")
	// ErrTooLarge reports a record that exceeds RecordMax.
	ErrTooLarge = errors.New("a row is too large for a backup")
)

var zstdCodecs = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	// NewWriter fails only on invalid options
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	// NewReader fails only on invalid options
	d, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(plainMax), zstd.WithDecoderConcurrency(2))
	return e, d
})

// Builder builds a file of records. The zero value has no records.
type Builder struct {
	plain   []byte
	key     []byte
	first   []byte
	records int
	full    bool
}

// Add adds a record. Keys must ascend. Add must not be called after Full has returned true.
func (b *Builder) Add(key, value []byte) error {
	if len(key)+len(value) > RecordMax {
		return fmt.Errorf("%w: %d bytes exceed the limit of %d", ErrTooLarge, len(key)+len(value), RecordMax)
	}
	shared := 0
	for shared < min(len(key), len(b.key)) && key[shared] == b.key[shared] {
		shared++
	}
	b.plain = binary.AppendUvarint(b.plain, uint64(shared))
	b.plain = binary.AppendUvarint(b.plain, uint64(len(key)-shared))
	b.plain = binary.AppendUvarint(b.plain, uint64(len(value)))
	b.plain = append(append(b.plain, key[shared:]...), value...)
	b.key = append(b.key[:0], key...)
	if b.records == 0 {
		b.first = bytes.Clone(key)
	}
	b.records++
	b.full = IsFileBoundary(len(b.plain), key, len(key)+len(value))
	return nil
}

// IsFileBoundary reports whether a file whose records have the given plain size ends after a record with the given key
// and size.
func IsFileBoundary(plain int, key []byte, size int) bool {
	if plain >= FileMax {
		return true
	}
	return plain >= FileMin && uint64(crc32.ChecksumIEEE(key))*FileMean < uint64(size)<<32
}

// Full reports whether the file must end after the last added record.
func (b *Builder) Full() bool { return b.full }

// Records returns the number of records in the file.
func (b *Builder) Records() int { return b.records }

// Plain returns the encoded, uncompressed records, which determine the file name.
func (b *Builder) Plain() []byte { return b.plain }

// File returns the description of the file for the manifest.
func (b *Builder) File() File {
	return File{Name: FileName(b.plain), Records: b.records, Bytes: int64(len(b.plain)), First: b.first}
}

// Data returns the content of the file.
func (b *Builder) Data() []byte { return Pack(b.plain) }

// Pack returns a file with the given plain records.
func Pack(plain []byte) []byte {
	e, _ := zstdCodecs()
	return e.EncodeAll(plain, append([]byte(fileMagic), fileFormat))
}

// FileName returns the name of a file, which is the digest of its plain records.
func FileName(plain []byte) string {
	sum := sha256.Sum256(plain)
	return hex.EncodeToString(sum[:])
}

// Unpack returns the plain records of the file with the given name. If the data does not match the name, it returns
// ErrDamaged.
func Unpack(name string, data []byte) ([]byte, error) {
	if len(data) < len(fileMagic)+1 || string(data[:len(fileMagic)]) != fileMagic {
		return nil, fmt.Errorf("file %s: %w: unknown file header", name, ErrDamaged)
	}
	if v := data[len(fileMagic)]; v != fileFormat {
		return nil, &feature.Newer{What: "file " + name, Unit: "format", Has: uint64(v), Oldest: fileFormat,
			Newest: fileFormat}
	}
	_, d := zstdCodecs()
	plain, err := d.DecodeAll(data[len(fileMagic)+1:], nil)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w: %w", name, ErrDamaged, err)
	}
	if FileName(plain) != name {
		return nil, fmt.Errorf("file %s: %w: its digest does not match", name, ErrDamaged)
	}
	return plain, nil
}

// EachRecord calls fn for each record in plain, in ascending order of keys. The arguments are valid only during the
// call.
func EachRecord(plain []byte, fn func(key, value []byte) error) error {
	var key []byte
	for len(plain) > 0 {
		var lens [3]uint64
		for i := range lens {
			v, n := binary.Uvarint(plain)
			if n <= 0 {
				return fmt.Errorf("record: %w", ErrDamaged)
			}
			lens[i], plain = v, plain[n:]
		}
		shared, rest, size := lens[0], lens[1], lens[2]
		if shared > uint64(len(key)) || rest > uint64(len(plain)) || size > uint64(len(plain))-rest {
			return fmt.Errorf("record: %w", ErrDamaged)
		}
		before := bytes.Clone(key)
		if key = append(key[:shared], plain[:rest]...); before != nil && bytes.Compare(key, before) <= 0 {
			return fmt.Errorf("record: %w: keys are not in ascending order", ErrDamaged)
		}
		if err := fn(key, plain[rest:rest+size]); err != nil {
			return err
		}
		plain = plain[rest+size:]
	}
	return nil
}
