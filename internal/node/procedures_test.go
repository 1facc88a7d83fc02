// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container"
)

// examples maps the names in the first lines of the scripts in docs/procedures.md to the scripts.
func examples(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/procedures.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```js\n// (\\w+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = m[2]
	}
	return all
}

// TestProcedures runs the examples in docs/procedures.md on a node. They include a transfer and its rejection, a
// procedure that throws after a write, a deletion in several calls, triggers, and a function.
func TestProcedures(t *testing.T) {
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	all := examples(t)
	keep := func(kind container.ScriptKind, id, more string) {
		t.Helper()
		body := `{"id":"` + id + `","body":` + string(document.AppendString(nil, all[id])) + more + `}`
		if _, err := n.Containers.CreateScript(t.Context(), s.c, kind, []byte(body)); err != nil {
			t.Fatal(err)
		}
		s = itemsOf(t, n)
	}
	keep(container.StoredProcedure, "transfer", "")
	keep(container.StoredProcedure, "spoil", "")
	keep(container.StoredProcedure, "bulkDelete", "")
	keep(container.Trigger, "stamp", `,"triggerType":"Pre","triggerOperation":"Create"`)
	keep(container.Trigger, "count", `,"triggerType":"post","triggerOperation":"all"`)
	keep(container.UserFunction, "tax", "")
	p := key("p")
	s.want(201, p, create(`{"id":"a","k":"p","amount":100}`))
	s.want(201, p, create(`{"id":"b","k":"p","amount":1}`))
	execute := func(id, args string) (string, error) {
		x, where, err := n.Scripts.Execute(t.Context(), s.c, p, id, []byte(args), true, container.RequestOptions{})
		if where.Charge <= 0 {
			t.Errorf("%s costs nothing", id)
		}
		if err != nil {
			return "", err
		}
		return string(x.Body), nil
	}
	wantError := func(err error, status, sub int, text string) {
		t.Helper()
		e, ok := err.(*container.Error)
		if !ok || e.Status != status || e.SubStatus != sub || !strings.Contains(e.Message, text) {
			t.Errorf("got %+v, want %d/%d %s", err, status, sub, text)
		}
	}
	if got, err := execute("transfer", `["a","b",30]`); err != nil || got != `{"left":70}` {
		t.Fatalf("transfer: %s %v", got, err)
	}
	_, err := execute("transfer", `["a","b",71]`)
	wantError(err, 400, 0, "a has only 70")
	_, err = execute("transfer", `["a","none",1]`)
	wantError(err, 400, 404, "does not exist")
	_, err = execute("spoil", `["a"]`)
	wantError(err, 400, 0, "changed my mind")
	if a, b := s.body(p, "a"), s.body(p, "b"); a != `{"id":"a","k":"p","amount":70}` ||
		b != `{"id":"b","k":"p","amount":31}` {
		t.Errorf("after the procedures: %s %s", a, b)
	}

	for i := range 250 {
		s.want(201, p, create(fmt.Sprintf(`{"id":"d%d","k":"p","old":true}`, i)))
	}
	var deleted float64
	for more := true; more; {
		got, err := execute("bulkDelete", `["SELECT * FROM c WHERE c.old"]`)
		if err != nil {
			t.Fatal(err)
		}
		v := document.View([]byte(got))
		deleted += v.Get("deleted").Float()
		more = v.Get("continuation").IsTrue()
	}
	if deleted != 250 {
		t.Errorf("%v were deleted", deleted)
	}

	op := create(`{"id":"t","k":"p","owner":"me"}`)
	for range 2 {
		x, _, err := n.Scripts.Do(t.Context(), s.c, p, &op, []string{"stamp"}, []string{"count"}, false,
			container.RequestOptions{})
		if op.ID = ""; err != nil {
			wantError(err, 409, 0, "exists")
		} else if x.Status != 201 || !strings.Contains(string(x.Body), `"state":"new"`) || x.Etag == "" {
			t.Errorf("with triggers: %+v", x)
		}
	}
	if got := s.body(p, "meta"); got != `{"id":"meta","k":"p","items":1}` {
		t.Errorf("meta: %s", got)
	}
	large := create(`{"id":"large","k":"p","owner":"me","pad":"` + strings.Repeat("x", 1_900_000) + `"}`)
	x, _, err := n.Scripts.Do(t.Context(), s.c, p, &large, []string{"stamp"}, []string{"count"}, false,
		container.RequestOptions{})
	if err != nil || x.Status != 201 || len(x.Body) < 1_900_000 {
		t.Errorf("a large item with triggers: %v", err)
	}
	bare := create(`{"id":"u","k":"p"}`)
	_, _, err = n.Scripts.Do(t.Context(), s.c, p, &bare, []string{"stamp"}, nil, false, container.RequestOptions{})
	wantError(err, 400, 0, "needs an owner")
	_, _, err = n.Scripts.Do(t.Context(), s.c, p, &bare, []string{"count"}, nil, false, container.RequestOptions{})
	wantError(err, 400, 0, "but the request specifies it as a pre-trigger")
	remove := container.Operation{Kind: container.Delete, ID: "t"}
	_, _, err = n.Scripts.Do(t.Context(), s.c, p, &remove, []string{"stamp"}, nil, false, container.RequestOptions{})
	wantError(err, 400, 0, "not for Delete")
	if s.body(p, "u") != "" || s.body(p, "t") == "" {
		t.Error("a rejected operation was executed")
	}

	page, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{Scope: container.Scope{Key: p},
		Text: "SELECT VALUE udf.tax(c.amount) FROM c", Functions: n.Scripts.Functions(s.c)})
	if err != nil || len(page.Documents) != 2 {
		t.Errorf("function: %s %v", page.Documents, err)
	}
}
