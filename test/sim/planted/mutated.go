// SPDX-License-Identifier: Apache-2.0

package planted

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ilion-db/ilion/test/process"
)

// Edit is a mistake within the product, which cannot be planted around it: a text of a source file that stands there
// once, and what takes its place.
type Edit struct{ File, Old, New string }

// Mutated builds the tests of the package under test, with the laws, with source files of the product changed.
func Mutated(t *testing.T, edits ...Edit) (bin string) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for _, e := range edits {
		path, err := filepath.Abs(e.File)
		if err != nil {
			t.Fatal(err)
		}
		from := path
		if replace[path] != "" {
			from = replace[path]
		}
		text := process.Edited(t, from, e.Old, e.New)
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(dir, "mutated.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "invariants", "-overlay", overlay, "-o", bin,
		".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}
