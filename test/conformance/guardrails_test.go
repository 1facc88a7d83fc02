// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/test/testnode"
)

// guarded maps each requirement of a recording to the guardrails with which the recording was made. The recordings
// listed under files also test the texts of guardrails. By default, Cassandra 5.0 returns a warning for tables without
// a TTL that use TimeWindowCompactionStrategy.
var guarded = map[string]struct{ file, more string }{
	"guardrails": {"recorded.yaml", `
read_consistency_levels_warned: [ONE]
write_consistency_levels_warned: [ANY]
zero_ttl_on_twcs_warned: true
`},
	"guardrails_off": {"off.yaml", ""},
}

// TestGuardrails replays recordings of Cassandra 5.0.5 that were made with guardrails. Each test runs on a node with
// the same guardrails.
func TestGuardrails(t *testing.T) {
	const name = "guardrails50.jsonl"
	recs, err := load("testdata/"+name, name)
	if err != nil {
		t.Fatal(err)
	}
	known := readDifferences(t, "differences_guardrails.txt")
	sum := &result{}
	for i := range recs {
		sum.add(replayTest(target{addrs: []string{startGuarded(t, recs[i].Needs)}}, &recs[i]))
	}
	results := map[string]*result{name: sum}
	report(t, results, known, shares{90, 90})
	if *rewrite {
		writeDifferences(t, "differences_guardrails.txt", results, known)
	}
}

// startGuarded starts a node with the guardrails that a recording needs, and returns its address.
func startGuarded(t *testing.T, needs []string) string {
	var o guardrail.Options
	for need, g := range guarded {
		if slices.Contains(needs, need) {
			text, err := os.ReadFile("../../internal/query/cql/guardrail/testdata/" + g.file)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(g.more+string(text)), &o); err != nil {
				t.Fatal(err)
			}
		}
	}
	return testnode.One(t, options.Options{UserFunctions: true, Guardrails: o, Compatibility: "5.0",
		Auth: options.Auth{Users: superusers(t)}}).CQLAddr().String()
}
