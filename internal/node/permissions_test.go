// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/restclient"
)

// restAccount sends requests to a node over REST.
type restAccount struct {
	t *testing.T
	c *restclient.Client
}

// accountOf returns a client that signs with the primary key of restNode.
func accountOf(t *testing.T, n *Node) *restAccount {
	t.Helper()
	c := restclient.New(n.RESTAddr().String(), time.Minute)
	t.Cleanup(c.Close)
	return &restAccount{t, c}
}

// restOptions returns the options of a node that serves containers to accounts.
func restOptions() Options {
	return Options{REST: options.REST{Address: "127.0.0.1:0", PrimaryKey: restclient.Key,
		ReadOnlyKey: restclient.ReadOnlyKey}}
}

// demand is a request of an account. Token is a resource token, or empty for a request signed with the account key.
// Key is the partition key header.
type demand struct {
	Method, Path, Token, Key, Body string
	Headers                        map[string]string
}

// ask sends a request and returns the status and the body of the response.
func (a *restAccount) ask(d demand) (int, string) {
	a.t.Helper()
	r := restclient.Request{Method: d.Method, Path: d.Path, Headers: map[string]string{}}
	if d.Body != "" {
		r.Body = json.RawMessage(d.Body)
	}
	if d.Token != "" {
		r.Headers["Authorization"] = url.QueryEscape(d.Token)
	}
	if d.Key != "" {
		r.Headers["x-ms-documentdb-partitionkey"] = d.Key
	}
	for name, value := range d.Headers {
		r.Headers[name] = value
	}
	var body []byte
	status, _, err := a.c.Ask(a.t.Context(), &r, &body)
	if err != nil {
		a.t.Fatal(err)
	}
	return status, string(body)
}

// want sends a request and fails the test unless the response has a status. It returns the body.
func (a *restAccount) want(status int, d demand) string {
	a.t.Helper()
	got, body := a.ask(d)
	if got != status {
		a.t.Fatalf("%s %s %s: status %d, want %d: %s", d.Method, d.Path, d.Body, got, status, body)
	}
	return body
}

// create creates a resource and returns its JSON.
func (a *restAccount) create(path, body string) map[string]any {
	a.t.Helper()
	var made map[string]any
	if err := json.Unmarshal([]byte(a.want(201, demand{Method: "POST", Path: path, Body: body})), &made); err != nil {
		a.t.Fatal(err)
	}
	return made
}

// permit creates a permission of user u of database d and returns its token. key is the partition key or empty.
func (a *restAccount) permit(id, mode, resource, key string) string {
	a.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"permissionMode":%q,"resource":%q`, id, mode, resource)
	if key != "" {
		body += `,"resourcePartitionKey":` + key
	}
	return a.create("dbs/d/users/u/permissions", body+"}")["_token"].(string)
}

// fill creates database d with user u, and containers c and o with items and scripts.
func (a *restAccount) fill() {
	a.t.Helper()
	a.create("dbs", `{"id":"d"}`)
	a.create("dbs/d/users", `{"id":"u"}`)
	for _, c := range []string{"c", "o"} {
		a.create("dbs/d/colls", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`, c))
		for _, k := range []string{"a", "b"} {
			for _, id := range []string{"1", "2"} {
				a.create("dbs/d/colls/"+c+"/docs", fmt.Sprintf(`{"id":%q,"k":%q}`, id, k))
			}
		}
		a.create("dbs/d/colls/"+c+"/sprocs", `{"id":"p","body":"function(){getContext().getResponse().setBody(1)}"}`)
		a.create("dbs/d/colls/"+c+"/sprocs", `{"id":"q","body":"function(){}"}`)
		a.create("dbs/d/colls/"+c+"/triggers", `{"id":"t","body":"function(){}","triggerType":"Pre",
			"triggerOperation":"All"}`)
		a.create("dbs/d/colls/"+c+"/udfs", `{"id":"f","body":"function(){return 1}"}`)
	}
}

// queried are the headers of a query.
func queried(more ...string) map[string]string {
	h := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-isquery": "true"}
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

// TestTokenPermissions checks that a resource token allows exactly the requests of its permission.
func TestTokenPermissions(t *testing.T) {
	t.Parallel()
	a := accountOf(t, startNode(t, restOptions()))
	a.fill()
	tokens := map[string]string{
		"read":   a.permit("read", "Read", "dbs/d/colls/c", ""),
		"all":    a.permit("all", "All", "dbs/d/colls/o", ""),
		"key":    a.permit("key", "all", "dbs/d/colls/c", `["a"]`),
		"keyed":  a.permit("keyed", "Read", "dbs/d/colls/c", `["b"]`),
		"item":   a.permit("item", "All", "/dbs/d/colls/c/docs/1/", `["a"]`),
		"proc":   a.permit("proc", "All", "dbs/d/colls/c/sprocs/p", ""),
		"reader": a.permit("reader", "Read", "dbs/d/colls/c/sprocs/q", ""),
	}
	const docs, item, query, batch = "dbs/d/colls/c/docs", "dbs/d/colls/c/docs/1",
		`{"query":"SELECT VALUE c.k FROM c"}`, `[{"operationType":"Read","id":"1"}]`
	all := queried("x-ms-documentdb-query-enablecrosspartition", "true")
	changes := map[string]string{"A-IM": "Incremental Feed"}
	bulk := func(key string) string {
		return fmt.Sprintf(`[{"operationType":"Read","id":"1","partitionKey":%q}]`, key)
	}
	for _, c := range []struct {
		name string
		demand
		// allowed are the tokens that allow the request.
		allowed string
		status  int
	}{
		{"account", demand{Method: "GET"}, "read all key keyed item proc reader", 200},
		{"databases", demand{Method: "GET", Path: "dbs"}, "", 0},
		{"create database", demand{Method: "POST", Path: "dbs", Body: `{"id":"n"}`}, "", 0},
		{"database", demand{Method: "GET", Path: "dbs/d"}, "", 0},
		{"delete database", demand{Method: "DELETE", Path: "dbs/d"}, "", 0},
		{"containers", demand{Method: "GET", Path: "dbs/d/colls"}, "", 0},
		{"create container", demand{Method: "POST", Path: "dbs/d/colls", Body: `{"id":"n"}`}, "", 0},
		{"users", demand{Method: "GET", Path: "dbs/d/users"}, "", 0},
		{"user", demand{Method: "GET", Path: "dbs/d/users/u"}, "", 0},
		{"permissions", demand{Method: "GET", Path: "dbs/d/users/u/permissions"}, "", 0},
		{"own permission", demand{Method: "GET", Path: "dbs/d/users/u/permissions/read"}, "", 0},
		{"new permission", demand{Method: "POST", Path: "dbs/d/users/u/permissions", Body: `{"id":"x"}`}, "", 0},
		{"encryption keys", demand{Method: "GET", Path: "dbs/d/clientencryptionkeys"}, "", 0},
		{"offers", demand{Method: "GET", Path: "offers"}, "", 0},
		{"container", demand{Method: "GET", Path: "dbs/d/colls/c"}, "read key keyed item proc reader", 200},
		{"other container", demand{Method: "GET", Path: "dbs/d/colls/o"}, "all", 200},
		{"no container", demand{Method: "GET", Path: "dbs/d/colls/none"}, "", 0},
		{"no database", demand{Method: "GET", Path: "dbs/none/colls/c"}, "", 0},
		{"replace container", demand{Method: "PUT", Path: "dbs/d/colls/o",
			Body: `{"id":"o","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`}, "all", 200},
		{"replace read", demand{Method: "PUT", Path: "dbs/d/colls/c", Body: `{"id":"c"}`}, "", 0},
		{"delete container", demand{Method: "DELETE", Path: "dbs/d/colls/c"}, "", 0},
		{"ranges", demand{Method: "GET", Path: "dbs/d/colls/c/pkranges"}, "read key keyed item proc reader", 200},
		{"conflicts", demand{Method: "GET", Path: "dbs/d/colls/c/conflicts"}, "read", 200},
		{"plan", demand{Method: "POST", Path: docs, Body: query, Headers: queried(
			"x-ms-cosmos-is-query-plan-request", "true")}, "read key keyed item proc reader", 200},

		{"item a", demand{Method: "GET", Path: item, Key: `["a"]`}, "read key item", 200},
		{"item b", demand{Method: "GET", Path: item, Key: `["b"]`}, "read keyed", 200},
		{"other item", demand{Method: "GET", Path: docs + "/2", Key: `["a"]`}, "read key", 200},
		{"absent item", demand{Method: "GET", Path: docs + "/3", Key: `["a"]`}, "read key", 404},
		{"no key", demand{Method: "GET", Path: item}, "read", 400},
		{"empty key", demand{Method: "GET", Path: item, Key: `[]`}, "read", 400},
		{"bad key", demand{Method: "GET", Path: item, Key: `{`}, "read", 400},
		{"two values", demand{Method: "GET", Path: item, Key: `["a","b"]`}, "read", 400},
		{"escaped key", demand{Method: "GET", Path: item, Key: `["\u0061"]`}, "read key item", 200},
		{"item of o", demand{Method: "GET", Path: "dbs/d/colls/o/docs/1", Key: `["a"]`}, "all", 200},
		{"create a", demand{Method: "POST", Path: docs, Key: `["a"]`, Body: `{"id":"1","k":"a"}`}, "key", 409},
		{"create b", demand{Method: "POST", Path: docs, Key: `["b"]`, Body: `{"id":"1","k":"b"}`}, "", 0},
		{"create in another key", demand{Method: "POST", Path: docs, Key: `["a"]`, Body: `{"id":"7","k":"b"}`}, "key",
			400},
		{"create without key", demand{Method: "POST", Path: docs, Body: `{"id":"7","k":"a"}`}, "", 0},
		{"upsert", demand{Method: "POST", Path: docs, Key: `["a"]`, Body: `{"id":"1","k":"a"}`,
			Headers: map[string]string{"x-ms-documentdb-is-upsert": "true"}}, "key", 200},
		{"replace", demand{Method: "PUT", Path: item, Key: `["a"]`, Body: `{"id":"1","k":"a"}`}, "key item", 200},
		{"move", demand{Method: "PUT", Path: item, Key: `["a"]`, Body: `{"id":"1","k":"b"}`}, "key item", 400},
		{"rename", demand{Method: "PUT", Path: item, Key: `["a"]`, Body: `{"id":"9","k":"a"}`}, "key item", 400},
		{"trigger", demand{Method: "PUT", Path: item, Key: `["a"]`, Body: `{"id":"1","k":"a"}`,
			Headers: map[string]string{"x-ms-documentdb-pre-trigger-include": "t"}}, "key", 200},
		{"patch", demand{Method: "PATCH", Path: item, Key: `["a"]`,
			Body: `{"operations":[{"op":"set","path":"/n","value":1}]}`}, "key item", 200},
		{"replace b", demand{Method: "PUT", Path: item, Key: `["b"]`, Body: `{"id":"1","k":"b"}`}, "", 0},
		{"delete b", demand{Method: "DELETE", Path: item, Key: `["b"]`}, "", 0},
		{"delete key b", demand{Method: "POST", Path: "dbs/d/colls/c/operations/partitionkeydelete", Key: `["b"]`}, "",
			0},

		{"list", demand{Method: "GET", Path: docs}, "read", 200},
		{"list a", demand{Method: "GET", Path: docs, Key: `["a"]`}, "read key", 200},
		{"feed", demand{Method: "GET", Path: docs, Headers: changes}, "read", 200},
		{"feed a", demand{Method: "GET", Path: docs, Key: `["a"]`, Headers: changes}, "read key", 200},
		{"query all", demand{Method: "POST", Path: docs, Body: query, Headers: all}, "read", 200},
		{"query a", demand{Method: "POST", Path: docs, Key: `["a"]`, Body: query, Headers: all}, "read key", 200},
		{"query with udf", demand{Method: "POST", Path: docs, Key: `["a"]`, Headers: all,
			Body: `{"query":"SELECT VALUE udf.f() FROM c"}`}, "read key", 200},
		{"batch a", demand{Method: "POST", Path: docs, Key: `["a"]`, Body: batch, Headers: map[string]string{
			"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "true"}}, "key", 200},
		{"batch b", demand{Method: "POST", Path: docs, Key: `["b"]`, Body: batch, Headers: map[string]string{
			"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "true"}}, "", 0},
		{"bulk a", demand{Method: "POST", Path: docs, Body: bulk(`["a"]`), Headers: map[string]string{
			"x-ms-cosmos-is-batch-request": "true"}}, "key", 200},
		{"bulk b", demand{Method: "POST", Path: docs, Key: `["a"]`, Body: bulk(`["b"]`), Headers: map[string]string{
			"x-ms-cosmos-is-batch-request": "true"}}, "", 0},

		{"scripts", demand{Method: "GET", Path: "dbs/d/colls/c/sprocs"}, "read", 200},
		{"script", demand{Method: "GET", Path: "dbs/d/colls/c/sprocs/p"}, "read proc", 200},
		{"script q", demand{Method: "GET", Path: "dbs/d/colls/c/sprocs/q"}, "read reader", 200},
		{"trigger t", demand{Method: "GET", Path: "dbs/d/colls/c/triggers/t"}, "read", 200},
		{"new script", demand{Method: "POST", Path: "dbs/d/colls/c/sprocs", Body: `{"id":"n","body":"x"}`}, "", 0},
		{"replace script", demand{Method: "PUT", Path: "dbs/d/colls/c/sprocs/q", Body: `{"id":"q","body":"x"}`}, "", 0},
		{"call p", demand{Method: "POST", Path: "dbs/d/colls/c/sprocs/p", Key: `["a"]`, Body: `[]`}, "key proc", 200},
		{"call p on b", demand{Method: "POST", Path: "dbs/d/colls/c/sprocs/p", Key: `["b"]`, Body: `[]`}, "proc", 200},
		{"call q", demand{Method: "POST", Path: "dbs/d/colls/c/sprocs/q", Key: `["a"]`, Body: `[]`}, "key", 200},
	} {
		for name, token := range tokens {
			want := http.StatusForbidden
			for _, allowed := range strings.Fields(c.allowed) {
				if allowed == name {
					want = c.status
				}
			}
			c.Token = token
			if got, body := a.ask(c.demand); got != want {
				t.Errorf("%s with the token %q: status %d, want %d: %s", c.name, name, got, want, body)
			}
		}
	}
	both := tokens["keyed"] + "," + tokens["key"]
	a.want(200, demand{Method: "GET", Path: item, Key: `["a"]`, Token: both})
	a.want(200, demand{Method: "GET", Path: item, Key: `["b"]`, Token: both})
	a.want(403, demand{Method: "PUT", Path: item, Key: `["b"]`, Token: both, Body: `{"id":"1","k":"b"}`})
	const bad = "type=resource&ver=1&sig=x;y;"
	a.want(200, demand{Method: "GET", Path: item, Key: `["b"]`, Token: bad + "," + tokens["keyed"]})
	a.want(401, demand{Method: "GET", Path: item, Key: `["b"]`, Token: bad})
}
