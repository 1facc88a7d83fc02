// SPDX-License-Identifier: Apache-2.0

//go:build integration

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSite checks that the documentation builds into a site without broken links and with a search index. `make site`
// installs the tools.
func TestSite(t *testing.T) {
	folder := filepath.Join(root, "deploy/site")
	if _, err := os.Stat(filepath.Join(folder, "node_modules/vitepress")); err != nil {
		t.Skip("the site generator is not installed: run make site")
	}
	out := filepath.Join(t.TempDir(), "site")
	cmd := exec.CommandContext(t.Context(), "node", "build.mjs", out)
	cmd.Dir = folder
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, file := range documents(t) {
		page, _ := filepath.Rel(root, file)
		page = strings.Replace(strings.TrimSuffix(page, ".md"), "README", "index", 1) + ".html"
		if _, err := os.Stat(filepath.Join(out, page)); err != nil {
			t.Error(err)
		}
	}
	index, err := filepath.Glob(filepath.Join(out, "assets/chunks/@localSearchIndexroot.*.js"))
	if err != nil || len(index) != 1 {
		t.Errorf("found %d search indexes, want 1: %v", len(index), err)
	}
}
