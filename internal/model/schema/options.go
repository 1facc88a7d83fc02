// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/hex"
	"maps"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// ttlMax is the maximum time to live in seconds, which is 20 years. bloomMin is Cassandra's minimum bloom filter false
// positive chance.
const (
	ttlMax   = 630720000
	bloomMin = 6.71e-5
)

// DefaultTableOptions returns the options of a table that was created without options.
func DefaultTableOptions() TableOptions {
	return TableOptions{
		GCGrace:               864000,
		BloomFilterFPChance:   0.01,
		CRCCheckChance:        1,
		AdditionalWritePolicy: "99p",
		SpeculativeRetry:      "99p",
		ReadRepair:            "BLOCKING",
		MinIndexInterval:      128,
		MaxIndexInterval:      2048,
		Caching:               map[string]string{"keys": "ALL", "rows_per_partition": "NONE"},
		Compaction: map[string]string{"class": compactionPackage + sizeTiered, "min_threshold": "4",
			"max_threshold": "32"},
		Compression: map[string]string{"class": compressionPackage + "LZ4Compressor",
			"chunk_length_in_kb": "16"},
	}
}

// clone returns a copy of the options and their maps.
func (o TableOptions) clone() TableOptions {
	o.Caching, o.Compaction, o.Compression = maps.Clone(o.Caching), maps.Clone(o.Compaction), maps.Clone(o.Compression)
	o.Cosmos = maps.Clone(o.Cosmos)
	extensions := maps.Clone(o.Extensions)
	o.Extensions = extensions
	return o
}

// defaults is shared by all decoded tables.
var defaults = DefaultTableOptions()

// share replaces maps that equal the defaults with the shared defaults. Sharing halves the memory of a schema with
// thousands of tables.
func (o *TableOptions) share() {
	for _, m := range []struct {
		have   *map[string]string
		common map[string]string
	}{{&o.Caching, defaults.Caching}, {&o.Compaction, defaults.Compaction}, {&o.Compression, defaults.Compression}} {
		if maps.Equal(*m.have, m.common) {
			*m.have = m.common
		}
	}
}

// propertyID is the property that sets the UUID of a new table.
const propertyID = "id"

// applyProperties applies the specified options to base. create is true for CREATE TABLE. In that case, the default of
// the bloom filter option depends on the compaction strategy.
func applyProperties(r *compat.Release, base TableOptions, properties []Property, create bool) (TableOptions, error) {
	o := base.clone()
	bloomGiven := false
	for i := range properties {
		p := &properties[i]
		if !knownProperty(p.Name) {
			return o, dberr.Syntaxf("Unknown property '%s'", p.Name)
		}
		bloomGiven = bloomGiven || p.Name == "bloom_filter_fp_chance"
	}
	if err := checkThroughputs(properties); err != nil {
		return o, err
	}
	for i := range properties {
		if err := o.set(&properties[i], r); err != nil {
			return o, err
		}
	}
	if create && !bloomGiven && o.Compaction["class"] == compactionPackage+leveled {
		o.BloomFilterFPChance = 0.1
	}
	return o, o.check()
}

var tableProperties = map[string]bool{
	"additional_write_policy": true, "bloom_filter_fp_chance": true, "caching": true, "cdc": true, "comment": true,
	"compaction":  true,
	"compression": true, "crc_check_chance": true, "default_time_to_live": true, "extensions": true,
	"gc_grace_seconds":   true,
	"max_index_interval": true, "memtable_flush_period_in_ms": true, "min_index_interval": true, "read_repair": true,
	"speculative_retry": true, propertyID: true, storageCapProperty: true, mergesProperty: true,
	retentionProperty:     true,
	"allow_auto_snapshot": true, "incremental_backups": true, "memtable": true,
}

func knownProperty(name string) bool {
	return tableProperties[name] || strings.HasPrefix(name, cosmosPrefix) || throughputOf(name) != ""
}

// set sets one supported option.
func (o *TableOptions) set(p *Property, r *compat.Release) (err error) {
	switch p.Name {
	case propertyID:
		return nil // the DDL transition handles this property
	case "comment":
		o.Comment, err = p.simple()
	case "default_time_to_live":
		o.DefaultTTL, err = p.int32()
	case "gc_grace_seconds":
		o.GCGrace, err = p.int32()
	case "bloom_filter_fp_chance":
		o.BloomFilterFPChance, err = p.float()
	case "crc_check_chance":
		o.CRCCheckChance, err = p.float()
	case "memtable_flush_period_in_ms":
		o.MemtableFlushPeriod, err = p.int32()
	case "min_index_interval":
		o.MinIndexInterval, err = p.int32()
	case "max_index_interval":
		o.MaxIndexInterval, err = p.int32()
	case "cdc":
		var text string
		text, err = p.simple()
		o.CDC = isTrue(text)
	case "speculative_retry":
		o.SpeculativeRetry, err = speculation(p)
	case "additional_write_policy":
		o.AdditionalWritePolicy, err = speculation(p)
	case "read_repair":
		o.ReadRepair, err = readRepair(p)
	case "allow_auto_snapshot":
		o.SnapshotsOff, err = switchedOff(p)
	case "incremental_backups":
		o.BackupsOff, err = switchedOff(p)
	case "memtable":
		return checkMemtable(p)
	case storageCapProperty:
		return o.setStorageCap(p)
	case mergesProperty:
		return o.setMerges(p)
	case retentionProperty:
		return o.setRetention(p)
	case "caching", "compaction", "compression", "extensions":
		return o.setMap(p, r)
	default:
		return setCosmos(&o.Cosmos, p, true)
	}
	return err
}

func (o *TableOptions) setMap(p *Property, r *compat.Release) (err error) {
	if !p.IsMap {
		return dberr.Syntaxf("Invalid value for property '%s'. It should be a map.", p.Name)
	}
	m := p.mapValue()
	switch p.Name {
	case "caching":
		o.Caching, err = caching(m)
	case "compaction":
		o.Compaction, err = compaction(m, r)
	case "compression":
		o.Compression, err = compression(m, r)
	default:
		o.Extensions = make(map[string][]byte, len(m))
		for k, v := range m {
			o.Extensions[k] = extension(v)
		}
	}
	return err
}

// extension parses the value of an extension. The value is a blob literal or a text, whose bytes are used.
func extension(text string) []byte {
	if digits, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		if b, err := hex.DecodeString(digits); err == nil {
			return b
		}
	}
	return []byte(text)
}

// switchedOff parses an option that is enabled by default.
func switchedOff(p *Property) (bool, error) {
	text, err := p.simple()
	if err != nil {
		return false, err
	}
	switch strings.ToLower(text) {
	case "1", "true", "yes":
		return false, nil
	case "0", "false", "no":
		return true, nil
	}
	return false, dberr.Syntaxf("Invalid boolean value %s for '%s'. Positive values can be '1', 'true' or 'yes'. "+
		"Negative values can be '0', 'false' or 'no'.", text, p.Name)
}

// checkMemtable accepts only the default memtable.
func checkMemtable(p *Property) error {
	text, err := p.simple()
	if err == nil && text != "default" {
		err = dberr.Configf("Memtable configuration \"%s\" not found.", text)
	}
	return err
}

func readRepair(p *Property) (string, error) {
	text, err := p.simple()
	if err != nil {
		return "", err
	}
	switch mode := strings.ToUpper(text); mode {
	case "BLOCKING", "NONE":
		return mode, nil
	}
	return "", dberr.Configf("Invalid value %s for option 'read_repair'", text)
}

// check validates the numeric options.
func (o *TableOptions) check() error {
	if o.BloomFilterFPChance <= bloomMin || o.BloomFilterFPChance > 1 {
		return dberr.Configf("bloom_filter_fp_chance must be larger than %s and less than or equal to 1.0 (got %s)",
			FormatDouble(bloomMin), FormatDouble(o.BloomFilterFPChance))
	}
	if o.CRCCheckChance < 0 || o.CRCCheckChance > 1 {
		return dberr.Configf("crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 "+
			"(got %s)", FormatDouble(o.CRCCheckChance))
	}
	atLeast := func(name string, v, least int32) error {
		if v < least {
			return dberr.Configf("%s must be greater than or equal to %d (got %d)", name, least, v)
		}
		return nil
	}
	if err := atLeast("default_time_to_live", o.DefaultTTL, 0); err != nil {
		return err
	}
	if o.DefaultTTL > ttlMax {
		return dberr.Configf("default_time_to_live must be less than or equal to %d (got %d)", ttlMax, o.DefaultTTL)
	}
	if err := atLeast("gc_grace_seconds", o.GCGrace, 0); err != nil {
		return err
	}
	if err := atLeast("min_index_interval", o.MinIndexInterval, 1); err != nil {
		return err
	}
	if o.MaxIndexInterval < o.MinIndexInterval {
		return dberr.Configf("max_index_interval must be greater than or equal to min_index_interval (%d) (got %d)",
			o.MinIndexInterval, o.MaxIndexInterval)
	}
	return atLeast("memtable_flush_period_in_ms", o.MemtableFlushPeriod, 0)
}
