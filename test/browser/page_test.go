// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package browser tests a node's web page in Debian's headless chromium, which `make browser` installs. The tests are
// skipped if chromium is not installed.
package browser

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion"
)

// startPage returns the address of a node that has a table with one row.
func startPage(t *testing.T) string {
	t.Helper()
	db, err := ilion.Start(t.Context(), ilion.Options{HTTPAddr: "127.0.0.1:0", MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	base := "http://" + db.HTTPAddr().String()
	for _, statement := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.foods (food_group text PRIMARY KEY, n int)",
		"INSERT INTO ks.foods (food_group, n) VALUES ('<i>Beef Products', 1)",
	} {
		resp, err := http.PostForm(base+"/ui/explore", url.Values{"statement": {statement}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	return base
}

// open shows a page in the browser for several seconds of virtual time. open returns the resulting DOM and the
// browser's console messages.
func open(t *testing.T, page string, flags ...string) (dom, console string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: run make browser")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + t.TempDir(),
		"--enable-logging=stderr", "--virtual-time-budget=7000", "--dump-dom"}, flags...)
	c := exec.CommandContext(ctx, chromium, append(args, page)...)
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", page, err, log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "CONSOLE") {
			console += line
		}
	}
	return out.String(), console
}

// TestPageIsLive checks that a browser shows every view without console messages. For example, the content security
// policy must not block a style or a script. Live data must be requested repeatedly and must replace the old data in
// place. Names must be treated as text.
func TestPageIsLive(t *testing.T) {
	base := startPage(t)
	for view, want := range map[string]string{
		"/ui/":                          "physical partitions",
		"/ui/storage?table=ks.foods":    "Largest logical partitions",
		"/ui/heat?table=ks.foods":       "Heat map",
		"/ui/changes":                   "In progress",
		"/ui/slow":                      "No request has taken 500 ms or more",
		"/ui/explore?statement=SELECT+": "Ctrl+Enter runs the statement",
	} {
		for _, flags := range [][]string{{"--window-size=1280,900"},
			{"--window-size=420,800", "--blink-settings=preferredColorScheme=0"}} {
			dom, console := open(t, base+view, flags...)
			if !strings.Contains(dom, want) || console != "" || strings.Contains(dom, "<i>Beef") {
				t.Errorf("%s: %q is missing, or there are console messages: %s\n%s", view, want, console, dom)
			}
			if live := !strings.HasPrefix(view, "/ui/explore"); strings.Contains(dom, ">Live, ") != live {
				t.Errorf("%s: requested again: %t\n%s", view, !live, dom)
			}
		}
	}
}
