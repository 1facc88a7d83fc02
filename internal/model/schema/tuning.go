// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// These constants name Cassandra's compaction strategies. This file parses the options that tune Cassandra's storage.
// The options have no effect, but they are validated, stored, and returned. Schemas can therefore be exchanged with
// Cassandra unchanged.

const (
	compactionPackage  = "org.apache.cassandra.db.compaction."
	compressionPackage = "org.apache.cassandra.io.compress."
	sizeTiered         = "SizeTieredCompactionStrategy"
	leveled            = "LeveledCompactionStrategy"
	dateTiered         = "DateTieredCompactionStrategy"
	unified            = "UnifiedCompactionStrategy"
)

var commonCompaction = []string{
	"enabled", "log_all", "only_purge_repaired_tombstones", "provide_overlapping_tombstones",
	"tombstone_compaction_interval", "tombstone_threshold", "unchecked_tombstone_compaction",
	"min_threshold", "max_threshold", "bucket_high", "bucket_low", "min_sstable_size",
}

// compactionOptions maps each strategy to the options that only the strategy has.
var compactionOptions = map[string][]string{
	sizeTiered: nil,
	leveled:    {"fanout_size", "single_sstable_uplevel", "sstable_size_in_mb"},
	"TimeWindowCompactionStrategy": {
		"compaction_window_size", "compaction_window_unit", "expired_sstable_check_frequency_seconds",
		"timestamp_resolution", "unsafe_aggressive_sstable_expiration",
	},
	dateTiered: {"base_time_seconds", "max_sstable_age_days", "max_window_size_seconds", "timestamp_resolution"},
	unified: {
		"base_shard_count", "expired_sstable_check_frequency_seconds", "flush_size_override", "max_sstables_to_compact",
		"overlap_inclusion_method", "parallelize_output_shards", "scaling_parameters", "sstable_growth",
		"target_sstable_size", "unsafe_aggressive_sstable_expiration",
	},
}

// scalingParameter matches one scaling parameter of UnifiedCompactionStrategy.
var scalingParameter = regexp.MustCompile(`^(N|L[0-9]+|T[0-9]+|[+-]?[0-9]+)$`)

func compaction(given map[string]string, r *compat.Release) (map[string]string, error) {
	class, ok := given["class"]
	if !ok {
		return nil, dberr.Configf("Missing sub-option 'class' for the 'compaction' option.")
	}
	if !strings.Contains(class, ".") {
		class = compactionPackage + class
	}
	name := strings.TrimPrefix(class, compactionPackage)
	own, ok := compactionOptions[name]
	if !ok || name == dateTiered && !r.DateTiered {
		return nil, dberr.Configf("Unable to find compaction strategy class '%s'", class)
	}
	m := maps.Clone(given)
	m["class"] = class
	if err := checkSizes(name, m); err != nil {
		return nil, err
	}
	if size, ok := m["sstable_size_in_mb"]; ok && name == leveled {
		n, err := strconv.ParseInt(size, 10, 32)
		if err != nil {
			return nil, dberr.Configf("%s is not a parsable int (base10) for sstable_size_in_mb", size)
		}
		if n < 1 {
			return nil, dberr.Configf("sstable_size_in_mb must be larger than 0, but was %d", n)
		}
	}
	if unknown := keysExcept(m, append(append([]string{"class"}, commonCompaction...), own...)...); len(unknown) > 0 {
		return nil, dberr.Configf("Properties specified [%s] are not understood by %s", strings.Join(unknown, ", "),
			name)
	}
	return m, nil
}

// checkSizes validates a strategy's options for the number of compacted tables, and adds the defaults of these
// options.
func checkSizes(strategy string, m map[string]string) error {
	if strategy == unified {
		for _, p := range strings.Split(m["scaling_parameters"], ",") {
			if p = strings.TrimSpace(p); p != "" && !scalingParameter.MatchString(p) {
				return dberr.Configf("Scaling parameter %s must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+", p)
			}
		}
		return nil
	}
	for k, v := range map[string]string{"min_threshold": "4", "max_threshold": "32"} {
		if _, given := m[k]; !given {
			m[k] = v
		}
	}
	return checkThresholds(m)
}

func checkThresholds(m map[string]string) error {
	var threshold [2]int64
	for i, name := range []string{"min_threshold", "max_threshold"} {
		n, err := strconv.ParseInt(m[name], 10, 32)
		if err != nil {
			return dberr.Configf("Invalid value %s for '%s' compaction sub-option - must be an integer", m[name], name)
		}
		threshold[i] = n
	}
	lo, hi := threshold[0], threshold[1]
	if lo <= 0 || hi <= 0 {
		return dberr.Configf("Disabling compaction by setting compaction thresholds to 0 has been removed, set the " +
			"compaction option 'enabled' to 'false' instead.")
	}
	if lo <= 1 {
		return dberr.Configf("Min compaction threshold cannot be less than 2 (got %d)", lo)
	}
	if lo > hi {
		return dberr.Configf("Min compaction threshold (got %d) cannot be greater than max compaction threshold (got %d)", lo, hi)
	}
	return nil
}

// compressors maps each compressor to the options that only the compressor has.
var compressors = map[string][]string{
	"LZ4Compressor":     {"lz4_compressor_type", "lz4_high_compressor_level"},
	"SnappyCompressor":  nil,
	"DeflateCompressor": nil,
	"ZstdCompressor":    {"compression_level"},
	"NoopCompressor":    nil,
}

// zstdLevelMin and zstdLevelMax are the limits of the level of ZstdCompressor.
const zstdLevelMin, zstdLevelMax = -131072, 22

// compressionOff is the stored form of disabled compression.
var compressionOff = map[string]string{"enabled": "false"}

func compression(given map[string]string, r *compat.Release) (map[string]string, error) {
	m := maps.Clone(given)
	class, hasClass := m["class"]
	old, hasOld := m["sstable_compression"]
	hasOld = hasOld && r.OldCompression
	if hasClass && hasOld {
		return nil, dberr.Configf("The 'sstable_compression' option must not be used if the compression algorithm " +
			"is already specified by the 'class' option")
	}
	if hasOld {
		class, hasClass = old, true
	}
	enabled, hasEnabled := m["enabled"]
	if hasEnabled && !strings.EqualFold(enabled, "true") {
		if len(m) > 1 {
			return nil, dberr.Configf("If the 'enabled' option is set to false no other options must be specified")
		}
		return maps.Clone(compressionOff), nil
	}
	if len(m) == 0 {
		return maps.Clone(compressionOff), nil
	}
	if !hasClass {
		return nil, dberr.Configf("Missing sub-option 'class' for the 'compression' option.")
	}
	chunk, err := chunkLength(m)
	if err != nil {
		return nil, err
	}
	if class == "" {
		return maps.Clone(compressionOff), nil
	}
	if !strings.Contains(class, ".") {
		class = compressionPackage + class
	}
	own, known := compressors[strings.TrimPrefix(class, compressionPackage)]
	if !known {
		return nil, dberr.Configf("Could not create Compression for type %s", class)
	}
	own = append(slices.Clone(own), "min_compress_ratio")
	if r.OldCompression {
		own = append(own, "crc_check_chance", "sstable_compression")
		delete(m, "sstable_compression")
	}
	for _, k := range []string{"class", "enabled", "chunk_length_in_kb", "chunk_length_kb"} {
		delete(m, k)
	}
	if unknown := keysExcept(m, own...); len(unknown) > 0 {
		return nil, dberr.Configf("Unknown compression options %s", unknown[0])
	}
	if chunk <= 0 {
		return nil, dberr.Configf("Invalid negative or null chunk_length_in_kb")
	}
	if chunk&(chunk-1) != 0 {
		return nil, dberr.Configf("chunk_length_in_kb must be a power of 2")
	}
	if level, ok := m["compression_level"]; ok {
		if n, err := strconv.Atoi(level); err != nil || n < zstdLevelMin || n > zstdLevelMax {
			return nil, dberr.Configf("ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException "+
				"compression_level=%s is invalid", level)
		}
	}
	m["class"] = class
	m["chunk_length_in_kb"] = strconv.Itoa(chunk)
	return m, nil
}

func chunkLength(m map[string]string) (int, error) {
	text, ok := m["chunk_length_in_kb"]
	if !ok {
		if text, ok = m["chunk_length_kb"]; !ok {
			return 16, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, dberr.Configf("Invalid value for chunk_length_in_kb")
	}
	if n > math.MaxInt32/1024 {
		return 0, dberr.Configf("Value of chunk_length_in_kb is too large (%s)", text)
	}
	return n, nil
}

func caching(given map[string]string) (map[string]string, error) {
	if unknown := keysExcept(given, "keys", "rows_per_partition"); len(unknown) > 0 {
		return nil, dberr.Configf("Invalid caching sub-options [%s]: only 'keys' and 'rows_per_partition' are allowed",
			strings.Join(unknown, ", "))
	}
	m := map[string]string{"keys": "NONE", "rows_per_partition": "NONE"}
	if keys, ok := given["keys"]; ok {
		if m["keys"] = strings.ToUpper(keys); m["keys"] != "ALL" && m["keys"] != "NONE" {
			return nil, dberr.Configf("Invalid value '%s' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed", keys)
		}
	}
	if rows, ok := given["rows_per_partition"]; ok {
		if _, err := strconv.ParseUint(rows, 10, 31); err != nil &&
			!slices.Contains([]string{"ALL", "NONE"}, strings.ToUpper(rows)) {
			return nil, dberr.Configf("Invalid value '%s' for caching sub-option 'rows_per_partition': only 'ALL', "+
				"'NONE', and integer values are allowed", rows)
		}
		m["rows_per_partition"] = strings.ToUpper(rows)
	}
	return m, nil
}

var (
	percentilePolicy = regexp.MustCompile(`(?i)^(\d+(?:\.\d+)?)P(?:ERCENTILE)?$`)
	fixedPolicy      = regexp.MustCompile(`(?i)^(\d+(?:\.\d+)?)MS$`)
	hybridPolicy     = regexp.MustCompile(`(?i)^(MIN|MAX)\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)$`)
)

// speculation parses a speculative retry policy and returns its canonical form, such as 99p, 50ms, ALWAYS, NEVER, or
// MIN(99p,50ms).
func speculation(p *Property) (string, error) {
	text, err := p.simple()
	if err != nil {
		return "", err
	}
	if h := hybridPolicy.FindStringSubmatch(text); h != nil {
		left, leftOK := plainSpeculation(h[2])
		right, rightOK := plainSpeculation(h[3])
		if leftOK && rightOK && strings.HasSuffix(left, "p") != strings.HasSuffix(right, "p") {
			if !strings.HasSuffix(left, "p") {
				left, right = right, left
			}
			return strings.ToUpper(h[1]) + "(" + left + "," + right + ")", nil
		}
	} else if policy, ok := plainSpeculation(text); ok {
		return policy, nil
	} else {
		switch strings.ToUpper(text) {
		case "ALWAYS":
			return "ALWAYS", nil
		case "NEVER", "NONE":
			return "NEVER", nil
		}
	}
	return "", dberr.Configf("Invalid value %s for option '%s'", text, p.Name)
}

// plainSpeculation parses a percentile or a duration. At most four decimal places are kept, as in Cassandra.
func plainSpeculation(text string) (string, bool) {
	short := func(number string) (float64, string) {
		f, _ := strconv.ParseFloat(number, 64)
		s := strings.TrimRight(strconv.FormatFloat(f, 'f', 4, 64), "0")
		return f, strings.TrimSuffix(s, ".")
	}
	if m := percentilePolicy.FindStringSubmatch(text); m != nil {
		f, s := short(m[1])
		return s + "p", f > 0 && f < 100
	}
	if m := fixedPolicy.FindStringSubmatch(text); m != nil {
		_, s := short(m[1])
		return s + "ms", true
	}
	return "", false
}
