// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// TestTargets checks the parsing of paths. The test covers encoded and unencoded names, trailing slashes, IDs with
// slashes, and invalid paths.
func TestTargets(t *testing.T) {
	for _, c := range []struct{ path, kind, link, id string }{
		{"/", "", "", ""},
		{"", "", "", ""},
		{"/dbs", "dbs feed", "", ""},
		{"/dbs/", "dbs feed", "", ""},
		{"/DBS/", "dbs feed", "", ""},
		{"/dbs/d", "dbs", "dbs/d", "d"},
		{"//dbs/d//", "dbs", "dbs/d", "d"},
		{"/dbs/d/colls", "colls feed", "dbs/d", ""},
		{"/dbs/d/colls/c/", "colls", "dbs/d/colls/c", "c"},
		{"/dbs/d%20e/colls/%C3%A9/docs", "docs feed", "dbs/d e/colls/é", ""},
		{"/dbs/d/colls/c/docs/a%2Fb", "docs", "dbs/d/colls/c/docs/a/b", "a/b"},
		{"/dbs/d/colls/c/docs/a/b", "docs", "dbs/d/colls/c/docs/a/b", "a/b"},
		{"/dbs/d/colls/c/docs/%23%3F%2520", "docs", "dbs/d/colls/c/docs/#?%20", "#?%20"},
		{"/dbs/d/colls/c/sprocs/p", "sprocs", "dbs/d/colls/c/sprocs/p", "p"},
		{"/dbs/d/colls/c/pkranges/", "pkranges feed", "dbs/d/colls/c", ""},
		{"/dbs/d/colls/c/operations/partitionkeydelete", "partitionkeydelete feed", "dbs/d/colls/c", ""},
		{"/offers", "offers feed", "", ""},
		{"/offers/AbCd/", "offers", "offers/AbCd", "AbCd"},
		{"/dbs/d/users/u/permissions/p", "permissions", "dbs/d/users/u/permissions/p", "p"},
		{"/nosuch", "none", "", ""},
		{"/dbs/d/docs", "none", "", ""},
		{"/docs/x", "none", "", ""},
		{"/dbs/d/colls/c/docs/%zz", "none", "", ""},
		{"/dbs/d/colls/c/operations/other", "none", "", ""},
		{"/dbs/" + strings.Repeat("d", 9000), "none", "", ""},
	} {
		got, kind := parseTarget(c.path), "none"
		link, id := "", ""
		if got != nil {
			if kind, link, id = string(got.kind), string(got.appendLink(nil)), got.id(); got.feed {
				kind += " feed"
			}
		}
		if kind != c.kind || link != c.link || id != c.id {
			t.Errorf("%s: %q %q %q, want %q %q %q", c.path, kind, link, id, c.kind, c.link, c.id)
		}
	}
}

// TestOperations checks the operation for a method, a path, and headers, and whether the read-only key allows the
// operation.
func TestOperations(t *testing.T) {
	routes := New(newFake(), noScripts{}, Options{}).routes
	const docs, one = "/dbs/d/colls/c/docs", "/dbs/d/colls/c/docs/x"
	is := func(names ...string) (h httpwire.Fields) {
		for _, name := range names {
			h = append(h, httpwire.Field{Name: name, Value: "True"})
		}
		return h
	}
	for _, c := range []struct {
		method, path string
		header       httpwire.Fields
		want         string
		reads        bool
	}{
		{get, "/", is(), "read account", true},
		{post, docs, is(), "create item", false},
		{post, docs, is(hUpsert), "upsert item", false},
		{post, docs, is(hQuery), "query items", true},
		{post, docs, is(hQueryGo), "query items", true},
		{post, docs, httpwire.Fields{{Name: hContentType, Value: "application/query+json; charset=utf-8"}},
			"query items", true},
		{post, docs, is(hQuery, hQueryPlan), "query plan", true},
		{post, docs, is(hBatch, hBatchAtomic), "batch", false},
		{post, docs, is(hBatch), "bulk", false},
		{post, docs, httpwire.Fields{{Name: hUpsert, Value: "False"}}, "create item", false},
		{get, docs, is(), "list items", true},
		{get, docs, httpwire.Fields{{Name: hIncremental, Value: "Incremental Feed"}}, "change feed", true},
		{patch, one, is(), "patch item", false},
		{post, "/dbs/d/colls/c/sprocs/p", is(), "execute stored procedure", false},
		{post, "/dbs/d/colls/c/triggers/p", is(), "The method POST is not supported for this path", false},
		{put, "/dbs/d", is(), "The method PUT is not supported for this path", false},
		{"BREW", "/", is(), "The method BREW is not supported for this path", false},
		{get, "/dbs/d/users", is(), "list users", true},
		{post, "/dbs/d/users/u/permissions", is(hUpsert), "upsert permission", false},
		{post, "/dbs/d/clientencryptionkeys", is(), "create client encryption key", false},
		{del, "/dbs/d/clientencryptionkeys/k", is(), "The method DELETE is not supported for this path", false},
	} {
		op, refusal := routes.find(c.method, parseTarget(c.path), c.header)
		switch {
		case refusal == nil && (op.name != c.want || op.reads != c.reads):
			t.Errorf("%s %s: %s, reads %v; want %s", c.method, c.path, op.name, op.reads, c.want)
		case refusal != nil && !strings.HasPrefix(refusal.message, c.want):
			t.Errorf("%s %s: %v, want %s", c.method, c.path, refusal, c.want)
		}
	}
}

// FuzzTarget checks that no path or Authorization header causes a failure or is accepted by accident. Without the key,
// access must be denied.
func FuzzTarget(f *testing.F) {
	for _, c := range goldenSignatures {
		f.Add(c.path, signed(c.sig).Get("Authorization"))
	}
	f.Add("/dbs/%", "type=master&ver=1.0&sig=")
	f.Add("/dbs/d", tokenPrefix+"AAAA;AAAA;,"+tokenPrefix+";")
	keys := &Keys{Primary: keyOf(7), Secondary: keyOf(8), ReadOnly: keyOf(9)}
	routes := New(newFake(), noScripts{}, Options{}).routes
	f.Fuzz(func(t *testing.T, path, authorization string) {
		target := parseTarget(path)
		if target == nil {
			return
		}
		if len(target.ids) != len(target.kinds) || !target.feed && target.kind != account && target.id() == "" {
			t.Errorf("%q: %+v", path, target)
		}
		h := httpwire.Fields{{Name: "Authorization", Value: authorization},
			{Name: hDate, Value: signedAt.Format(http.TimeFormat)}}
		if _, refusal := keys.authenticate(get, h, target, signedAt, nil); refusal == nil {
			t.Errorf("%q logs in with %q", path, authorization)
		}
		tokens, _ := resourceTokens(authorization)
		for _, token := range tokens {
			if _, refusal := keys.verify(token, signedAt); refusal == nil {
				t.Errorf("the token %q is valid", token)
			}
		}
		_, _ = routes.find(post, target, h)
	})
}
