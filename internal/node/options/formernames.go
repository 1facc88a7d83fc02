// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// renamedOption is a configuration option that had another name in an earlier release. Both names are in the same
// section.
type renamedOption struct {
	section, from, to string
	// unit is the unit that is appended to a value without a unit. The former name of the option contained the unit.
	unit string
}

// renamedOptions lists the former names of options. A former name works for one release, and the node logs a warning.
var renamedOptions = []renamedOption{
	{"", "data_center", "region", ""},
	{"", "rack", "zone", ""},
	{"memory", "journal", "change_buffer", ""},
	{"limits", "wait", "queue_delay_target", ""},
	{"limits", "throttled_wait", "throttle_timeout", ""},
	{"merges", "quiet_for", "idle_period", ""},
	{"auth", "open_pages", "anonymous_endpoints", ""},
	{"cluster", "heal_after", "rebuild_delay", ""},
	{"cluster", "capacity_gb", "capacity", "GiB"},
	{"cluster", "balance_slack_mb", "balance_threshold", "MiB"},
	{"cluster", "snapshot_mb_per_second", "snapshot_rate", "MB"},
	{"rest", "sort_freely", "allow_unindexed_order_by", ""},
}

// offValues maps each option that accepts the value off to the value that disables the option.
var offValues = map[string]string{
	"limits.queue_delay_target":       "-1ns",
	"limits.throttle_timeout":         "0s",
	"slow_query_log_timeout":          "0s",
	"splits.request_units_per_second": "-1",
	"storage.min_free_disk_percent":   "-1",
}

func (r renamedOption) path(name string) string {
	if r.section == "" {
		return name
	}
	return r.section + "." + name
}

// edit replaces the text of a scalar of a document.
type edit struct {
	line, column int // position of the first character, counted from 1
	length       int // number of characters
	text         string
}

// currentNames returns a configuration file in which former names are replaced with the current names. It also
// replaces the value off with the corresponding number. All lines keep their numbers. In addition, it returns a
// warning for each former name. A file that is not valid YAML is returned unchanged, because the decoder reports the
// error.
func currentNames(source []byte) (current []byte, warnings []string, err error) {
	var document yaml.Node
	if yaml.Unmarshal(source, &document) != nil || len(document.Content) == 0 {
		return source, nil, nil
	}
	var edits []edit
	root := document.Content[0]
	for _, r := range renamedOptions {
		section := root
		if r.section != "" {
			_, section = entry(root, r.section)
		}
		key, value := entry(section, r.from)
		if key == nil {
			continue
		}
		if other, _ := entry(section, r.to); other != nil {
			return nil, nil, fmt.Errorf("line %d: %s is the former name of %s, and both are set. Remove %s", key.Line,
				r.path(r.from), r.path(r.to), r.path(r.from))
		}
		warnings = append(warnings, fmt.Sprintf("option %s is deprecated. Use %s", r.path(r.from), r.path(r.to)))
		edits = append(edits, editOf(key, r.to))
		if r.unit != "" && value.Kind == yaml.ScalarNode {
			edits = append(edits, editOf(value, value.Value+r.unit))
		}
		key.Value = r.to
	}
	for path, number := range offValues {
		section, name, nested := strings.Cut(path, ".")
		node := root
		if nested {
			_, node = entry(root, section)
		} else {
			name = section
		}
		if _, value := entry(node, name); value != nil && value.Value == "off" {
			edits = append(edits, editOf(value, number))
		}
	}
	return applied(source, edits), warnings, nil
}

// entry returns the key and the value of an entry of a mapping, or nil if the entry does not exist.
func entry(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// editOf returns an edit that replaces a scalar, including its quotes.
func editOf(n *yaml.Node, text string) edit {
	length := len([]rune(n.Value))
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		length += 2
	}
	return edit{n.Line, n.Column, length, text}
}

// applied returns the source with all edits.
func applied(source []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { // start from the end to keep columns valid
		if a.line != b.line {
			return b.line - a.line
		}
		return b.column - a.column
	})
	lines := strings.Split(string(source), "\n")
	for _, e := range edits {
		line := []rune(lines[e.line-1])
		from, to := e.column-1, min(e.column-1+e.length, len(line))
		lines[e.line-1] = string(line[:from]) + e.text + string(line[to:])
	}
	return []byte(strings.Join(lines, "\n"))
}
