// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestFullTextSearch checks full-text and hybrid searches over several physical partitions, in pages of several sizes.
// The statistics apply to the whole container, so a search within a logical partition returns the same order.
func TestFullTextSearch(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},`+
		`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/t"}]},`+
		`"indexingPolicy":{"includedPaths":[{"path":"/*"}],"fullTextIndexes":[{"path":"/t"}]}}`)
	r := rand.New(rand.NewPCG(1, 2))
	ids := map[string][]string{}
	for i := range 300 {
		// Item i has the word "common" in a text of i words, so short texts are more relevant.
		text := strings.Repeat(fmt.Sprintf("filler%d ", r.IntN(9)), i) + "common"
		if i%50 == 7 {
			_, text, _ = strings.Cut(text+" Zebras", " ")
		}
		k := fmt.Sprint(i % 10)
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%03d","k":"%s","t":"%s","v":[%d,1]}`, i, k, text, i)))
		id := fmt.Sprintf(`"%03d"`, i)
		ids[""], ids[k] = append(ids[""], id), append(ids[k], id)
	}
	s.want(201, nil, create(`{"id":"none","k":"0","v":[0,1]}`))
	zebras := []string{`"007"`, `"057"`, `"107"`, `"157"`, `"207"`, `"257"`}
	for _, c := range []struct {
		text string
		want []string
	}{
		{"SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'zebra')", zebras},
		{"SELECT VALUE c.id FROM c WHERE FullTextContainsAll(c.t, 'zebra', 'common')", zebras},
		{"SELECT VALUE c.id FROM c WHERE FullTextContainsAny(c.t, 'common zebra', 'nosuch')", zebras},
		{"SELECT TOP 8 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'common')", ids[""][:8]},
		{"SELECT VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'common') OFFSET 3 LIMIT 8", ids[""][3:11]},
		{"SELECT TOP 8 VALUE c.id FROM c WHERE c.k = '7' ORDER BY RANK FullTextScore(c.t, 'common')", ids["7"][:8]},
		{"SELECT TOP 7 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'zebra', 'common')",
			append(slices.Clip(zebras), ids[""][0])},
		{"SELECT TOP 4 VALUE c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'zebra'), VectorDistance(c.v, [0, 1]), " +
			"[2, 1])",
			[]string{`"007"`, `"000"`, `"001"`, `"none"`}},
	} {
		for _, most := range []int{0, 3} {
			got, err := s.query(container.QueryRequest{CrossPartition: true, MaxItems: most, Text: c.text})
			if !strings.Contains(c.text, "RANK") {
				slices.Sort(got)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s in pages of %d: %v, want %v (%v)", c.text, most, got, c.want, err)
			}
		}
	}
	for text, most := range map[string]int64{
		"SELECT * FROM c WHERE FullTextContains(c.t, 'zebra')":                            6,
		"SELECT * FROM c WHERE FullTextContainsAll(c.t, 'zebra', 'common')":               6,
		"SELECT * FROM c WHERE FullTextContains(c.t, 'common zebra') AND c.id = '007'":    1,
		"SELECT * FROM c WHERE FullTextContainsAny(c.t, 'zebra', 'nosuch') AND c.k = '7'": 6,
		"SELECT TOP 6 * FROM c ORDER BY RANK FullTextScore(c.t, 'zebra', 'nosuch')":       301 + 6 + 6, // and the totals
	} {
		p, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{CrossPartition: true, Text: text})
		if err != nil || p.Metrics.RetrievedCount > most {
			t.Errorf("%s read %d items, want at most %d (%v)", text, p.Metrics.RetrievedCount, most, err)
		}
	}
	for text, want := range map[string]string{
		"SELECT c.id FROM c ORDER BY RANK FullTextScore(c.t, 'a')":                 "Cross partition query is required",
		"SELECT c.id FROM c WHERE FullTextScore(c.t, 'a') > 1":                     "only in the ORDER BY RANK clause",
		"SELECT c.id FROM c WHERE c.k = '1' ORDER BY RANK RRF(FullTextScore(c.t))": "2 to 16 scores",
	} {
		if _, err := s.query(container.QueryRequest{Text: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// textWords are the words of random texts. Some words have the same stem or are stop words.
var textWords = []string{"red", "Reds", "bicycle", "bicycles", "bycycle", "mountain", "mountains'", "the", "of", "hill",
	"run", "running", "skies", "sky", "dying", "die", "caf\u00e9", "Stra\u00dfe", "strasse", "\u4e2d\u6587",
	"e-mail", "3.5", "don't"}

func drawText(r *rand.Rand) string {
	n := r.IntN(12)
	if r.IntN(40) == 0 {
		n = 3000
	}
	var out []string
	for i := range n {
		w := textWords[r.IntN(len(textWords))]
		if n == 3000 {
			w = fmt.Sprintf("%s%d", w, i)
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

func drawTextItem(r *rand.Rand, id int) string {
	text := fmt.Sprintf(`"%s"`, drawText(r))
	if r.IntN(8) == 0 {
		text = []string{"7", "null", `["red"]`, `{"a":"red"}`}[r.IntN(4)]
	}
	return fmt.Sprintf(`{"id":"%03d","k":"k%d","n":%d,"t":%s,"o":{"u":"%s"},"v":[%d,1]}`, id, id%4, r.IntN(4), text,
		drawText(r), r.IntN(5))
}

func drawKeyword(r *rand.Rand) string {
	words := []string{textWords[r.IntN(len(textWords))]}
	for r.IntN(4) == 0 {
		words = append(words, textWords[r.IntN(len(textWords))])
	}
	text := strings.Join(words, " ")
	if r.IntN(6) == 0 {
		return fmt.Sprintf(`{"term":"%s","distance":%d}`, text, r.IntN(3))
	}
	return `"` + text + `"`
}

func drawKeywords(r *rand.Rand) string {
	out := drawKeyword(r)
	for r.IntN(2) == 0 {
		out += ", " + drawKeyword(r)
	}
	return out
}

// drawTextQuery returns a random query with full-text functions.
func drawTextQuery(r *rand.Rand) string {
	path := []string{"c.t", "c.o.u"}[r.IntN(2)]
	condition := func() string {
		switch r.IntN(5) {
		case 0:
			return "c.n = 1"
		case 1:
			return "FullTextContains(" + path + ", " + drawKeyword(r) + ")"
		case 2:
			return "NOT FullTextContains(" + path + ", " + drawKeyword(r) + ")"
		case 3:
			return "FullTextContainsAll(" + path + ", " + drawKeywords(r) + ")"
		}
		return "FullTextContainsAny(" + path + ", " + drawKeywords(r) + ")"
	}
	where := ""
	if r.IntN(3) > 0 {
		where = " WHERE " + condition()
		for r.IntN(2) == 0 {
			where += []string{" AND ", " OR "}[r.IntN(2)] + condition()
		}
	}
	if r.IntN(8) == 0 {
		where = " WHERE c.k = 'k1'"
	}
	score := "FullTextScore(c.t, " + drawKeywords(r) + ")"
	top := []string{"", "TOP 3 ", "TOP 20 "}[r.IntN(3)]
	switch r.IntN(5) {
	case 0:
		return "SELECT " + top + "VALUE c.id FROM c" + where + " ORDER BY RANK " + score
	case 1:
		return "SELECT " + top + "VALUE c.id FROM c" + where + " ORDER BY RANK RRF(" + score +
			", FullTextScore(c.o.u, " + drawKeywords(r) + "), VectorDistance(c.v, [1, 0]), [1, 2, 1])"
	}
	return "SELECT VALUE c.id FROM c" + where + " ORDER BY c.id"
}

// TestTextIndexChangesNoResult checks with random items, changes, and queries that full-text indexes do not change the
// result of a query. Between rounds, items and the policy change, and a partition splits.
func TestTextIndexChangesNoResult(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	const head = `"partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"fullTextPolicy":{"fullTextPaths":` +
		`[{"path":"/t"},{"path":"/o/u","language":"de-DE"}]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],` +
		`"excludedPaths":[{"path":"/t/*"},{"path":"/o/*"}],"fullTextIndexes":[`
	policies := []string{`{"path":"/t"},{"path":"/o/u"}]}}`, `{"path":"/t"}]}}`, `]}}`}
	plain := newContainer(t, n, `{"id":"plain",`+head+policies[2])
	indexed := newContainer(t, n, `{"id":"c",`+head+policies[0])
	r := rand.New(rand.NewPCG(3, 4))
	var hits int64
	ask := func(s *items, text string, most int) []string {
		q := container.QueryRequest{Text: text, CrossPartition: true, MaxItems: most}
		var out []string
		for {
			p, err := n.Containers.Query(t.Context(), s.c, &q)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if s == indexed {
				hits += p.Metrics.IndexHits
			}
			for _, d := range p.Documents {
				out = append(out, string(d))
			}
			if q.Continuation = p.Continuation; q.Continuation == "" {
				return out
			}
		}
	}
	for round := range 8 {
		for range 40 {
			id := r.IntN(120)
			op := container.Operation{Kind: container.Upsert, Body: []byte(drawTextItem(r, id))}
			if r.IntN(6) == 0 {
				op = container.Operation{Kind: container.Delete, ID: fmt.Sprintf("%03d", id)}
			}
			for _, s := range []*items{plain, indexed} {
				s.do(key(fmt.Sprintf("k%d", id%4)), op)
			}
		}
		for range 40 {
			text, most := drawTextQuery(r), []int{0, 2, 7}[r.IntN(3)]
			if got, want := ask(indexed, text, most), ask(plain, text, 0); !slices.Equal(got, want) {
				t.Fatalf("round %d: %s in pages of %d:\n%v, want\n%v", round, text, most, got, want)
			}
		}
		if round == 5 {
			for _, name := range []string{"c", "plain"} {
				p := n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("d", name).ID)[0]
				if _, err := n.partitions.Split(t.Context(), operations.Split{Table: "d." + name,
					Partition: uint64(p.ID), Now: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if round%2 == 1 {
			c, err := n.Containers.ReplaceContainer(t.Context(), indexed.c,
				[]byte(`{"id":"c",`+head+policies[r.IntN(len(policies))]), "")
			if err != nil {
				t.Fatal(err)
			}
			indexed.c = c
		}
	}
	if hits == 0 {
		t.Error("no query has used the index")
	}
}

// TestTextIndexNeedsItsLevel checks that items get no entries in full-text indexes below the feature level of these
// indexes. After the level has been raised, replacing the definition builds the index. A change of the language
// builds the index again. Queries return the same results at each step.
func TestTextIndexNeedsItsLevel(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	var level atomic.Uint32
	level.Store(uint32(feature.FullTextIndexes - 1))
	n.Containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
		Definitions: &n.definitions, Builds: n.builder,
		Levels: levelFunc(func() feature.Level { return feature.Level(level.Load()) })})
	n.host.SetPrograms(n.Programs())
	n.host.SetAggregator(n.Aggregator())
	definition := func(language string) string {
		return `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"fullTextPolicy":` +
			`{"fullTextPaths":[{"path":"/t","language":"` + language + `"}]},"indexingPolicy":{"includedPaths":[` +
			`{"path":"/*"}],"fullTextIndexes":[{"path":"/t"}]}}`
	}
	s := newContainer(t, n, definition("en-US"))
	for i := range 50 {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%d","k":"a%d","t":"house%d Häuser"}`, i, i, i)))
	}
	read := func(keyword string, found int, most int64) {
		t.Helper()
		p, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{CrossPartition: true,
			Text: "SELECT * FROM c WHERE FullTextContains(c.t, '" + keyword + "')"})
		if err != nil || len(p.Documents) != found || p.Metrics.RetrievedCount != most {
			t.Errorf("%s: %v (%v), want %d items of %d", keyword, p, err, found, most)
		}
	}
	replace := func(language string) {
		t.Helper()
		var err error
		s.c, err = n.Containers.ReplaceContainer(t.Context(), s.c, []byte(definition(language)), "")
		if err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the index is built", func() bool { return n.Containers.IndexProgress(s.c) == 100 })
	}
	read("house7", 1, 50)
	replace("en-US")
	read("house7", 1, 50)
	level.Store(uint32(feature.FullTextIndexes))
	read("house7", 1, 50)
	replace("en-US")
	read("house7", 1, 1)
	read("haus", 0, 0)
	replace("de-DE")
	read("haus", 50, 50)
	read("house7", 1, 1)
}

// TestFullTextSearchInTransaction checks full-text and hybrid searches of a procedure. They find the items that the
// procedure has written, in pages.
func TestFullTextSearchInTransaction(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"fullTextPolicy":`+
		`{"fullTextPaths":[{"path":"/t"}]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"fullTextIndexes":`+
		`[{"path":"/t"}]}}`)
	item := func(id, text string) container.Operation {
		return create(fmt.Sprintf(`{"id":"%s","k":"a","t":"%s","v":[%s,1]}`, id, text, id))
	}
	s.want(201, nil, item("1", "a red hill"))
	s.want(201, nil, create(`{"id":"2","k":"b","t":"red"}`))
	n.Containers.SetRunner(runner(func(ctx context.Context, tx *container.Transaction, _ []byte) ([]byte, error) {
		for _, op := range []container.Operation{item("3", "red mountains"), item("4", "hill"),
			item("5", "red red red")} {
			if _, bad := tx.Do(ctx, &op); bad != nil {
				return nil, bad
			}
		}
		for text, want := range map[string]string{
			"SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'mountain')":          `"3"`,
			"SELECT VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'red')":          `"5" "1" "3" "4"`,
			"SELECT TOP 2 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'nosuch')": `"1" "3"`,
			"SELECT TOP 1 VALUE c.id FROM c ORDER BY RANK " +
				"RRF(FullTextScore(c.t, 'hill'), VectorDistance(c.v, [4, 1]))": `"4"`,
		} {
			var got []string
			for q := (container.QueryRequest{Text: text, MaxItems: 1}); ; {
				p, bad := tx.Query(ctx, &q)
				if bad != nil {
					return nil, bad
				}
				for _, d := range p.Documents {
					got = append(got, string(d))
				}
				if q.Continuation = p.Continuation; q.Continuation == "" {
					break
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %v, want %s", text, got, want)
			}
		}
		return nil, nil
	}))
	if _, _, err := n.Containers.Run(t.Context(), s.c, key("a"), []byte("p"), container.RequestOptions{}); err != nil {
		t.Fatal(err)
	}
}
