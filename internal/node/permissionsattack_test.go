// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/server/audit"
	"github.com/ilion-db/ilion/test/restclient"
)

// TestTokensStayInTheirKey checks that a client whose permission is limited to a partition key cannot reach items with
// other keys. The client sends scripts, queries, feeds, forged continuations, and ranges that include other keys.
func TestTokensStayInTheirKey(t *testing.T) {
	t.Parallel()
	a := accountOf(t, startNode(t, restOptions()))
	a.create("dbs", `{"id":"d"}`)
	a.create("dbs/d/users", `{"id":"u"}`)
	a.create("dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	const docs, secret = "dbs/d/colls/c/docs", "secret"
	for _, k := range []string{"a", "b", "c"} {
		for i := range 20 {
			text := "open"
			if k != "a" {
				text = secret
			}
			a.create(docs, fmt.Sprintf(`{"id":"%02d","k":%q,"text":%q}`, i, k, text))
		}
	}
	link := strings.Trim(a.rid("dbs/d/colls/c/docs/01", `["b"]`), "/")
	a.create("dbs/d/colls/c/sprocs", `{"id":"query","body":"function(){var c=getContext().getCollection();c.queryDocuments(`+
		`c.getSelfLink(),'SELECT * FROM c',{pageSize:1000},function(e,r){if(e)throw e;getContext().getResponse().setBody(r)})}"}`)
	a.create("dbs/d/colls/c/sprocs", `{"id":"read","body":"function(link){var c=getContext().getCollection();`+
		`c.readDocument(link,function(e,r){getContext().getResponse().setBody(e?e.number:r)})}"}`)
	token := a.permit("key", "All", "dbs/d/colls/c", `["a"]`)

	// stays sends a request for which the response must not contain an item with another key.
	stays := func(d demand, want ...int) string {
		t.Helper()
		d.Token = token
		status, body := a.ask(d)
		if strings.Contains(body, secret) {
			t.Fatalf("%s %s %v reads another key: %s", d.Method, d.Path, d.Headers, body)
		}
		for _, allowed := range want {
			if status == allowed {
				return body
			}
		}
		t.Fatalf("%s %s %v: status %d, want %v: %s", d.Method, d.Path, d.Headers, status, want, body)
		return ""
	}
	const key = `["a"]`
	body := stays(demand{Method: "POST", Path: "dbs/d/colls/c/sprocs/query", Key: key, Body: `[]`}, 200)
	if strings.Count(body, "open") != 20 {
		t.Errorf("the procedure returns %s", body)
	}
	for _, item := range []string{"dbs/d/colls/c/docs/01", link} {
		stays(demand{Method: "POST", Path: "dbs/d/colls/c/sprocs/read", Key: key, Body: fmt.Sprintf(`[%q]`, item)}, 200,
			400)
	}
	stays(demand{Method: "GET", Path: link, Key: key}, 404)
	for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c WHERE c.k = 'b'",
		"SELECT * FROM c WHERE c.k IN ('a','b')",
		"SELECT * FROM c WHERE c.k = 'b' OR c.id = '01'", "SELECT * FROM c ORDER BY c.text DESC",
		"SELECT c.text, COUNT(1) AS n FROM c GROUP BY c.text", "SELECT DISTINCT c.text FROM c",
		"SELECT * FROM c WHERE EXISTS(SELECT VALUE 1 FROM c WHERE c.k = 'b')"} {
		q := demand{Method: "POST", Path: docs, Key: key, Body: fmt.Sprintf(`{"query":%q}`, text)}
		for _, more := range [][]string{{}, {"x-ms-documentdb-query-enablecrosspartition", "true"},
			{"x-ms-start-epk", "", "x-ms-end-epk", "FF"}, {"x-ms-documentdb-partitionkeyrangeid", a.firstRange()}} {
			q.Headers = queried(more...)
			stays(q, 200)
		}
		// A continuation of the same query over all keys.
		r := &restclient.Request{Method: "POST", Path: docs, Body: json.RawMessage(q.Body), Headers: queried(
			"x-ms-documentdb-query-enablecrosspartition", "true", "x-ms-max-item-count", "1")}
		_, h, err := a.c.Ask(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < 70 && h.Get("x-ms-continuation") != ""; i++ {
			q.Headers = queried("x-ms-continuation", h.Get("x-ms-continuation"))
			stays(q, 200, 400)
			r.Headers["x-ms-continuation"] = h.Get("x-ms-continuation")
			if _, h, err = a.c.Ask(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range []map[string]string{{}, {"A-IM": "Incremental Feed"}} {
		name := "x-ms-continuation"
		if len(kind) > 0 {
			name = "If-None-Match"
		}
		r := &restclient.Request{Method: "GET", Path: docs, Headers: map[string]string{"x-ms-max-item-count": "1"}}
		for k, v := range kind {
			r.Headers[k] = v
		}
		for range 70 {
			_, h, err := a.c.Ask(t.Context(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			next := h.Get(name)
			if len(kind) > 0 {
				next = h.Get("etag")
			}
			if next == "" {
				break
			}
			r.Headers[name] = next
			own := map[string]string{name: next}
			for k, v := range kind {
				own[k] = v
			}
			stays(demand{Method: "GET", Path: docs, Key: key, Headers: own}, 200, 304, 400)
		}
	}
	for _, batch := range []string{`[{"operationType":"Read","id":"01","partitionKey":"[\"b\"]"}]`,
		`[{"operationType":"Upsert","resourceBody":{"id":"01","k":"b","text":"x"}}]`,
		`[{"operationType":"Read","id":"01"},{"operationType":"Read","id":"01","partitionKey":"[\"b\"]"}]`} {
		for _, atomic := range []string{"true", "false"} {
			stays(demand{Method: "POST", Path: docs, Key: key, Body: batch, Headers: map[string]string{
				"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": atomic}}, 200, 207, 400, 403)
		}
	}
	left := a.want(200, demand{Method: "POST", Path: docs,
		Body:    `{"query":"SELECT VALUE COUNT(1) FROM c WHERE c.text='secret'"}`,
		Headers: queried("x-ms-documentdb-query-enablecrosspartition", "true")})
	if !strings.Contains(left, "[40]") {
		t.Errorf("items with other keys were changed: %s", left)
	}
}

// rid returns the link to an item by resource IDs.
func (a *restAccount) rid(path, key string) string {
	a.t.Helper()
	var item struct {
		Self string `json:"_self"`
	}
	if err := json.Unmarshal([]byte(a.want(200, demand{Method: "GET", Path: path, Key: key})), &item); err != nil {
		a.t.Fatal(err)
	}
	return item.Self
}

// firstRange returns the ID of the first physical partition of container c.
func (a *restAccount) firstRange() string {
	a.t.Helper()
	var list struct{ PartitionKeyRanges []struct{ ID string } }
	text := a.want(200, demand{Method: "GET", Path: "dbs/d/colls/c/pkranges"})
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.PartitionKeyRanges) == 0 {
		a.t.Fatal(text, err)
	}
	return list.PartitionKeyRanges[0].ID
}

// TestTokensByResourceID checks permissions and requests that refer to containers, items, and scripts by their resource
// IDs.
func TestTokensByResourceID(t *testing.T) {
	t.Parallel()
	a := accountOf(t, startNode(t, restOptions()))
	a.fill()
	item := strings.Trim(a.rid("dbs/d/colls/c/docs/1", `["a"]`), "/")
	parts := strings.Split(item, "/")
	container := strings.Join(parts[:4], "/")
	script := strings.Trim(a.rid("dbs/d/colls/c/sprocs/p", ""), "/")
	tokens := map[string]string{
		"container": a.permit("container", "Read", "dbs/"+parts[1]+"/colls/"+parts[3]+"/", ""),
		"item":      a.permit("item", "Read", item+"/", ""),
		"named":     a.permit("named", "Read", "dbs/d/colls/c/docs/1", `["a"]`),
		"script":    a.permit("script", "All", script, ""),
	}
	for _, c := range []struct {
		demand
		allowed string
	}{
		{demand{Method: "GET", Path: container}, "container item named script"},
		{demand{Method: "GET", Path: item, Key: `["a"]`}, "container item named"},
		{demand{Method: "GET", Path: "dbs/d/colls/c/docs/1", Key: `["a"]`}, "container item named"},
		{demand{Method: "GET", Path: "dbs/d/colls/c/docs/1", Key: `["b"]`}, "container"},
		{demand{Method: "GET", Path: "dbs/d/colls/c/docs/2", Key: `["a"]`}, "container"},
		{demand{Method: "GET", Path: strings.Trim(a.rid("dbs/d/colls/c/docs/2", `["a"]`), "/"), Key: `["a"]`},
			"container"},
		{demand{Method: "GET", Path: strings.Trim(a.rid("dbs/d/colls/o/docs/1", `["a"]`), "/"), Key: `["a"]`}, ""},
		{demand{Method: "POST", Path: script, Key: `["a"]`, Body: `[]`}, "script"},
		{demand{Method: "POST", Path: "dbs/d/colls/c/sprocs/p", Key: `["a"]`, Body: `[]`}, "script"},
	} {
		for name, token := range tokens {
			want := http.StatusForbidden
			if strings.Contains(" "+c.allowed+" ", " "+name+" ") {
				want = http.StatusOK
			}
			c.Token = token
			if got, body := a.ask(c.demand); got != want {
				t.Errorf("%s %s with the token %q: status %d, want %d: %s", c.Method, c.Path, name, got, want, body)
			}
		}
	}
}

// TestTokenAudit checks that the audit log contains the permission of a request with a resource token, and that changes
// of users and permissions have the category of changes of roles. The log must not contain tokens.
func TestTokenAudit(t *testing.T) {
	t.Parallel()
	o := restOptions()
	o.Data = filepath.Join(t.TempDir(), "data")
	o.Audit = audit.Options{Enabled: true}
	n := startNode(t, o)
	a := accountOf(t, n)
	a.fill()
	token := a.permit("p", "Read", "dbs/d/colls/c", "")
	a.want(200, read("c", token))
	a.want(403, demand{Method: "GET", Path: "dbs/d/users/u/permissions/p", Token: token})
	a.want(204, demand{Method: "DELETE", Path: "dbs/d/users/u"})
	a.want(401, read("c", token))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(o.Data, auditDir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	log := string(b)
	for _, want := range []string{"user:d/u/p|", "|type:READ_ITEM|category:QUERY|",
		"|type:CREATE_PERMISSION|category:DCL|", "|type:DELETE_USER|category:DCL|",
		"|type:UNAUTHORIZED_ATTEMPT|category:AUTH|", "|type:LOGIN_ERROR|category:AUTH|"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in %s", want, log)
		}
	}
	if strings.Contains(log, "type=resource") {
		t.Errorf("the log contains a token: %s", log)
	}
}
