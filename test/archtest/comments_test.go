// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is the maximum width of prose in comments. A tab counts as four columns.
const columns = 120

// TestCommentsFit checks that comments fit into the maximum width. Indented drawings, tables, and code in comments may
// be wider. Words that cannot be broken may also be wider.
func TestCommentsFit(t *testing.T) {
	eachFile(t, func(path string, source []byte) {
		for i, line := range strings.Split(string(source), "\n") {
			prose, ok := strings.CutPrefix(strings.TrimLeft(line, "\t"), "// ")
			if !ok || strings.HasPrefix(prose, " ") || strings.HasPrefix(prose, "\t") || !strings.Contains(prose, " ") {
				continue
			}
			if n := width(line); n > columns {
				t.Errorf("%s:%d: the comment is %d columns wide, the limit is %d", path, i+1, n, columns)
			}
		}
	})
}

// eachFile calls f for every Go file of the project.
func eachFile(t *testing.T, f func(path string, source []byte)) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path == filepath.Join("../..", "deploy") {
			// skip folders without Go files, and the folder in which the website may be built during this test
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil {
			f(path, source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func width(line string) int { return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) }
