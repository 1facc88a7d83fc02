// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"crypto/cipher"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// sector is the number of bytes that a disk writes atomically.
	sector = 512
	// writeBytes is the maximum number of bytes that are encrypted for one write.
	writeBytes = 64 << 10
	// tailMin is the minimum number of zeros at the end of a file that are treated as unwritten. A shorter tail may be
	// zero by chance.
	tailMin = 16
)

// writeBuffers holds buffers for encrypted bytes of files that are not encrypted in place.
var writeBuffers = sync.Pool{New: func() any { return new([writeBytes]byte) }}

// errRandomWrite rejects writes that would use a keystream twice (EN2).
var errRandomWrite = errors.New("an encrypted file can only be written from start to end")

// file is an encrypted file. Like other files, it is either written or read sequentially by one goroutine. ReadAt is
// safe for concurrent use.
type file struct {
	vfs.File
	keys *Keys
	// key is nil if a crash has truncated the header. The file is then empty.
	key   *dataKey
	nonce []byte
	// inPlace is set if Write may change its argument, which vfs.File permits and Pebble supports. Other callers may
	// read the argument after the write, for example through bufio and io.TeeReader.
	inPlace bool
	// stream is the keystream at the end of the written contents, or nil before the first write.
	stream cipher.Stream
	// failed is the error of the first failed write. The keystream is then no longer in step with the file.
	failed error
	readAt int64 // offset of the next Read
	// next is the keystream after the last read, for sequential reads. A reader takes it out while using it.
	next atomic.Pointer[keystream]
}

// keystream is a keystream at an offset.
type keystream struct {
	cipher.Stream
	at int64
}

// Write implements vfs.File.
func (f *file) Write(b []byte) (int, error) {
	if f.failed != nil {
		return 0, f.failed
	}
	if f.key == nil {
		return 0, errRandomWrite
	}
	if f.stream == nil {
		f.stream = f.key.stream(f.nonce, 0)
	}
	if f.inPlace {
		f.stream.XORKeyStream(b, b)
		return f.writeRaw(b)
	}
	buf := writeBuffers.Get().(*[writeBytes]byte)
	defer writeBuffers.Put(buf)
	total := 0
	for len(b) > 0 {
		out := buf[:min(len(b), writeBytes)]
		f.stream.XORKeyStream(out, b[:len(out)])
		n, err := f.writeRaw(out)
		total += n
		if err != nil {
			return total, err
		}
		b = b[len(out):]
	}
	return total, nil
}

// writeRaw writes encrypted bytes.
func (f *file) writeRaw(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.keys.written.Add(int64(n))
	f.failed = err
	return n, err
}

// WriteAt implements vfs.File.
func (f *file) WriteAt([]byte, int64) (int, error) { return 0, errRandomWrite }

// Read implements vfs.File.
func (f *file) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, f.readAt)
	f.readAt += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	if f.key == nil {
		if len(b) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n, err := f.File.ReadAt(b, at+headerSize)
	if n > 0 {
		if err := f.decrypt(b[:n], at); err != nil {
			return 0, err
		}
	}
	return n, err
}

// decrypt decrypts the bytes at an offset. Unwritten sectors stay zeros (EN5). A sector of zeros occurs in encrypted
// bytes with a probability of 2^-4096.
func (f *file) decrypt(b []byte, at int64) error {
	begin := 0 // start of the bytes that have not been decrypted
	for i := 0; i < len(b); {
		rawAt := at + headerSize + int64(i)
		end := min(len(b), i+int(sector-rawAt%sector))
		if b[i] == 0 && isZero(b[i:end]) {
			unwritten, err := f.unwritten(rawAt, end-i)
			if err != nil {
				return err
			}
			if unwritten {
				f.xor(b[begin:i], at+int64(begin))
				begin = end
			}
		}
		i = end
	}
	f.xor(b[begin:], at+int64(begin))
	return nil
}

func (f *file) xor(b []byte, at int64) {
	if len(b) == 0 {
		return
	}
	s := f.next.Swap(nil)
	if s == nil {
		s = new(keystream)
	}
	if s.Stream == nil || s.at != at {
		s.Stream = f.key.stream(f.nonce, at)
	}
	s.XORKeyStream(b, b)
	s.at = at + int64(len(b))
	f.next.Store(s)
}

// unwritten reports whether the sector that contains n zeros at an offset in the raw file was never written. The last
// sector of a file may be incomplete: a few zeros count as unwritten only after another unwritten sector.
func (f *file) unwritten(rawAt int64, n int) (bool, error) {
	if n == sector {
		return true, nil
	}
	begin := rawAt - rawAt%sector
	b := make([]byte, sector)
	got, err := f.File.ReadAt(b, begin)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch {
	case !isZero(b[:got]) || begin == 0:
		return false, nil
	case got >= tailMin:
		return true, nil
	}
	if _, err := f.File.ReadAt(b, begin-sector); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return begin > sector && isZero(b), nil
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Preallocate implements vfs.File.
func (f *file) Preallocate(at, length int64) error { return f.File.Preallocate(at+headerSize, length) }

// SyncTo implements vfs.File.
func (f *file) SyncTo(length int64) (bool, error) { return f.File.SyncTo(length + headerSize) }

// Prefetch implements vfs.File.
func (f *file) Prefetch(at, length int64) error { return f.File.Prefetch(at+headerSize, length) }

// Stat implements vfs.File.
func (f *file) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return fileInfo{info}, nil
}

// fileInfo is the information about an encrypted file.
type fileInfo struct{ vfs.FileInfo }

// Size implements os.FileInfo.
func (i fileInfo) Size() int64 { return max(0, i.FileInfo.Size()-headerSize) }
