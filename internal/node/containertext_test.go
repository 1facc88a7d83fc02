// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/query/container"
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
