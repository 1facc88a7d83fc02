// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/test/fakeclock"
	"github.com/ilion-db/ilion/test/restclient"
)

// users and permissions are the paths of the lists of user u and its permissions.
const (
	usersPath       = "dbs/d/users"
	permissionsPath = "dbs/d/users/u/permissions"
)

// read is the request with a token that must be allowed or rejected.
func read(container, token string) demand {
	return demand{Method: "GET", Path: "dbs/d/colls/" + container + "/docs/1", Key: `["a"]`, Token: token}
}

// TestTokensEnd checks that a resource token is rejected after its expiry, after a change or the deletion of its
// permission, its user, its database, or its container, and after a change of the account key that signed it.
func TestTokensEnd(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // of the clock of the node
	clock := fakeclock.Func(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	o := restOptions()
	o.Testing.Clock, o.REST.PrimaryKey, o.REST.SecondaryKey = clock, "", restclient.Key
	n := startNode(t, o)
	a := accountOf(t, n)
	a.fill()
	body := func(mode string) string {
		return fmt.Sprintf(`{"id":"p","permissionMode":%q,"resource":"dbs/d/colls/c"}`, mode)
	}
	token := a.permit("p", "Read", "dbs/d/colls/c", "")
	a.want(200, read("c", token))

	// A replacement makes earlier tokens invalid, even if it changes nothing. A read does not.
	var found map[string]any
	decode := func(text string) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
	}
	decode(a.want(200, demand{Method: "GET", Path: permissionsPath + "/p"}))
	a.want(200, read("c", token))
	a.want(200, read("c", found["_token"].(string)))
	replaced := a.want(200, demand{Method: "PUT", Path: permissionsPath + "/p", Body: body("Read")})
	a.want(401, read("c", token))
	decode(replaced)
	token = found["_token"].(string)
	a.want(200, read("c", token))
	a.want(412, demand{Method: "PUT", Path: permissionsPath + "/p", Body: body("All"),
		Headers: map[string]string{"If-Match": `"other"`}})
	a.want(200, read("c", token))
	a.want(200, demand{Method: "POST", Path: permissionsPath, Body: body("All"),
		Headers: map[string]string{"x-ms-documentdb-is-upsert": "True"}})
	a.want(401, read("c", token))

	// The same ID again is another permission.
	a.want(204, demand{Method: "DELETE", Path: permissionsPath + "/p"})
	token = a.permit("p", "All", "dbs/d/colls/c", "")
	a.want(204, demand{Method: "DELETE", Path: permissionsPath + "/p"})
	a.want(401, read("c", token))
	again := a.permit("p", "All", "dbs/d/colls/c", "")
	a.want(401, read("c", token))
	a.want(200, read("c", again))
	a.want(204, demand{Method: "DELETE", Path: usersPath + "/u"})
	a.want(401, read("c", again))
	a.create(usersPath, `{"id":"u"}`)
	a.want(401, read("c", again))

	// A container with the name of a dropped container.
	token = a.permit("p", "All", "dbs/d/colls/c", "")
	a.want(204, demand{Method: "DELETE", Path: "dbs/d/colls/c"})
	a.want(403, read("c", token))
	a.create("dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	a.create("dbs/d/colls/c/docs", `{"id":"1","k":"a"}`)
	a.want(403, read("c", token))
	a.want(403, demand{Method: "DELETE", Path: "dbs/d/colls/c", Token: token})
	a.want(200, demand{Method: "GET", Token: token})

	// A script with the name of a deleted script.
	call := demand{Method: "POST", Path: "dbs/d/colls/o/sprocs/p", Key: `["a"]`, Body: `[]`,
		Token: a.permit("script", "All", "dbs/d/colls/o/sprocs/p", "")}
	a.want(200, call)
	a.want(204, demand{Method: "DELETE", Path: "dbs/d/colls/o/sprocs/p"})
	a.create("dbs/d/colls/o/sprocs", `{"id":"p","body":"function(){}"}`)
	a.want(403, call)

	// The expiry.
	brief := demand{Method: "GET", Path: permissionsPath + "/whole",
		Headers: map[string]string{"x-ms-documentdb-expiry-seconds": "10"}}
	token = a.permit("whole", "Read", "dbs/d/colls/c", "")
	decode(a.want(200, brief))
	ahead.Store(int64(10 * time.Second))
	a.want(403, read("c", found["_token"].(string)))
	a.want(200, read("c", token))
	ahead.Store(int64(time.Hour))
	a.want(403, read("c", token))
	ahead.Store(0)
	for _, seconds := range []string{"9", "86401", "0", "-1", "x", "1e3", "99999999999999999999"} {
		brief.Headers["x-ms-documentdb-expiry-seconds"] = seconds
		a.want(400, brief)
	}

	// The account keys. The secondary key signed these tokens, because the requests were signed with it.
	brief.Headers["x-ms-documentdb-expiry-seconds"] = "86400"
	decode(a.want(200, brief))
	token = found["_token"].(string)
	primary := &restAccount{t, restclient.NewWithKey(n.RESTAddr().String(), keyOfAccount(t, n, "rest_primary_key"),
		time.Minute)}
	defer primary.c.Close()
	decode(primary.want(200, brief))
	first := found["_token"].(string)
	a.want(200, read("c", token))
	a.want(200, read("c", first))
	_, err := n.metadata.Update(t.Context(), func(s *meta.State) (*meta.State, error) {
		return s.WithSetting("rest_primary_key", restclient.ReadOnlyKey), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a.want(200, read("c", token))
	a.want(401, read("c", first))

	// The database.
	a.want(204, demand{Method: "DELETE", Path: "dbs/d"})
	a.want(401, read("c", token))
	if left, _ := n.changer.Resources(); left.Len() != 0 {
		t.Errorf("%d users and permissions remain after the database was dropped", left.Len())
	}
	a.fill()
	a.want(401, read("c", token))
	a.want(404, demand{Method: "GET", Path: permissionsPath + "/whole"})
}

// keyOfAccount returns a generated account key of a node.
func keyOfAccount(t *testing.T, n *Node, name string) string {
	t.Helper()
	return n.metadata.State().Settings[name]
}

// TestPermissionRequests checks which permissions and users can be created and by whom, and that lists contain them.
func TestPermissionRequests(t *testing.T) {
	t.Parallel()
	n := startNode(t, restOptions())
	a := accountOf(t, n)
	a.fill()
	a.create("dbs", `{"id":"e"}`)
	a.create("dbs/e/colls", `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	made := a.create(permissionsPath,
		`{"id":"p","permissionMode":"read","resource":"dbs/d/colls/c/","_token":"x","n":1}`)
	for _, c := range []struct {
		status int
		body   string
	}{
		{409, `{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/o"}`},
		{409, `{"id":"p2","permissionMode":"All","resource":"/dbs/d/colls/c"}`},
		{201, `{"id":"p3","permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":["x"]}`},
		{409, `{"id":"p4","permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":["\u0078"]}`},
		{201, `{"id":"p5","permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":[null]}`},
		{201, `{"id":"p6","permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":[{}]}`},
		{400, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls/o","resourcePartitionKey":[]}`},
		{400, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls/o","resourcePartitionKey":"x"}`},
		{400, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls/o","resourcePartitionKey":["a","b"]}`},
		{400, `{"id":"x","permissionMode":"Write","resource":"dbs/d/colls/o"}`},
		{400, `{"id":"x","resource":"dbs/d/colls/o"}`},
		{400, `{"id":"x","permissionMode":"All"}`},
		{400, `{"id":"x","permissionMode":"All","resource":1}`},
		{400, `{"id":"x","permissionMode":"All","resource":""}`},
		{400, `{"id":"x","permissionMode":"All","resource":"dbs/d"}`},
		{400, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls"}`},
		{400, `{"id":"x","permissionMode":"All","resource":"dbs/d/users/u"}`},
		{400, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls/o/pkranges/0"}`},
		{400, `{"id":"x","permissionMode":"All","resource":"dbs/e/colls/c"}`},
		{404, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls/none"}`},
		{404, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls/o/sprocs/none"}`},
		{404, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls/o/triggers/p"}`},
		{400, `{"id":"a/b","permissionMode":"All","resource":"dbs/d/colls/o"}`},
		{400, `{"permissionMode":"All","resource":"dbs/d/colls/o"}`},
		{400, `{"id":1,"permissionMode":"All","resource":"dbs/d/colls/o"}`},
		{400, `[]`},
		{413, `{"id":"x","permissionMode":"All","resource":"dbs/d/colls/o","n":"` + strings.Repeat("x", 20<<10) + `"}`},
	} {
		a.want(c.status, demand{Method: "POST", Path: permissionsPath, Body: c.body})
	}
	if made["n"] != 1.0 || made["permissionMode"] != "read" ||
		!strings.HasPrefix(made["_token"].(string), "type=resource&ver=1&sig=") ||
		!strings.HasPrefix(made["_self"].(string), "dbs/") || made["_etag"] == "" || made["_ts"].(float64) == 0 {
		t.Errorf("the permission is %v", made)
	}
	self := strings.Trim(made["_self"].(string), "/")
	parts := strings.Split(self, "/")
	a.want(200, demand{Method: "GET", Path: self})
	a.want(404, demand{Method: "GET", Path: self[:len(self)-4] + "AA=="})
	if !strings.HasPrefix(parts[5], strings.TrimRight(parts[1], "=")[:4]) {
		t.Errorf("the resource ID %s does not begin with the ID of the database %s", parts[5], parts[1])
	}
	reader := &restAccount{t, restclient.NewWithKey(n.RESTAddr().String(), restclient.ReadOnlyKey, time.Minute)}
	defer reader.c.Close()
	reader.want(200, demand{Method: "GET", Path: usersPath + "/u"})
	reader.want(403, demand{Method: "GET", Path: permissionsPath})
	reader.want(403, demand{Method: "GET", Path: permissionsPath + "/p"})
	reader.want(403, demand{Method: "POST", Path: permissionsPath, Body: `{"query":"SELECT * FROM c"}`,
		Headers: queried()})
	reader.want(403, demand{Method: "POST", Path: usersPath, Body: `{"id":"v"}`})

	a.want(409, demand{Method: "POST", Path: usersPath, Body: `{"id":"u"}`})
	a.want(404, demand{Method: "POST", Path: "dbs/d/users/none/permissions", Body: `{"id":"p"}`})
	a.want(404, demand{Method: "GET", Path: "dbs/none/users"})
	a.create(usersPath, `{"id":"v"}`)
	a.want(409, demand{Method: "PUT", Path: usersPath + "/v", Body: `{"id":"u"}`})
	a.want(200, demand{Method: "PUT", Path: usersPath + "/v", Body: `{"id":"w"}`})
	a.want(404, demand{Method: "GET", Path: usersPath + "/v"})
	var list struct{ Users []struct{ ID string } }
	found := a.want(200, demand{Method: "POST", Path: usersPath, Headers: queried(),
		Body: `{"query":"SELECT c.id FROM c WHERE c.id > 'u'"}`})
	if err := json.Unmarshal([]byte(found), &list); err != nil || len(list.Users) != 1 || list.Users[0].ID != "w" {
		t.Errorf("the query returns %s: %v", found, err)
	}
}

// TestManyPermissions checks that lists of 10,000 permissions are returned in pages of bounded size, and that neither
// the lists nor the metadata take much memory. The number of resources is limited.
func TestManyPermissions(t *testing.T) { // not parallel, because the test measures the heap of the process
	const many = 10_000
	n := startNode(t, restOptions())
	a := accountOf(t, n)
	a.fill()
	a.create(permissionsPath, `{"id":"first","permissionMode":"Read","resource":"dbs/d/colls/c"}`)
	fill := func(count int) error {
		return n.changer.ApplyResources(t.Context(), func(_ *schema.Schema, s *dbresource.State, revision uint64) (
			*dbresource.State, error) {
			user := s.List(dbresource.Parent{Kind: dbresource.User, Database: s.ByNumber(1).Database})[0]
			like := s.Find(dbresource.Parent{Kind: dbresource.Permission, Database: user.Database, Owner: user.Number},
				"first")
			all := make([]*dbresource.Resource, count)
			for i := range all {
				r := *like
				r.Number, r.Nonce, r.Revision = 0, uint64(i), revision
				r.ID = fmt.Sprintf("p%05d", i)
				r.Definition = fmt.Appendf(nil, `{"id":%q,"permissionMode":"Read","resource":"dbs/d/colls/c"}`, r.ID)
				r.Grant.Key, r.Grant.KeyValues = fmt.Sprintf("%q", r.ID), 1
				all[i] = &r
			}
			return s.WithAll(all), nil
		})
	}
	before := heap()
	if err := fill(many); err != nil {
		t.Fatal(err)
	}
	if grown := heap() - before; grown > 40<<20 {
		t.Errorf("%d permissions take %d MiB", many, grown>>20)
	}
	list := demand{Method: "GET", Path: permissionsPath, Headers: map[string]string{}}
	for _, c := range []struct {
		size string
		want int
	}{{"", 100}, {"7", 7}, {"-1", 1000}, {"100000", 10_000}} {
		list.Headers["x-ms-max-item-count"] = c.size
		var page struct {
			Permissions []struct {
				ID    string
				Token string `json:"_token"`
			}
			Count int `json:"_count"`
		}
		if err := json.Unmarshal([]byte(a.want(200, list)), &page); err != nil || len(page.Permissions) != c.want {
			t.Errorf("a page of %s permissions has %d: %v", c.size, len(page.Permissions), err)
		}
	}
	seen, next := 0, ""
	for pages := 0; pages == 0 || next != ""; pages++ {
		var page struct{ Permissions []struct{ ID string } }
		_, h, err := a.c.Ask(t.Context(), &restclient.Request{Method: "GET", Path: permissionsPath,
			Headers: map[string]string{"x-ms-max-item-count": "999", "x-ms-continuation": next}}, &page)
		if err != nil || pages > many {
			t.Fatal(pages, err)
		}
		seen, next = seen+len(page.Permissions), h.Get("x-ms-continuation")
	}
	if seen != many+1 {
		t.Errorf("the pages contain %d permissions", seen)
	}
	found := a.want(200, demand{Method: "POST", Path: permissionsPath, Headers: queried(),
		Body: `{"query":"SELECT VALUE COUNT(1) FROM c"}`})
	if !strings.Contains(found, fmt.Sprintf(`[%d]`, many+1)) {
		t.Errorf("the query returns %s", found)
	}
	token := a.permit("last", "Read", "dbs/d/colls/c", `["a"]`)
	a.want(200, read("c", token))
	if err := fill(dbresource.Max); err == nil || !strings.Contains(err.Error(), "cannot have more than 50000 users") {
		t.Errorf("%d resources: %v", dbresource.Max, err)
	}
	a.want(204, demand{Method: "DELETE", Path: usersPath + "/u"})
	if left, _ := n.changer.Resources(); left.Len() != 0 {
		t.Errorf("%d permissions remain", left.Len())
	}
}

// heap returns the size of the live heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestEncryptionKeys checks client encryption keys and the encryption policies of containers.
func TestEncryptionKeys(t *testing.T) {
	t.Parallel()
	a := accountOf(t, startNode(t, restOptions()))
	a.create("dbs", `{"id":"d"}`)
	const keys = "dbs/d/clientencryptionkeys"
	key := func(id, algorithm, wrapped, meta string) string {
		return fmt.Sprintf(`{"id":%q,"encryptionAlgorithm":%q,"wrappedDataEncryptionKey":%q,"keyWrapMetadata":%s}`, id,
			algorithm, wrapped, meta)
	}
	const aead, wrap = "AEAD_AES_256_CBC_HMAC_SHA256", `{"type":"T","name":"n","value":"v","algorithm":"RSA-OAEP"}`
	made := a.create(keys, key("k", aead, "AAAA", wrap))
	if made["wrappedDataEncryptionKey"] != "AAAA" || made["_etag"] == nil {
		t.Errorf("the key is %v", made)
	}
	for _, body := range []string{key("x", "AES", "AAAA", wrap), key("x", aead, "", wrap), key("x", aead, "!", wrap),
		key("x", aead, "AAAA", `{}`), key("x", aead, "AAAA", `null`), `{"id":"x"}`} {
		a.want(400, demand{Method: "POST", Path: keys, Body: body})
	}
	a.want(409, demand{Method: "POST", Path: keys, Body: key("k", aead, "AAAA", wrap)})
	a.want(400, demand{Method: "PUT", Path: keys + "/k", Body: key("z", aead, "BBBB", wrap)})
	rewrapped := a.want(200, demand{Method: "PUT", Path: keys + "/k", Body: key("k", aead, "BBBB", wrap)})
	all := a.want(200, demand{Method: "GET", Path: keys})
	if !strings.Contains(rewrapped, "BBBB") || !strings.Contains(all, "BBBB") {
		t.Errorf("the replaced key is %s", rewrapped)
	}
	a.want(405, demand{Method: "DELETE", Path: keys + "/k"})
	container := func(id, policy string) string {
		return fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
			"clientEncryptionPolicy":%s}`, id, policy)
	}
	path := func(name, kind, key string) string {
		return fmt.Sprintf(`{"path":%q,"encryptionType":%q,"clientEncryptionKeyId":%q,"encryptionAlgorithm":%q}`, name,
			kind, key, aead)
	}
	policy := func(version int, paths ...string) string {
		return fmt.Sprintf(`{"policyFormatVersion":%d,"includedPaths":[%s]}`, version, strings.Join(paths, ","))
	}
	for i, c := range []struct {
		status int
		policy string
	}{
		{201, policy(1, path("/a", "Deterministic", "k"), path("/b", "Randomized", "k"))},
		{201, policy(2, path("/pk", "Deterministic", "k"), path("/id", "Deterministic", "k"))},
		{201, `null`},
		{400, policy(0, path("/a", "Deterministic", "k"))},
		{400, policy(3, path("/a", "Deterministic", "k"))},
		{400, policy(1)},
		{400, policy(1, path("/a", "Deterministic", "none"))},
		{400, policy(1, path("/a", "Plaintext", "k"))},
		{400, policy(1, path("/a/b", "Deterministic", "k"))},
		{400, policy(1, path("/", "Deterministic", "k"))},
		{400, policy(1, path("a", "Deterministic", "k"))},
		{400, policy(1, path("/*", "Deterministic", "k"))},
		{400, policy(1, path("/_ts", "Deterministic", "k"))},
		{400, policy(1, path("/a", "Deterministic", "k"), path("/a", "Randomized", "k"))},
		{400, policy(1, path("/pk", "Deterministic", "k"))},
		{400, policy(1, path("/id", "Deterministic", "k"))},
		{400, policy(2, path("/pk", "Randomized", "k"))},
		{400, `"x"`},
	} {
		a.want(c.status, demand{Method: "POST", Path: "dbs/d/colls", Body: container(fmt.Sprintf("c%d", i), c.policy)})
	}
	got := a.want(200, demand{Method: "GET", Path: "dbs/d/colls/c0"})
	if !strings.Contains(got, `"encryptionType":"Randomized"`) {
		t.Errorf("the container is %s", got)
	}
	a.want(200, demand{Method: "PUT", Path: "dbs/d/colls/c0", Body: container("c0", policy(1,
		path("/a", "Deterministic", "k"), path("/b", "Randomized", "k")))})
	a.want(400, demand{Method: "PUT", Path: "dbs/d/colls/c0", Body: container("c0", `null`)})
	a.want(400, demand{Method: "PUT", Path: "dbs/d/colls/c2", Body: container("c2", policy(1,
		path("/a", "Deterministic", "k")))})
}

// TestRestoredPermissions checks that a restore creates the users, the permissions, and the client encryption keys of
// restored containers, and that earlier tokens are not valid for the restored permissions.
func TestRestoredPermissions(t *testing.T) {
	t.Parallel()
	n := startNode(t, restOptions())
	a := accountOf(t, n)
	a.fill()
	tokens := map[string]string{
		"c": a.permit("c", "All", "dbs/d/colls/c", ""), "o": a.permit("o", "All", "dbs/d/colls/o", ""),
		"script": a.permit("script", "All", "dbs/d/colls/c/sprocs/p", ""),
		"item":   a.permit("item", "Read", "dbs/d/colls/c/docs/1", `["a"]`),
	}
	a.create("dbs/d/clientencryptionkeys", `{"id":"k","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256",
		"wrappedDataEncryptionKey":"AAAA","keyWrapMetadata":{"type":"T","name":"n","value":"v","algorithm":"A"}}`)
	from := n.metadata.State()
	a.want(204, demand{Method: "DELETE", Path: "dbs/d"})
	o := archive.Restore{Backup: "b", Tables: []archive.RestoredTable{
		{Keyspace: "d", Name: "c", NewKeyspace: "d", NewName: "c"}}}
	if _, err := n.newRestorer().CreateTables(t.Context(), from, &o); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a repeated request changes nothing
		if err := n.newRestorer().Finish(t.Context(), from, &o); err != nil {
			t.Fatal(err)
		}
	}
	for name, token := range tokens {
		if status, body := a.ask(read("c", token)); status != http.StatusUnauthorized {
			t.Errorf("the earlier token %s: %d %s", name, status, body)
		}
	}
	a.create("dbs/d/colls/c/docs", `{"id":"1","k":"a"}`)
	a.want(200, demand{Method: "GET", Path: "dbs/d/clientencryptionkeys/k"})
	a.want(404, demand{Method: "GET", Path: permissionsPath + "/o"})
	call := demand{Method: "POST", Path: "dbs/d/colls/c/sprocs/p", Key: `["a"]`, Body: `[]`}
	for name, want := range map[string]demand{"c": read("c", ""), "item": read("c", ""), "script": call} {
		var p map[string]any
		found := a.want(200, demand{Method: "GET", Path: permissionsPath + "/" + name})
		if err := json.Unmarshal([]byte(found), &p); err != nil {
			t.Fatal(err)
		}
		want.Token = p["_token"].(string)
		a.want(200, want)
	}
	if r, _ := n.changer.Resources(); r.Len() != 5 {
		t.Errorf("%d users, permissions, and keys, want 5", r.Len())
	}
}
