// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"strings"
)

// These are the destinations of a log.
const (
	File   = "file"
	Syslog = "syslog"
)

// Options selects the entries and the destination. The names of the options match audit_logging_options in Cassandra's
// configuration. Lists are separated by commas.
type Options struct {
	Enabled bool `yaml:"enabled"`
	// Logger is file or syslog. If Logger is empty, the destination is file.
	Logger string `yaml:"logger"`
	// Dir is the directory of the files. If Dir is empty, the directory is the subdirectory audit of the data
	// directory.
	Dir string `yaml:"audit_logs_dir"`
	// Included items are logged unless they are excluded. An empty list includes all items. The default of
	// ExcludedKeyspaces is system, system_schema, and system_virtual_schema.
	IncludedKeyspaces  string  `yaml:"included_keyspaces"`
	ExcludedKeyspaces  *string `yaml:"excluded_keyspaces"`
	IncludedCategories string  `yaml:"included_categories"`
	ExcludedCategories string  `yaml:"excluded_categories"`
	IncludedUsers      string  `yaml:"included_users"`
	ExcludedUsers      string  `yaml:"excluded_users"`
	// Block makes requests wait when the queue is full. If Block is not set, entries are dropped.
	Block bool `yaml:"block"`
	// QueueBytes is the maximum size of the queue in bytes. The value 0 selects 16 MiB. FileBytes is the maximum total
	// size of all files. The value 0 selects 1 GiB.
	QueueBytes int   `yaml:"max_queue_weight"`
	FileBytes  int64 `yaml:"max_log_size"`
	// NoLiterals replaces constants in statements with question marks.
	NoLiterals bool `yaml:"no_literals"`
	// Sealer encrypts the files. If it is nil, they are not encrypted.
	Sealer Sealer `yaml:"-"`
}

// Sealer encrypts parts of a file. It is an *encryption.Keys.
type Sealer interface {
	// Seal returns an encrypted record that can be appended to a file.
	Seal(b []byte) ([]byte, error)
}

// filter is a pair of lists for one property.
type filter struct{ included, excluded []string }

func newFilter(included, excluded string) filter { return filter{list(included), list(excluded)} }

func (f filter) has(s string) bool {
	return (len(f.included) == 0 || slices.Contains(f.included, s)) && !slices.Contains(f.excluded, s)
}

func list(s string) (out []string) {
	for _, part := range strings.Split(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// categories lists the categories of entries.
var categories = []string{"QUERY", "DML", "DDL", "DCL", "OTHER", "AUTH", "ERROR", "PREPARE"}

func (o Options) withDefaults(dir string) Options {
	if o.Logger == "" {
		o.Logger = File
	}
	if o.Dir == "" {
		o.Dir = dir
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 16 << 20
	}
	if o.FileBytes == 0 {
		o.FileBytes = 1 << 30
	}
	return o
}

func (o *Options) excludedKeyspaces() string {
	if o.ExcludedKeyspaces == nil {
		return "system,system_schema,system_virtual_schema"
	}
	return *o.ExcludedKeyspaces
}

// Validate reports invalid options.
func (o *Options) Validate() error {
	if !slices.Contains([]string{"", File, Syslog}, o.Logger) {
		return fmt.Errorf("audit_logging_options.logger %q is unknown: use file or syslog", o.Logger)
	}
	for _, c := range append(list(o.IncludedCategories), list(o.ExcludedCategories)...) {
		if !slices.Contains(categories, c) {
			return fmt.Errorf("audit_logging_options: %q is not a category: use %s", c, strings.Join(categories, ", "))
		}
	}
	if o.QueueBytes < 0 || o.FileBytes < 0 || o.FileBytes > 0 && o.FileBytes < filesMax<<10 {
		return fmt.Errorf("audit_logging_options: max_queue_weight and max_log_size must be numbers of bytes; "+
			"max_log_size must be at least %d",
			filesMax<<10)
	}
	return nil
}

// Settings returns the options in the form of system_views.settings.
func (o *Options) Settings() map[string]string {
	logger := o.Logger
	if logger == "" {
		logger = File
	}
	return map[string]string{
		"audit_logging_options_enabled":             fmt.Sprint(o.Enabled),
		"audit_logging_options_logger":              logger,
		"audit_logging_options_audit_logs_dir":      o.Dir,
		"audit_logging_options_included_keyspaces":  o.IncludedKeyspaces,
		"audit_logging_options_excluded_keyspaces":  o.excludedKeyspaces(),
		"audit_logging_options_included_categories": o.IncludedCategories,
		"audit_logging_options_excluded_categories": o.ExcludedCategories,
		"audit_logging_options_included_users":      o.IncludedUsers,
		"audit_logging_options_excluded_users":      o.ExcludedUsers,
	}
}
