// SPDX-License-Identifier: Apache-2.0

package pebblecheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A chunk of a write-ahead log contains, after its length and type, the number of the log and the offset up to which
// the log had been synced when the chunk was written. Chunks of lower types do not contain this offset.
const (
	logHeaderSize  = 19
	logTypeMin     = 9
	logTypeMax     = 12
	logNumberAt    = 7
	logSyncedAt    = 11
	logFileSuffix  = ".log"
	nothingInvalid = math.MaxUint64
)

// CheckLogs returns an error that wraps ErrDamaged and contains the file name if a write-ahead log in dir is damaged
// before the last few syncs. A crash may leave any bytes after these syncs.
//
// Pebble treats the first invalid chunk as the end of the newest log, unless a chunk in a later block contains a higher
// synced offset. Pebble ignores later chunks in the same block. The synced offset is also too low, because it does not
// count full blocks. Pebble can therefore silently lose synced writes. CheckLogs examines all later chunks, and
// requires only that the synced offset advance (see syncTracker).
func CheckLogs(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		text, isLog := strings.CutSuffix(name, logFileSuffix)
		number, err := strconv.ParseUint(text, 10, 64)
		if !isLog || err != nil {
			continue
		}
		path := fs.PathJoin(dir, name)
		f, err := fs.Open(path)
		if err != nil {
			return err
		}
		at, err := damagedAt(f, uint32(number))
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if at != nothingInvalid {
			return damaged(path, at)
		}
	}
	return nil
}

// damagedAt returns the offset at which a log is damaged, or nothingInvalid if the log is not damaged. The offset has
// the same meaning as the offsets in chunks.
func damagedAt(log io.Reader, number uint32) (at uint64, err error) {
	buf := make([]byte, blockSize)
	w := syncTracker{invalid: nothingInvalid}
	for begin := uint64(0); ; begin += blockSize {
		n, err := io.ReadFull(log, buf)
		if n == 0 && errors.Is(err, io.EOF) {
			return nothingInvalid, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		block := buf[:n]
		for i := 0; len(block)-i >= logHeaderSize; {
			size, synced := logChunk(block[i:], number)
			switch {
			case size > 0 && w.observe(synced):
				return w.invalid, nil
			case size > 0:
				i += size
				continue
			case w.invalid == nothingInvalid:
				w.invalid = begin + uint64(i)
			}
			i++ // later chunks may start at any byte
		}
	}
}

// syncTracker determines whether an invalid chunk had been synced. Only the second sync after a write certainly covers
// the written bytes, because the first sync may have started before the write.
type syncTracker struct {
	invalid uint64 // offset of the invalid chunk
	synced  uint64 // synced offset in the chunks after the invalid chunk
	seen    int    // number of distinct offsets seen
}

// observe records the synced offset of another valid chunk. It reports whether the invalid chunk must have been synced
// before this valid chunk was written.
func (w *syncTracker) observe(synced uint64) bool {
	if w.invalid == nothingInvalid {
		return false
	}
	if w.seen == 0 || synced > w.synced {
		w.synced = synced
		w.seen++
	}
	return w.seen > 2 || synced > w.invalid
}

// logChunk returns the length, including the header, and the synced offset of the chunk at the start of text. The
// length is 0 if text does not start with a valid chunk.
func logChunk(text []byte, number uint32) (size int, synced uint64) {
	if text[6] < logTypeMin || text[6] > logTypeMax || binary.LittleEndian.Uint32(text[logNumberAt:]) != number {
		return 0, 0
	}
	size = logHeaderSize + int(binary.LittleEndian.Uint16(text[4:]))
	if size > len(text) || !checksumMatches(text[:size]) {
		return 0, 0
	}
	return size, binary.LittleEndian.Uint64(text[logSyncedAt:])
}
