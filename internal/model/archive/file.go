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
	// FileMin and FileMean are how large the records of a file are at least, but for the last of a partition, and about
	// how much more they have on average; FileMax is from where on a file ends whatever the keys. In bytes.
	FileMin  = 1 << 20
	FileMean = 1 << 20
	FileMax  = 8 << 20
	// RecordMax bounds a record, in bytes: what is larger does not fit into a message between nodes.
	RecordMax = 48 << 20
	// plainMax bounds the records of a file that is read.
	plainMax = FileMax + RecordMax + 1<<16
)

// Errors of files and manifests.
var (
	// ErrDamaged refuses what is not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrTooLarge refuses a record above RecordMax.
	ErrTooLarge = errors.New("a row is too large for a backup")
)

var zstdCodecs = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2)) // fail on
	d, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(plainMax), zstd.WithDecoderConcurrency(2))      // bad options
	return e, d
})

// Builder makes a file of records. The zero value is one without any.
type Builder struct {
	plain   []byte
	key     []byte
	first   []byte
	records int
	full    bool
}

// Add adds a record; keys ascend. Once Full it takes no more.
func (b *Builder) Add(key, value []byte) error {
	if len(key)+len(value) > RecordMax {
		return fmt.Errorf("%w: %d bytes, %d is the most", ErrTooLarge, len(key)+len(value), RecordMax)
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

// Cut reports whether a file with so many bytes of records ends behind a record with that key and size.
func IsFileBoundary(plain int, key []byte, size int) bool {
	if plain >= FileMax {
		return true
	}
	return plain >= FileMin && uint64(crc32.ChecksumIEEE(key))*FileMean < uint64(size)<<32
}

// Full reports whether the file ends here.
func (b *Builder) Full() bool { return b.full }

// Records is how many there are.
func (b *Builder) Records() int { return b.records }

// Plain are the records as they are named and packed.
func (b *Builder) Plain() []byte { return b.plain }

// File is what a manifest says of the file.
func (b *Builder) File() File {
	return File{Name: FileName(b.plain), Records: b.records, Bytes: int64(len(b.plain)), First: b.first}
}

// Data is the file.
func (b *Builder) Data() []byte { return Pack(b.plain) }

// Pack makes a file of plain bytes.
func Pack(plain []byte) []byte {
	e, _ := zstdCodecs()
	return e.EncodeAll(plain, append([]byte(fileMagic), fileFormat))
}

// NameOf is the name of a file: what is in it decides.
func FileName(plain []byte) string {
	sum := sha256.Sum256(plain)
	return hex.EncodeToString(sum[:])
}

// Unpack returns the plain bytes of the file with that name, or ErrDamaged.
func Unpack(name string, data []byte) ([]byte, error) {
	if len(data) < len(fileMagic)+1 || string(data[:len(fileMagic)]) != fileMagic {
		return nil, fmt.Errorf("file %s: %w: it is no file of a backup", name, ErrDamaged)
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
		return nil, fmt.Errorf("file %s: %w: its digest is another one", name, ErrDamaged)
	}
	return plain, nil
}

// Each passes the records of plain bytes on, in ascending order of their keys. Arguments are valid during the call.
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
			return fmt.Errorf("record: %w: keys do not ascend", ErrDamaged)
		}
		if err := fn(key, plain[rest:rest+size]); err != nil {
			return err
		}
		plain = plain[rest+size:]
	}
	return nil
}
