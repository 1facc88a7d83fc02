// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// TestVectorDistance checks the values of each metric, which metric a call uses, and that ORDER BY returns the most
// similar items first, even if the query specifies the opposite direction.
func TestVectorDistance(t *testing.T) {
	t.Parallel()
	s := new(Schema)
	s.SetMetric(document.Path{"e"}, Euclidean)
	s.SetMetric(document.Path{"of", "d"}, DotProduct)
	if err := s.AddComputed("p", "SELECT VALUE c.e FROM c"); err != nil {
		t.Fatal(err)
	}
	items := []document.Value{
		parseItem(t, `{"id":"1","e":[3,4],"of":{"d":[1,2]},"v":[1,0]}`),
		parseItem(t, `{"id":"2","e":[0,1],"of":{"d":[3,4]},"v":[0,2]}`),
		parseItem(t, `{"id":"3","e":[0],"of":{"d":["x"]},"v":[0,0]}`),
		parseItem(t, `{"id":"4"}`),
	}
	for _, c := range [][2]string{
		{"SELECT VALUE VectorDistance(c.e, [0, 0]) FROM c", "5 1"},
		{"SELECT VALUE VectorDistance([0, 0], x.e) FROM items x", "5 1"},
		{"SELECT VALUE VectorDistance(c[@e], [0, 0]) FROM c", "5 1"},
		{"SELECT VALUE c[@p] FROM c", "[3,4] [0,1] [0]"},
		{"SELECT VALUE VectorDistance(c.of.d, [1, 1]) FROM c", "3 7"},
		{"SELECT VALUE VectorDistance(c.v, [0, 1]) FROM c", "0 1"},
		{"SELECT VALUE VectorDistance(c.p, [0, 1]) FROM c", "0.8 1"},
		{"SELECT VALUE vectordistance(c.e, c.of.d) FROM c", "2.8284271247461903 4.242640687119285"},
		{"SELECT VALUE VectorDistance(c.e, [0, 1], false, {distanceFunction: 'dotproduct'}) FROM c", "4 1"},
		{"SELECT VALUE VectorDistance(c.v, [0, 1], true, {'distanceFunction': 'Euclidean', 'dataType': 'Float32', " +
			"'searchListSizeMultiplier': 5, 'quantizedVectorListMultiplier': 2, 'filterPriority': 0.5}) FROM c",
			"1.4142135623730951 1 1"},
		{"SELECT VALUE VectorDistance([1], [2]) FROM c", "1 1 1 1"},
		{"SELECT VALUE VectorDistance([1], 'x') FROM c", ""},
		{"SELECT VALUE VectorDistance(c.e, []) FROM c", ""},
		{"SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.e, [0, 0])", `"2" "1"`},
		{"SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.e, [0, 0]) DESC", `"2" "1"`},
		{"SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.of.d, [1, 1]) ASC", `"2" "1"`},
		{"SELECT TOP 1 VALUE c.id FROM c ORDER BY VectorDistance(c.v, [0, 1])", `"2"`},
		{"SELECT TOP 1 c.id, VectorDistance(c.v, [1, 0]) AS score FROM c ORDER BY score", `{"id":"1","score":1}`},
	} {
		q, err := s.Compile(c[0], []Parameter{{"@e", document.StringValue("e")}, {"@p", document.StringValue("p")}})
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		var got []string
		if _, err := q.Run(context.Background(), rowsOf(items), Run{}, func(v document.Value) error {
			got = append(got, v.String())
			return nil
		}); err != nil || strings.Join(got, " ") != c[1] {
			t.Errorf("%s: %s, want %s (%v)", c[0], strings.Join(got, " "), c[1], err)
		}
	}
	for _, c := range [][2]string{
		{"SELECT VectorDistance(c.e) FROM c", "takes 2 to 4"},
		{"SELECT VectorDistance(c.e, [1], 1) FROM c", "must be true or false"},
		{"SELECT VectorDistance(c.e, [1], c.b) FROM c", "must be true or false"},
		{"SELECT VectorDistance(c.e, [1], true, 1) FROM c", "an object with options"},
		{"SELECT VectorDistance(c.e, [1], true, c.o) FROM c", "an object with options"},
		{"SELECT VectorDistance(c.e, [1], true, {distanceFunction: 'l1'}) FROM c", "distanceFunction"},
		{"SELECT VectorDistance(c.e, [1], true, {dataType: 'text'}) FROM c", "dataType"},
		{"SELECT VectorDistance(c.e, [1], true, {searchListSizeMultiplier: 0}) FROM c",
			"searchListSizeMultiplier"},
		{"SELECT VectorDistance(c.e, [1], true, {nosuch: 1}) FROM c", "nosuch"},
		{"SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.e, [1], true, {dataType: 'text'})", "dataType"},
	} {
		if _, err := s.Compile(c[0], nil); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
	q, err := s.Compile("SELECT TOP 3 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0])", nil)
	if err != nil {
		t.Fatal(err)
	}
	// Clients merge the results of several ranges in the direction of the plan.
	if plan := string(Plan(q, nil)); !strings.Contains(plan, `"orderBy":["Descending"]`) {
		t.Errorf("the plan of a search by cosine similarity is %s", plan)
	}
}
