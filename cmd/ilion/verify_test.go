// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ilion-db/ilion/internal/query/cql/view"
)

// TestVerify checks ilion verify with a running node: views, indexes, and the errors for other names. The scripts are
// in testdata/verify.
func TestVerify(t *testing.T) {
	h := &hour{running: map[string]*exec.Cmd{}}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/verify", RequireExplicitExec: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"node": h.node, "end": h.end, "await": await, "cql": cql,
		},
	})
}

// TestVerifyPages checks with a simulated node that ilion verify requests all pages. It also checks the number of rows
// and the exit code. The command must print at most 100 differences but count all differences.
func TestVerifyPages(t *testing.T) {
	many := make([]view.Difference, verifyShown)
	for i := range many {
		many[i] = view.Difference{Row: fmt.Sprintf("k = %d", i), What: "the row is missing from the view",
			Repaired: true}
	}
	last := view.Difference{Row: "k = 1000", What: "column v has a different value in the view"}
	pages := map[string]view.VerifyResponse{
		"":   {Rows: 3, Busy: 1, Next: "a1"},
		"a1": {Rows: 2, Differences: many, Next: "b2"},
		"b2": {Rows: 4, View: true, Differences: []view.Difference{last}},
	}
	for _, c := range []struct {
		pages  map[string]view.VerifyResponse
		args   []string
		out    string // end of the output
		err    string
		code   int
		asked  string
		repair string
	}{
		{pages, []string{"view", "ks.v", "--repair", "--rate", "100000"},
			"k = 99: the row is missing from the view; repaired\n" +
				"more rows differ; only their number is reported\n" +
				"view ks.v: checked 5 rows of its table and 4 of the view: 101 differ, 100 repaired, " +
				"1 changed during the check\n",
			"ilion: view ks.v differs from its table in 1 rows. Some rows could not be repaired. Retry later\n", 1,
			"view ks.v 1000", "true"},
		{map[string]view.VerifyResponse{"": {Rows: 1, Differences: []view.Difference{last}}},
			[]string{"index", "ks.i", "--rate", "7"},
			"k = 1000: column v has a different value in the view\n" +
				"index ks.i: checked 1 rows of its table: 1 differ, 0 repaired, 0 changed during the check\n",
			"ilion: index ks.i differs from its table in 1 rows. Use --repair to repair it\n", 1, "index ks.i 7",
			"false"},
		{map[string]view.VerifyResponse{"": {Rows: 1}}, []string{"index", "ks.i"},
			"index ks.i: checked 1 rows of its table: 0 differ, 0 repaired, 0 changed during the check\n", "", 0,
			"index ks.i 1000", "false"},
		{nil, []string{"view", "ks.v", "--rate", "0"}, "",
			"ilion: invalid --rate: expected a number of at least 1\n", 2, "", ""},
	} {
		var from []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			asked := strings.Join([]string{q.Get("kind"), q.Get("name"), q.Get("rows")}, " ")
			if r.Method+r.URL.Path != "POST/verify" || asked != c.asked || q.Get("repair") != c.repair {
				t.Errorf("asked %s %s", r.Method, r.URL)
			}
			from = append(from, q.Get("from"))
			_ = json.NewEncoder(w).Encode(c.pages[q.Get("from")])
		}))
		var out, errs strings.Builder
		code := run(append(append([]string{"verify"}, c.args...), "--http", s.URL), &out, &errs)
		s.Close()
		if code != c.code || errs.String() != c.err || !strings.HasSuffix(out.String(), c.out) {
			t.Errorf("%q: code %d, %q, %q", c.args, code, out.String(), errs.String())
		}
		if want := slices.Sorted(maps.Keys(c.pages)); !slices.Equal(from, want) {
			t.Errorf("%q: pages %q, want %q", c.args, from, want)
		}
	}
}
