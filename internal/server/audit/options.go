// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"strings"
)

// The places that a log can be written to.
const (
	File   = "file"
	Syslog = "syslog"
)

// Options say what is written, and where. They have the names of audit_logging_options in Cassandra's configuration;
// lists are separated by commas.
type Options struct {
	Enabled bool `yaml:"enabled"`
	// Logger is file or syslog; file if empty.
	Logger string `yaml:"logger"`
	// Dir is where files go; the directory audit in the data directory if empty.
	Dir string `yaml:"audit_logs_dir"`
	// What is included is written, all if the list is empty, unless it is excluded. ExcludedKeyspaces is system,
	// system_schema, system_virtual_schema if it is not given.
	IncludedKeyspaces  string  `yaml:"included_keyspaces"`
	ExcludedKeyspaces  *string `yaml:"excluded_keyspaces"`
	IncludedCategories string  `yaml:"included_categories"`
	ExcludedCategories string  `yaml:"excluded_categories"`
	IncludedUsers      string  `yaml:"included_users"`
	ExcludedUsers      string  `yaml:"excluded_users"`
	// Block has requests wait where too much waits to be written, instead of dropping entries.
	Block bool `yaml:"block"`
	// QueueBytes is how much may wait, in bytes; 16 MiB if 0. FileBytes is the size of all files together; 1 GiB if 0.
	QueueBytes int   `yaml:"max_queue_weight"`
	FileBytes  int64 `yaml:"max_log_size"`
	// NoLiterals puts question marks for constants in statements.
	NoLiterals bool `yaml:"no_literals"`
}

// filter is a pair of lists.
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

// Categories are those that entries have.
var Categories = []string{"QUERY", "DML", "DDL", "DCL", "OTHER", "AUTH", "ERROR", "PREPARE"}

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

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	if !slices.Contains([]string{"", File, Syslog}, o.Logger) {
		return fmt.Errorf("audit_logging_options.logger %q is unknown: use file or syslog", o.Logger)
	}
	for _, c := range append(list(o.IncludedCategories), list(o.ExcludedCategories)...) {
		if !slices.Contains(Categories, c) {
			return fmt.Errorf("audit_logging_options: %q is not a category: use %s", c, strings.Join(Categories, ", "))
		}
	}
	if o.QueueBytes < 0 || o.FileBytes < 0 || o.FileBytes > 0 && o.FileBytes < filesMax<<10 {
		return fmt.Errorf("audit_logging_options: max_queue_weight and max_log_size are bytes, the latter at least %d",
			filesMax<<10)
	}
	return nil
}

// Settings are the options as system_views.settings shows them.
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
