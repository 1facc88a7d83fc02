// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFixturesStay checks that fixtures only grow. Each line of testdata/digests.txt contains a SHA-256 digest, a
// size, and a file name. The first bytes of the file, up to that size, must have that digest. Never change or remove a
// line. Add a line for each new file and for each file that has grown.
func TestFixturesStay(t *testing.T) {
	const digests = "digests.txt"
	list, err := os.ReadFile(filepath.Join("testdata", digests))
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]int{} // number of listed bytes of each file
	for line := range strings.Lines(string(list)) {
		var sum, name string
		var size int
		if _, err := fmt.Sscan(line, &sum, &size, &name); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		data, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
		if err != nil || len(data) < size {
			t.Errorf("%s has %d bytes, its digest covers %d: %v", name, len(data), size, err)
			continue
		}
		if is := sha256.Sum256(data[:size]); hex.EncodeToString(is[:]) != sum {
			t.Errorf("%s has changed: restore it and add a new fixture", name)
		}
		whole[name] = max(whole[name], size)
	}
	err = filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == digests {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("testdata", path)
		if name := filepath.ToSlash(rel); whole[name] != len(data) {
			sum := sha256.Sum256(data)
			t.Errorf("add to %s: %x %d %s", digests, sum, len(data), name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
