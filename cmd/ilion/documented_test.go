// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestStartIsDocumented proves that docs/configuration.md has every option of ilion start and no other, and that the
// defaults that the help tells are those of the page.
func TestStartIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page, _, _ := strings.Cut(string(text), "\n## Options in the configuration file")
	documented := map[string]string{} // the default
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "/"), "|")
		if len(cells) != 6 { // with what is before the first bar and behind the last
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
		if !ok && name != "config" { // which the page begins with
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
