// SPDX-License-Identifier: Apache-2.0

package planted

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/process"
)

// Edit is a mutation of the product's source code. It consists of a text that occurs exactly once in a file, and its
// replacement. The replacement calls mutated("a name") to determine whether the mutation is active. One binary can
// therefore contain all mutations.
type Edit struct{ File, Old, New string }

// chooser is the source of the function mutated. Build adds the function to each package that has an edit.
const chooser = `package %s

import "os"

var mutation = os.Getenv("` + variable + `")

func mutated(name string) bool { return mutation == name }
`

const variable = "SIM_MUTATION"

var packageOf = regexp.MustCompile(`(?m)^package (\w+)$`)

// Check fails the test for each edit whose text does not occur exactly once in its source file.
func Check(t *testing.T, edits ...Edit) {
	t.Helper()
	for _, e := range edits {
		source, err := os.ReadFile(e.File)
		if n := strings.Count(string(source), e.Old); err != nil || n != 1 {
			t.Errorf("%s contains %q %d times, want 1 (%v)", e.File, e.Old, n, err)
		}
	}
}

// Binary is a build of the package under test and its tests, with invariant checks and selectable mutations.
type Binary string

// Build builds the binary. Edits of the same file are applied in sequence.
func Build(t *testing.T, edits ...Edit) Binary {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	put := func(path, text string) {
		if replace[path] == "" {
			replace[path] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		}
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
		put(path, text)
		name := packageOf.FindStringSubmatch(text)[1]
		put(filepath.Join(filepath.Dir(path), "mutated.go"), fmt.Sprintf(chooser, name))
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "mutated.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "invariants", "-ldflags", "-s -w", "-overlay", overlay,
		"-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return Binary(bin)
}

// Seeds runs n seeds with a mutation. It uses no mutation if mistake is "". Seeds returns the output and reports
// whether a seed failed.
func (b Binary) Seeds(mistake string, from uint64, n int, args ...string) (out string, failed bool) {
	cmd := exec.Command(string(b), append(args, "-test.run=^TestSeeds$", fmt.Sprint("-sim.seeds=", n),
		fmt.Sprint("-sim.seed=", from))...)
	cmd.Env = append(os.Environ(), variable+"="+mistake)
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}
