// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/diskfs"
)

// comparer defines the key order of package keys. It compares keys bytewise and has a custom Split function.
var comparer = &pebble.Comparer{
	Name:                 keys.ComparerName,
	Compare:              bytes.Compare,
	Equal:                bytes.Equal,
	ComparePointSuffixes: bytes.Compare,
	CompareRangeSuffixes: bytes.Compare,
	AbbreviatedKey:       keys.Abbreviate,
	Split:                keys.Split,
	Separator:            keys.Separator,
	Successor:            keys.Successor,
	ImmediateSuccessor:   func(dst, a []byte) []byte { return append(append(dst, a...), 0) },
	FormatKey:            pebble.DefaultComparer.FormatKey,
}

// largeValues stores large rows in separate files once compactions have merged them. A block contains only small rows
// and references to large rows. Reads of small rows therefore do not decompress large rows, and compactions do not copy
// large rows.
var largeValues = pebble.ValueSeparationPolicy{
	Enabled:               true,
	MinimumSize:           largeValueMin,
	MaxBlobReferenceDepth: 10,
	RewriteMinimumAge:     5 * time.Minute,
	TargetGarbageRatio:    0.3,
}

const (
	// largeValueMin is the minimum size of a large row, in bytes.
	largeValueMin = 16 << 10

	blockBytes   = 32 << 10
	prefixBundle = 16
	bloomBits    = 10
	// Compactions cause half of the cost of writing. A large base level, more files in level 0, and larger files reduce
	// this cost. Compared with Pebble's defaults, they save 16 % of the CPU time of a write. The bloom filters keep the
	// cost of reading a recent row unchanged.
	l0Sublevels  = 8
	baseMemtable = 16       // size of the base level in memtables
	fileBytesMax = 32 << 20 // size of a file in level 0
)

// rowsAreNoVersions stores the values of a partition's rows next to their keys. By default, Pebble treats keys with the
// same Split prefix as versions of one key, and moves all values except the first to another block. A scan would then
// need another block for nearly every row.
var rowsAreNoVersions = pebble.SpanPolicy{DisableValueSeparationBySuffix: true}

// pebbleOptions returns the options of the Pebble store, such as columnar blocks, MinLZ, and bloom filters on every
// level.
func pebbleOptions(fs vfs.FS, o Options) *pebble.Options {
	schema := colblk.DefaultKeySchema(comparer, prefixBundle)
	po := &pebble.Options{
		FS:                          fs,
		Comparer:                    comparer,
		Merger:                      merger,
		KeySchema:                   schema.Name,
		KeySchemas:                  sstable.MakeKeySchemas(&schema),
		CacheSize:                   o.CacheBytes,
		MemTableSize:                uint64(o.MemtableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       l0Sublevels,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               max(64<<20, baseMemtable*o.MemtableBytes),
		MaxOpenFiles:                o.MaxOpenFiles,
		CompactionConcurrencyRange:  func() (int, int) { return 1, o.Compactions },
		ReadOnly:                    o.ReadOnly,
	}
	po.Experimental.SpanPolicyFunc = func([]byte) (pebble.SpanPolicy, []byte, error) {
		return rowsAreNoVersions, nil, nil
	}
	po.BlockPropertyCollectors = []func() pebble.BlockPropertyCollector{newChangesCollector}
	po.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy { return largeValues }
	po.TargetFileSizes[0] = min(max(o.MemtableBytes/2, 2<<20), fileBytesMax)
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		return pebble.UniformDBCompressionSettings(sstable.MinLZCompression)
	})
	for i := range po.Levels {
		po.Levels[i].BlockSize = blockBytes
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
		po.Levels[i].FilterType = pebble.TableFilter
	}
	return po
}

// logger logs only fatal messages, because Pebble calls Fatalf if its log cannot be written.
type logger struct{ e *engine }

func (logger) Infof(string, ...any)                {}
func (logger) Errorf(string, ...any)               {}
func (l logger) Fatalf(format string, args ...any) { l.e.broken(fmt.Sprintf(format, args...)) }

// backgroundEnded is called when a flush or compaction has ended.
func (s *Store) backgroundEnded(err error) {
	s.disk.recheckSoon()
	if err == nil {
		s.backgroundFailed.Store(false)
	}
}

func (s *Store) listener() *pebble.EventListener {
	return &pebble.EventListener{
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.stop(fmt.Errorf("%w: %s: %w", ErrCorrupt, info.Path, info.Details))
		},
		BackgroundError: func(err error) {
			if errors.Is(err, diskfs.ErrLowSpace) || errors.Is(err, pebble.ErrCancelledCompaction) {
				return // disk checks report a full disk, and Pebble retries canceled compactions
			}
			if !s.backgroundFailed.Swap(true) {
				s.o.Observer.BackgroundFailed(err)
			}
		},
		FlushBegin: func(pebble.FlushInfo) { s.sweptAt.Store(0) },
		FlushEnd: func(info pebble.FlushInfo) {
			s.hot.any.Store(false)
			s.backgroundEnded(info.Err)
		},
		CompactionEnd:   func(info pebble.CompactionInfo) { s.backgroundEnded(info.Err) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) { s.o.Observer.Stalled(true, info.Reason) },
		WriteStallEnd:   func() { s.o.Observer.Stalled(false, "") },
	}
}
