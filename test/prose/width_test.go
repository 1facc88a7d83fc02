// SPDX-License-Identifier: Apache-2.0

package prose

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// unbroken matches lines that cannot be wrapped. Such a line consists of a single long word or link, optionally after
// a list marker.
var unbroken = regexp.MustCompile(`^\s*([-*+]\s+|[0-9]+\.\s+)?(\S+|!?\[[^\]]*\]\([^)]*\)\S*)$`)

// checkWidth reports the lines of prose in Markdown that are wider than limit columns.
func checkWidth(t *testing.T, limit int) {
	var wide []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && isSkipped(d.Name()) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".md") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fenced := false
		for i, line := range strings.Split(string(source), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			// Only the displayed text of a link counts, because the target cannot be wrapped.
			shown := link.ReplaceAllString(line, "$1")
			n := utf8.RuneCountInString(shown)
			if n > limit && !fenced && !strings.HasPrefix(strings.TrimSpace(line), "|") && !unbroken.MatchString(line) {
				wide = append(wide, fmt.Sprintf("%s:%d: %d columns", strings.TrimPrefix(path, root+"/"), i+1, n))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(wide) > 0 {
		t.Errorf("wrap prose at %d columns:\n\t%s", limit, strings.Join(wide, "\n\t"))
	}
}
