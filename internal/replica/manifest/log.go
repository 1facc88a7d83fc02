// SPDX-License-Identifier: Apache-2.0

package manifest

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

// A chunk of a write-ahead log has, after its length and type, the number of the log, and up to where the log was
// synced when the chunk was written. Types below those have another form, without that offset.
const (
	logHeaderSize  = 19
	logTypeMin     = 9
	logTypeMax     = 12
	logNumberAt    = 7
	logSyncedAt    = 11
	logFileSuffix  = ".log"
	nothingInvalid = math.MaxUint64
)

// CheckLogs returns an error that wraps ErrDamaged and names the file if a write-ahead log in dir is not what was
// written to it, before its last few syncs. A crash may leave anything after that.
//
// Pebble takes the first chunk that is not right for the end of the newest log unless a chunk in a later block says
// that the log was synced beyond it. It asks none in the same block, and the offset that chunks give is too low: it
// counts no blocks that were full when they were written. So any number of synced writes may be lost without a word.
// Here every later chunk is asked, and it is enough that syncs are seen to go on (see witness).
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

// damagedAt returns where a log is damaged, nothingInvalid if it is not, in the offsets of its chunks.
func damagedAt(log io.Reader, number uint32) (at uint64, err error) {
	buf := make([]byte, blockSize)
	w := witness{invalid: nothingInvalid}
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
			case size > 0 && w.saw(synced):
				return w.invalid, nil
			case size > 0:
				i += size
				continue
			case w.invalid == nothingInvalid:
				w.invalid = begin + uint64(i)
			}
			i++ // the chunks after it begin anywhere
		}
	}
}

// witness finds out whether a chunk that is not right had been synced. Whatever was written when one sync ended is
// covered by the next but one: the next may have begun before.
type witness struct {
	invalid uint64 // where the chunk begins
	synced  uint64 // what the chunks after it say
	seen    int    // how many offsets they gave
}

// saw takes the offset of another valid chunk, and reports whether the invalid one must have been synced before.
func (w *witness) saw(synced uint64) bool {
	if w.invalid == nothingInvalid {
		return false
	}
	if w.seen == 0 || synced > w.synced {
		w.synced = synced
		w.seen++
	}
	return w.seen > 2 || synced > w.invalid
}

// logChunk returns the length of the chunk that begins text, header included, and how far the log was synced before
// it; 0 if none does.
func logChunk(text []byte, number uint32) (size int, synced uint64) {
	if text[6] < logTypeMin || text[6] > logTypeMax || binary.LittleEndian.Uint32(text[logNumberAt:]) != number {
		return 0, 0
	}
	size = logHeaderSize + int(binary.LittleEndian.Uint16(text[4:]))
	if size > len(text) || !sums(text[:size]) {
		return 0, 0
	}
	return size, binary.LittleEndian.Uint64(text[logSyncedAt:])
}
