// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/restclient"
)

// containers is the directory of a node with containers, which feature level 3 introduced.
var containers = filepath.Join(present, "containers", "alone")

// runREST starts a node on a directory, calls f with a client of its containers, and stops the node.
func runREST(t *testing.T, dir string, f func(c *restclient.Client)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := nodeOptions(dir, false)
	o.REST = options.REST{Address: "127.0.0.1:0", PrimaryKey: restclient.Key}
	n, err := node.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	c := restclient.New(n.RESTAddr().String(), time.Minute)
	f(c)
	c.Close()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// asked is a request of a fixture. The headers are the partition key as JSON, and other headers in the form
// name=value.
type asked struct{ method, path, key, headers, body string }

func (a asked) ask(t *testing.T, c *restclient.Client) (status int, answer string) {
	t.Helper()
	r := &restclient.Request{Method: a.method, Path: a.path, Headers: map[string]string{}}
	if a.key != "" {
		r.Headers["x-ms-documentdb-partitionkey"] = a.key
	}
	for h := range strings.FieldsSeq(a.headers) {
		name, value, _ := strings.Cut(h, "=")
		r.Headers[name] = value
	}
	if a.body != "" {
		r.Body = json.RawMessage(a.body)
	}
	var raw []byte
	status, _, err := c.Ask(t.Context(), r, &raw)
	if err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	return status, string(raw)
}

const (
	food, tree = "dbs/shop/colls/food", "dbs/shop/colls/tree"
	query      = "x-ms-documentdb-isquery=True Content-Type=application/query+json"
	batch      = "x-ms-cosmos-is-batch-request=true x-ms-cosmos-batch-atomic=true"
)

// made holds the requests that create the data of the fixture. The data consists of a container with each kind of
// policy and script, a container with a hierarchical key, and items. The requests create, replace, patch, and delete
// items. They do so individually, in a batch, and by a procedure.
var made = []asked{
	{"POST", "dbs", "", "", `{"id":"shop"}`},
	{"POST", "dbs/shop/colls", "", "", `{"id":"food","partitionKey":{"paths":["/group"],"kind":"Hash","version":2},
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/name","/maker/code"]}]},"defaultTtl":-1,"unknownToThisBuild":{"x":[1]}}`},
	{"POST", "dbs/shop/colls", "", "", `{"id":"tree","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash",
		"version":2}}`},
	{"POST", food + "/sprocs", "", "", `{"id":"total","body":"function total(by) { var c = getContext().getCollection();
		c.queryDocuments(c.getSelfLink(), 'SELECT VALUE c.n FROM c', function (err, all) { if (err) throw err;
		getContext().getResponse().setBody(by * all.reduce((a, b) => a + b, 0)); }); }"}`},
	{"POST", food + "/sprocs", "", "", `{"id":"add","body":"function add(d) { var c = getContext().getCollection();
		c.createDocument(c.getSelfLink(), d, function (err, made) { if (err) throw err;
		getContext().getResponse().setBody(made.id); }); }"}`},
	{"POST", food + "/triggers", "", "", `{"id":"check","triggerType":"Pre","triggerOperation":"All",
		"body":"function check() { var q = getContext().getRequest(), d = q.getBody(); d.checked = true; q.setBody(d); }"}`},
	{"POST", food + "/udfs", "", "", `{"id":"twice","body":"function twice(n) { return 2 * n; }"}`},
	{"POST", food + "/docs", `["fruit"]`, "", `{"id":"a","group":"fruit","name":"apple","n":1,"exact":1.10,"big":12345678901234567890,
		"text":"\u00e4\u20ac\ud83c\udf4e"}`},
	{"POST", food + "/docs", `["fruit"]`, "", `{"id":"b","group":"fruit","name":"banana","n":2,"ttl":630720000}`},
	{"POST", food + "/docs", `["fruit"]`, "", `{"id":"gone","group":"fruit","name":"gone","n":9}`},
	{"DELETE", food + "/docs/gone", `["fruit"]`, "", ""},
	{"PUT", food + "/docs/b", `["fruit"]`, "", `{"id":"b","group":"fruit","name":"blueberry","n":2,"ttl":630720000}`},
	{"PATCH", food + "/docs/a", `["fruit"]`, "", `{"operations":[{"op":"set","path":"/colour","value":"red"}]}`},
	{"POST", food + "/docs", `["fruit"]`, batch, `[{"operationType":"Create","resourceBody":{"id":"c","group":"fruit","name":"cherry",
		"n":3}},{"operationType":"Upsert","resourceBody":{"id":"d","group":"fruit","name":"date","n":4}}]`},
	{"POST", food + "/sprocs/add", `["fruit"]`, "", `[{"id":"e","group":"fruit","name":"elderberry","n":5}]`},
	{"POST", food + "/docs", `["fruit"]`, "x-ms-documentdb-pre-trigger-include=check",
		`{"id":"f","group":"fruit","name":"fig","n":6}`},
	{"POST", food + "/docs", `[null]`, "", `{"id":"a","group":null,"name":"apple","n":7}`},
	{"POST", food + "/docs", `[{}]`, "", `{"id":"a","name":"apple","n":8}`},
	{"POST", food + "/docs", `[1.5]`, "", `{"id":"a","group":1.5,"name":"apple","n":9}`},
	{"POST", tree + "/docs", `["t","u"]`, "", `{"id":"x","tenant":"t","user":"u"}`},
	{"POST", tree + "/docs", `["t",null]`, "", `{"id":"y","tenant":"t","user":null}`},
}

// wanted holds the requests whose responses are in the fixture. For a rejected request, the fixture contains only the
// status.
var wanted = []asked{
	{"GET", "dbs/shop", "", "", ""}, {"GET", food, "", "", ""}, {"GET", tree, "", "", ""},
	{"GET", food + "/sprocs", "", "", ""}, {"GET", food + "/triggers", "", "", ""}, {"GET", food + "/udfs", "", "", ""},
	{"GET", food + "/docs/a", `["fruit"]`, "", ""}, {"GET", food + "/docs/b", `["fruit"]`, "", ""},
	{"GET", food + "/docs/gone", `["fruit"]`, "", ""}, {"GET", food + "/docs/f", `["fruit"]`, "", ""},
	{"GET", food + "/docs/a", `[null]`, "", ""}, {"GET", food + "/docs/a", `[{}]`, "", ""},
	{"GET", food + "/docs/a", `[1.5]`, "", ""}, {"GET", tree + "/docs/y", `["t",null]`, "", ""},
	{"POST", food + "/docs", `["fruit"]`, query, `{"query":"SELECT c.id, c._etag, udf.twice(c.n) AS n FROM c ORDER BY c.n DESC"}`},
	{"POST", tree + "/docs", `["t"]`, query, `{"query":"SELECT * FROM c"}`},
	{"POST", food + "/sprocs/total", `["fruit"]`, "", `[10]`},
	{"POST", food + "/docs", `["fruit"]`, "", `{"id":"g","group":"fruit","name":"cherry"}`},
	{"POST", food + "/docs", `["fruit"]`, "", `{"id":"g","group":"fruit","name":"elderberry"}`},
	{"POST", food + "/docs", `["fruit"]`, "", `{"id":"a","group":"fruit","name":"other"}`},
	{"PUT", food + "/docs/a", `["fruit"]`, `If-Match="0"`, `{"id":"a","group":"fruit","name":"other"}`},
}

// responses sends the requests in wanted and returns the responses as text.
func responses(t *testing.T, c *restclient.Client) string {
	t.Helper()
	var out strings.Builder
	for _, a := range wanted {
		status, answer := a.ask(t, c)
		if status >= 300 {
			answer = ""
		}
		fmt.Fprintf(&out, "%s %s %s %s\n\t%d %s\n", a.method, a.path, a.key, a.body, status, answer)
	}
	return out.String()
}

// TestRewriteContainers writes the fixture of containers if the flag -rewrite is set.
func TestRewriteContainers(t *testing.T) {
	if !*rewrite {
		t.Skip("without -rewrite")
	}
	if err := os.MkdirAll(filepath.Dir(containers), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	runREST(t, dir, func(c *restclient.Client) {
		for _, a := range made {
			a.body = strings.NewReplacer("\n", "", "\t", "").Replace(a.body)
			if status, answer := a.ask(t, c); status >= 300 {
				t.Fatalf("%+v: %d %s", a, status, answer)
			}
		}
		if err := os.WriteFile(containers+".txt", []byte(responses(t, c)), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	if err := pack(containers+".tar.gz", dir); err != nil {
		t.Fatal(err)
	}
}

// TestContainers checks that this build opens a directory with containers and finds the definitions, scripts, and
// items. The build must run the scripts, enforce the unique keys, write items, and find all data again.
func TestContainers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := unpack(containers+".tar.gz", dir); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(containers + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		runREST(t, dir, func(c *restclient.Client) {
			if got := responses(t, c); got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			for _, a := range []asked{
				{http.MethodPost, food + "/docs", `["new"]`, "", `{"id":"new","group":"new","name":"new"}`},
				{http.MethodDelete, food + "/docs/new", `["new"]`, "", ""},
			} {
				if status, answer := a.ask(t, c); status >= 300 {
					t.Errorf("%+v: %d %s", a, status, answer)
				}
			}
		})
	}
}
