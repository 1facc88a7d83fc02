// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestStartIsDocumented checks that docs/configuration.md lists exactly the options of ilion start, with the same
// defaults as the help text.
func TestStartIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page, _, _ := strings.Cut(string(text), "\n## Options in the configuration file")
	documented := map[string]string{} // maps documented options to defaults
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "/"), "|")
		if len(cells) != 6 { // four columns and the text before the first bar and after the last bar
			continue
		}
		for _, m := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(cells[1], -1) {
			documented[m[1]] = cells[3]
		}
	}
	options := reflect.TypeFor[startCommand]()
	for i := range options.NumField() {
		f := options.Field(i)
		name := f.Tag.Get("name")
		if name == "" {
			name = strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(f.Name, "$1-$2"))
		}
		said, ok := documented[name]
		if !ok && name != "config" { // the page describes this option in its introduction
			t.Errorf("--%s is not documented", name)
		}
		delete(documented, name)
		is := f.Tag.Get("default")
		if m := regexp.MustCompile(`\(default (?:none|([^)]*))\)`).FindStringSubmatch(f.Tag.Get("help")); m != nil {
			if m[1] != "${default}" {
				is = m[1]
			}
		}
		if is != "" && !strings.Contains(said, is) {
			t.Errorf("--%s: the default %s is documented as %s", name, is, said)
		}
	}
	for name := range documented {
		t.Errorf("--%s is documented and does not exist", name)
	}
	if options.NumField() < 10 {
		t.Errorf("only %d options", options.NumField())
	}
}
