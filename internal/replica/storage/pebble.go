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
	"github.com/ilion-db/ilion/internal/replica/guard"
)

// comparer is the order of package keys. Plain bytes, but for Split.
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

// largeValues keeps rows of many kilobytes in files of their own, once compactions have merged them: a block holds its
// small rows and where the large ones are, so reading one of the former decompresses none of the latter, and
// compactions do not copy them.
var largeValues = pebble.ValueSeparationPolicy{
	Enabled:               true,
	MinimumSize:           largeValueMin,
	MaxBlobReferenceDepth: 10,
	RewriteMinimumAge:     5 * time.Minute,
	TargetGarbageRatio:    0.3,
}

const (
	// largeValueMin is from which size on a row counts as large, in bytes.
	largeValueMin = 16 << 10

	blockBytes   = 32 << 10
	prefixBundle = 16
	bloomBits    = 10
	// Half of what writing costs is compaction. A wide base level, some more files in level 0 and large files rewrite
	// less: 16 % less CPU per write than Pebble's defaults with the same memtables, and bloom filters keep the read of
	// a fresh row as cheap.
	l0Sublevels  = 8
	baseMemtable = 16       // size of the base level in memtables
	fileBytesMax = 32 << 20 // of a file in level 0
)

// rowsAreNoVersions keeps the values of a partition's rows beside their keys. By default Pebble takes keys that share
// what Split cuts off for versions of one key, and moves the values of all but the first out of the way: every row of a
// scan would be fetched from another block.
var rowsAreNoVersions = pebble.SpanPolicy{DisableValueSeparationBySuffix: true}

// pebbleOptions are those that the benchmarks were made with: columnar blocks, MinLZ, bloom filters on every level.
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

// logger passes on only what ends the process: Pebble calls Fatalf when its log cannot be written.
type logger struct{ e *engine }

func (logger) Infof(string, ...any)                {}
func (logger) Errorf(string, ...any)               {}
func (l logger) Fatalf(format string, args ...any) { l.e.broken(fmt.Sprintf(format, args...)) }

// ended is told how a flush or compaction ended.
func (s *Store) ended(err error) {
	s.disk.lookAgain()
	if err == nil {
		s.troubled.Store(false)
	}
}

func (s *Store) listener() *pebble.EventListener {
	return &pebble.EventListener{
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.stop(fmt.Errorf("%w: %s: %w", ErrCorrupt, info.Path, info.Details))
		},
		BackgroundError: func(err error) {
			if errors.Is(err, guard.ErrNoRoom) || errors.Is(err, pebble.ErrCancelledCompaction) {
				return // the disk tells of the one; the other had to give way to an installation and is made again
			}
			if !s.troubled.Swap(true) && s.o.Events.Background != nil {
				s.o.Events.Background(err)
			}
		},
		FlushBegin: func(pebble.FlushInfo) { s.sweptAt.Store(0) },
		FlushEnd: func(info pebble.FlushInfo) {
			s.hot.any.Store(false)
			s.ended(info.Err)
		},
		CompactionEnd: func(info pebble.CompactionInfo) { s.ended(info.Err) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			if s.o.Events.Stall != nil {
				s.o.Events.Stall(true, info.Reason)
			}
		},
		WriteStallEnd: func() {
			if s.o.Events.Stall != nil {
				s.o.Events.Stall(false, "")
			}
		},
	}
}
