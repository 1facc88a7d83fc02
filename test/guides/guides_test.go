// SPDX-License-Identifier: Apache-2.0

// Package guides checks that the examples in the guides in docs/ have the results that the guides show.
//
// The shell executes every block of a guide that is marked as cql on a separate node, in the order of the page. If the
// next block has no mark, it must equal the output of the shell. The flag -rewrite replaces that block with the actual
// output.
package guides

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/shell"
)

var rewrite = flag.Bool("rewrite", false, "write the output of the shell to the guides")

// guides maps each page to its minimum number of blocks.
var guides = map[string]int{
	"data-modeling.md": 8, "consistency.md": 1, "capacity.md": 2, "migrate-from-cassandra.md": 1,
	"migrate-from-cosmos-db.md": 3, "vectors.md": 5, "views.md": 1,
}

// example matches a block of CQL and, if it exists, the block that shows the result.
var example = regexp.MustCompile("(?s)```cql\n(.*?)```\n(\n```\n(.*?)```\n)?")

// TestGuides checks that the statements of the guides have the results that the guides show.
func TestGuides(t *testing.T) {
	for page, least := range guides {
		t.Run(page, func(t *testing.T) {
			path := filepath.Join("../../docs", page)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			db, err := ilion.Start(t.Context(), ilion.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			blocks := example.FindAllStringSubmatchIndex(string(text), -1)
			if len(blocks) < least {
				t.Fatalf("found %d blocks, want at least %d", len(blocks), least)
			}
			var out strings.Builder
			s, err := shell.New(t.Context(), shell.Options{Addr: db.CQLAddr().String(), Consistency: dberr.One,
				Out: &out, Err: &out})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var is strings.Builder // the corrected page
			end := 0
			for _, b := range blocks {
				out.Reset()
				err := s.Run(t.Context(), strings.NewReader(string(text[b[2]:b[3]])), "")
				shown := b[4] >= 0
				switch {
				case err != nil && !shown:
					t.Fatalf("%s\n%v", text[b[2]:b[3]], err)
				case err != nil:
					out.WriteString(err.Error())
				case !shown:
					continue
				}
				is.Write(text[end:b[6]])
				is.WriteString(block(out.String()))
				end = b[7]
				if got := block(out.String()); got != string(text[b[6]:b[7]]) && !*rewrite {
					t.Errorf("%s\nshows\n%s\nand the page\n%s", text[b[2]:b[3]], got, text[b[6]:b[7]])
				}
			}
			is.Write(text[end:])
			if *rewrite {
				if err := os.WriteFile(path, []byte(is.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// block returns the output of the shell in the form that a page shows, without surrounding blank lines and without
// trailing spaces.
func block(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}
