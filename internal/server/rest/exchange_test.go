// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/query/container"
)

// surface is a test server on a fake engine with helpers for requests.
type surface struct {
	t      *testing.T
	fake   *fake
	server *Server
	url    string
	keys   *Keys
	// admits is the admission control. If it is nil, all requests are admitted.
	admits func() (done func(), ok bool)
}

// Keys implements Account.
func (s *surface) Keys() *Keys { return s.keys }

// Admit implements Account.
func (s *surface) Admit(fairshare.Principal) (done func(), ok bool) {
	if s.admits == nil {
		return func() {}, true
	}
	return s.admits()
}

// newSurface starts a server with the database d and its container c, whose partition key path is /pk.
func newSurface(t *testing.T, o Options) *surface {
	s := &surface{t: t, fake: newFake(), keys: &Keys{Primary: keyOf(0), Secondary: keyOf(1), ReadOnly: keyOf(2)}}
	o.Account = s
	s.server = New(s.fake, noScripts{}, o)
	s.url = "http://" + listen(t, s.server)
	s.want("POST /dbs", `{"id":"d"}`, nil, 201)
	s.want("POST /dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`, nil, 201)
	return s
}

// sign signs a request in the same way as clients. For requests that create, list, or query resources, it signs the
// link of the parent.
func sign(r *http.Request, key []byte, now time.Time) {
	t := parseTarget(r.URL.EscapedPath())
	signed := []byte("\n")
	if t != nil {
		if signed = t.appendSigned(nil, 0); signed == nil {
			signed = t.appendSigned(nil, 1)
		}
	}
	date := now.UTC().Format(http.TimeFormat)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.ToLower(r.Method) + "\n" + string(signed) + "\n" + strings.ToLower(date) + "\n\n"))
	sig := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	r.Header.Set("x-ms-date", date)
	r.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+sig))
}

// reply is a response.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends a request of the form "METHOD PATH" with a body and headers. The request is signed with a key.
func (s *surface) ask(what, body string, header map[string]string, key []byte) reply {
	s.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	sign(r, key, time.Now())
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// want sends a request with the primary key and checks the status.
func (s *surface) want(what, body string, header map[string]string, status int) reply {
	s.t.Helper()
	r := s.ask(what, body, header, s.keys.Primary)
	if r.status != status {
		s.t.Fatalf("%s %s: %d %s, want %d", what, body, r.status, r.body, status)
	}
	return r
}

// m holds headers.
type m = map[string]string

var pk = m{"x-ms-documentdb-partitionkey": `["a"]`}

// with returns pk with additional headers.
func with(pairs ...string) map[string]string {
	h := m{"x-ms-documentdb-partitionkey": `["a"]`}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
	}
	return h
}

const docs = "/dbs/d/colls/c/docs"

// TestExchanges checks the status, the body, and the headers of the responses to a sequence of requests. The expected
// bodies and headers are patterns.
func TestExchanges(t *testing.T) {
	s := newSurface(t, Options{})
	query := with("Content-Type", "application/query+json", "x-ms-documentdb-isquery", "true")
	batch := with("x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True")
	bulk := m{"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "false"}
	silent := func(h map[string]string) map[string]string {
		out := m{"Prefer": "return=minimal"}
		for name, value := range h {
			out[name] = value
		}
		return out
	}
	const session = `^0:-1#\d+$`
	for _, c := range []struct {
		what, body string
		header     map[string]string
		status     int
		want       string
		headers    map[string]string
	}{
		{"GET /", "", nil, 200, `"databaseAccountEndpoint":"http://127.0.0.1:\d+/".*"defaultConsistencyLevel":"Session"`,
			m{"x-ms-request-charge": `^1$`, "x-ms-activity-id": `^[0-9a-f-]{36}$`,
				"Content-Type": "^application/json$"}},
		{"GET /dbs", "", nil, 200, `^{"_rid":"","Databases":\[{"id":"d",.*}\],"_count":1}$`,
			m{"x-ms-item-count": "^1$"}},
		{"GET /dbs/d/", "", nil, 200, `"id":"d","_rid":"AAAAAQ=="`, m{"etag": `^".+"$`}},
		{"GET /dbs/AAAAAQ==/", "", nil, 200, `"id":"d"`, nil},
		{"GET /dbs/nosuch", "", nil, 404, `^{"code":"NotFound","message":".*nosuch.*"}$`,
			m{"x-ms-substatus": `^$`, "x-ms-request-charge": `^1$`}},
		{"POST /dbs", `{"id":"d"}`, nil, 409, `"code":"Conflict"`, nil},
		{"POST /dbs", `{}`, nil, 400, `"code":"BadRequest".*required property`, nil},
		{"POST /dbs", `{`, nil, 400, `must be a JSON object`, nil},
		{"POST /dbs", `{"id":"e"}`, m{"x-ms-offer-throughput": "many"}, 400, "x-ms-offer-throughput", nil},
		{"POST /dbs", `{"id":"e"}`, m{"x-ms-cosmos-offer-autopilot-settings": "{}"}, 400, "maxThroughput", nil},
		{"POST /dbs", `{"id":"e"}`, m{"x-ms-cosmos-offer-autopilot-settings": `{"maxThroughput":4000}`}, 201,
			`"id":"e"`, nil},
		{"DELETE /dbs/e", "", m{"If-Match": `"old"`}, 412, `"code":"PreconditionFailed"`, nil},
		{"DELETE /dbs/e", "", nil, 204, "^$", nil},

		{"GET /dbs/d/colls/c", "", m{"x-ms-documentdb-populatepartitionstatistics": "True"}, 200,
			`"partitionKey":{"paths":\["/pk"\].*"_docs":"docs/".*"statistics":\[{"id":"0","sizeInKB":5120,` +
				`"sampledDistinctPartitionKeyCount":3,`,
			m{"x-ms-documentdb-collection-index-transformation-progress": "^100$",
				"x-ms-alt-content-path": "^dbs/d$", "x-ms-content-path": "^AAAAAQ==$",
				"x-ms-session-token":  session,
				"x-ms-resource-quota": "collectionSize=10485760;",
				"x-ms-resource-usage": "documentsSize=5120;.*collectionSize=5120;"}},
		{"GET /dbs/nosuch/colls/c", "", nil, 404, "nosuch", m{"x-ms-substatus": "^1003$"}},
		{"GET /dbs/d/colls/nosuch", "", nil, 404, "nosuch", m{"x-ms-substatus": "^$"}},
		{"GET /dbs/d/colls", "", nil, 200, `"DocumentCollections":\[{"id":"c"`, m{"x-ms-alt-content-path": "^dbs/d$"}},

		{"POST " + docs, `{"id":"1","pk":"a","n":1.50}`, pk, 201, `^{"id":"1","pk":"a","n":1.50,"_rid":".*","_ts":1700000000}$`,
			m{"etag": `^".+"$`, "lsn": "^2$", "x-ms-session-token": "^0:-1#2$", "x-ms-request-charge": "^5.5$",
				"x-ms-documentdb-partitionkeyrangeid": "^0$", "x-ms-cosmos-physical-partition-id": "^0$",
				"x-ms-resource-quota": "documentSize", "x-ms-alt-content-path": "^dbs/d/colls/c$",
				"x-ms-content-path": "^AAAAAQAAAAM=$"}},
		{"POST " + docs, `{"id":"1","pk":"a"}`, pk, 409, `"code":"Conflict"`,
			m{"x-ms-request-charge": "^5.5$"}},
		{"POST " + docs, `{"id":"2","pk":"a"}`, nil, 201, `"id":"2"`, nil},
		{"POST " + docs, `{"id":"3","pk":"b"}`, pk, 400, "partition key", m{"x-ms-substatus": "^1001$"}},
		{"POST " + docs, `{"id":"3","pk":"a"}`, silent(pk), 201, "^$", m{"etag": `^".+"$`}},
		{"POST " + docs, `{"id":"3","pk":"a"}`, with("x-ms-documentdb-is-upsert", "true"), 200, `"id":"3"`, nil},
		{"POST " + docs, `{"id":"4","pk":"a"}`, with("x-ms-cosmos-intended-collection-rid", "AAAAAQAAAAM="), 201,
			"", nil},
		{"POST " + docs, `{"id":"5","pk":"a"}`, with("x-ms-cosmos-intended-collection-rid", "AAAAAQAAAAk="), 400,
			"re-created", m{"x-ms-substatus": "^1024$"}},
		{"POST /dbs/d/colls/nosuch/docs", `{"id":"5","pk":"a"}`, pk, 404, "", m{"x-ms-substatus": "^1003$"}},
		{"GET " + docs + "/1", "", pk, 200, `"n":1.50`, m{"x-ms-request-charge": "^1$"}},
		{"GET " + docs + "/1", "", nil, 400, "PartitionKey value must be supplied", nil},
		{"GET " + docs + "/1", "", m{"x-ms-documentdb-partitionkey": `["a","b"]`}, 400, "", nil},
		{"GET " + docs + "/nosuch", "", pk, 404, `"code":"NotFound"`, nil},
		{"PUT " + docs + "/1", `{"id":"1","pk":"a"}`, with("If-Match", `"old"`), 412, `"code":"PreconditionFailed"`,
			nil},
		{"PUT " + docs + "/nosuch", `{"id":"nosuch","pk":"a"}`, pk, 404, "", nil},
		{"PATCH " + docs + "/1", `[{"op":"set","path":"/x","value":2}]`, pk, 200, `"x":2`, nil},
		{"PATCH " + docs + "/1", `{"operations":[{"op":"incr","path":"/x","value":2}]}`,
			with("Content-Type", "application/json-patch+json"), 200, `"x":4`, nil},
		{"DELETE " + docs + "/4", "", pk, 204, "^$", m{"lsn": `^\d+$`}},
		{"DELETE " + docs + "/4", "", pk, 404, "", nil},
		{"POST " + docs, `{"id":"5","pk":"a"}`, with("x-ms-documentdb-pre-trigger-include", "t, u"), 201,
			`"before":"t u","after":"","values":1`, m{"etag": `^"e"$`}},
		{"POST " + docs, `{"id":"5","pk":"a"}`, m{"x-ms-documentdb-post-trigger-include": "t"}, 201,
			`"before":"","after":"t"`, nil},

		{"POST " + docs, `[{"operationType":"Create","resourceBody":{"id":"b1","pk":"a"}},{"operationType":"Read","id":"b1"}]`,
			silent(batch), 200, `^\[{"statusCode":201,"requestCharge":5.5,"eTag":"\\".*\\"","resourceBody":{"id":"b1",.*}},` +
				`{"statusCode":200,.*"resourceBody":{"id":"b1".*}}\]$`,
			m{"x-ms-request-charge": "^11$"}},
		{"POST " + docs, `[{"operationType":"Upsert","resourceBody":{"id":"b1","pk":"a"}}]`, silent(batch), 200,
			`^\[{"statusCode":200,"requestCharge":5.5,"eTag":"\\".*\\""}\]$`, nil},
		{"POST " + docs, `[{"operationType":"Delete","id":"b1"},{"operationType":"Delete","id":"nosuch"}]`, batch, 207,
			`^\[{"statusCode":424,"requestCharge":1},{"statusCode":404,"requestCharge":1,"message":".*"}\]$`, nil},
		{"POST " + docs, `[]`, batch, 400, "Batch request has no operations.", nil},
		{"POST " + docs, "[" + strings.Repeat(`{"operationType":"Read","id":"1"},`, 100) + `{"operationType":"Read"}]`,
			batch,
			400, "Batch request has more operations than what is supported.", nil},
		{"POST " + docs, `[{"operationType":"Read","id":"1"}]`, with("x-ms-cosmos-is-batch-request", "True",
			"x-ms-cosmos-batch-atomic", "True", "x-ms-documentdb-pre-trigger-include", "t"), 400,
			"not for batches", nil},
		{"POST " + docs, `[{"operationType":"Dance"}]`, batch, 400, `unknown type \\"Dance\\"`, nil},
		{"POST " + docs, `[{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"1","pk":"p"}},` +
			`{"operationType":"Read","partitionKey":"[\"q\"]","id":"1"},{"operationType":"Read","partitionKey":"x","id":"1"}]`,
			bulk, 207, `^\[{"statusCode":201,.*},{"statusCode":404,.*},{"statusCode":400,.*}\]$`, nil},
		{"POST " + docs, "[" + strings.Repeat(`{"operationType":"Create","partitionKey":"[\"o\"]","resourceBody":`+
			`{"id":"o","pk":"o"}},{"operationType":"Read","partitionKey":"[ \"o\" ]","id":"o"},`+
			`{"operationType":"Delete","partitionKey":"[\"o\"]","id":"o"},`, 20) +
			`{"operationType":"Read","partitionKey":"[\"o\"]","id":"o"}]`, bulk, 207,
			`^\[({"statusCode":201,[^}]*}},{"statusCode":200,[^}]*}},{"statusCode":204,[^}]*},){20}{"statusCode":404,.*}\]$`, nil},
		{"POST " + docs, `[{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"1","pk":"p"}},` +
			`{"operationType":"Create","partitionKey":"[\"r\"]","resourceBody":{"id":"1","pk":"r"}}]`,
			m{"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "false",
				"x-ms-cosmos-batch-continue-on-error": "False"}, 207,
			`^\[{"statusCode":409,.*},{"statusCode":424,"requestCharge":1}\]$`, nil},

		{"POST " + docs, `{"query":"SELECT * FROM c","parameters":[{"name":"@p","value":1}]}`, query, 200,
			`^{"_rid":"AAAAAQAAAAM=","Documents":\[.*\],"_count":4}$`,
			m{"x-ms-item-count": "^4$", "x-ms-continuation": "^$", "x-ms-request-charge": "^3$"}},
		{"POST " + docs, `{"query":""}`, query, 400, "The query is empty", nil},
		{"POST " + docs, `SELECT`, query, 400, "The body of a query", nil},
		{"POST " + docs, `{"query":"SELECT VALUE COUNT(1) FROM c"}`,
			m{"x-ms-documentdb-isquery": "true",
				"x-ms-cosmos-is-query-plan-request": "True"}, 200, `"partitionedQueryExecutionInfoVersion":2.*"min":"","max":"FF"`, nil},
		{"POST " + docs, `{"query":"SELECT * FROM c"}`, with("x-ms-documentdb-isquery", "true",
			"x-ms-cosmos-is-query-plan-request", "True"), 200, `"min":"([0-9A-F]{32})","max":"[0-9A-F]{32}"`, nil},
		{"POST " + docs, `{"query":"SELECT FROM"}`, query, 400, `\\"errors\\":\[{\\"severity\\"`, nil},
		{"POST /dbs", `{"query":"SELECT VALUE d.id FROM d WHERE d.id = @d","parameters":[{"name":"@d","value":"d"}]}`,
			m{"x-ms-documentdb-query": "True"}, 200, `"Databases":\["d"\]`, nil},
		{"GET " + docs, "", with("x-ms-max-item-count", "2"), 200, `"_count":2`,
			m{"x-ms-continuation": "."}},
		{"GET " + docs, "", with("x-ms-max-item-count", "0"), 400, "x-ms-max-item-count", nil},
		{"GET " + docs, "", with("A-IM", "Other Feed"), 400, "A-IM must be Incremental Feed", nil},
		{"GET " + docs, "", with("A-IM", "Incremental Feed"), 200, `"Documents":\[`, m{"etag": `^"end"$`}},
		{"GET " + docs, "", with("A-IM", "Incremental feed", "If-None-Match", `"end"`), 304, "^$",
			m{"etag": `^"end"$`}},
		{"GET " + docs, "", with("A-IM", "Incremental Feed", "If-None-Match", "*"), 304, "^$", m{"etag": `^"end"$`}},
		{"GET " + docs, "", with("A-IM", "Incremental Feed", "If-Modified-Since", "soon"), 400, "a valid time", nil},
		{"POST /dbs/d/colls/c/operations/partitionkeydelete", "", pk, 200, "", nil},
		{"GET " + docs, "", pk, 200, `"_count":0`, nil},

		{"GET /dbs/d/colls/c/pkranges", "", nil, 200, `"PartitionKeyRanges":\[{.*"id":"0",.*"minInclusive":"",` +
			`"maxExclusive":"FF",.*"parents":\[\]`, m{"etag": `^"r1"$`}},
		{"GET /dbs/d/colls/c/pkranges", "", m{"If-None-Match": `"r1"`}, 304, "^$",
			m{"etag": `^"r1"$`}},
		{"GET /dbs/d/colls/c/pkranges", "", m{"If-None-Match": `"r0"`}, 200, "PartitionKeyRanges", nil},

		{"GET /offers", "", nil, 200, `"Offers":\[{"id":"O0",.*"offerAutopilotSettings":{"maxThroughput":4000}.*"id":"O1"|"O1"`,
			nil},
		{"GET /offers/O0/", "", nil, 200, `"_self":"offers/O0/",.*"offerVersion":"V2".*"offerThroughput":400`,
			m{"x-ms-cosmos-min-throughput": "^400$", "x-ms-offer-replace-pending": "^false$"}},
		{"PUT /offers/O0", `{"content":{"offerAutopilotSettings":{"maxThroughput":5000,"autoUpgradePolicy":` +
			`{"throughputPolicy":{"incrementPercent":3}}}}}`, nil, 200,
			`"offerAutopilotSettings":{"maxThroughput":5000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":3}}}`,
			nil},
		{"PUT /offers/O0", `{"content":{"offerThroughput":500}}`, nil, 200, `"offerThroughput":500`, nil},
		{"PUT /offers/O0", `{"content":{}}`, nil, 400, "offerThroughput", nil},
		{"GET /offers/nosuch", "", nil, 404, "", nil},

		{"GET /dbs/d/colls/c/conflicts", "", nil, 200, `"Conflicts":\[\],"_count":0`, nil},
		{"GET /dbs/d/colls/c/conflicts/1", "", nil, 404, "Conflicts do not exist", nil},
		{"GET /dbs/d/colls/c/nosuch", "", nil, 401, "", nil},
		{"PUT /dbs", "", nil, 405, `"code":"MethodNotAllowed"`, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			got := s.ask(c.what, c.body, c.header, s.keys.Primary)
			if got.status != c.status || !regexp.MustCompile(`(?s)`+c.want).MatchString(got.body) {
				t.Errorf("%s %s: %d %s, want %d %s", c.what, c.body, got.status, got.body, c.status, c.want)
			}
			for name, want := range c.headers {
				if value := got.header.Get(name); !regexp.MustCompile(want).MatchString(value) {
					t.Errorf("%s: %s is %q, want %s", c.what, name, value, want)
				}
			}
		})
	}
}

// TestReadOnlyKey checks that the read-only key allows reads and queries, but no changes.
func TestReadOnlyKey(t *testing.T) {
	s := newSurface(t, Options{})
	s.want("POST "+docs, `{"id":"1","pk":"a"}`, pk, 201)
	for _, c := range []struct {
		what, body string
		header     map[string]string
		status     int
	}{
		{"GET /", "", nil, 200},
		{"GET " + docs + "/1", "", pk, 200},
		{"POST " + docs, `{"query":"SELECT * FROM c"}`, with("x-ms-documentdb-isquery", "true"), 200},
		{"POST " + docs, `{"id":"2","pk":"a"}`, pk, 403},
		{"DELETE " + docs + "/1", "", pk, 403},
		{"POST /dbs", `{"id":"e"}`, nil, 403},
	} {
		if got := s.ask(c.what, c.body, c.header, s.keys.ReadOnly); got.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.what, got.status, got.body, c.status)
		}
	}
}

// TestETags checks that a resource is not sent if the client has its current version.
func TestETags(t *testing.T) {
	s := newSurface(t, Options{})
	s.want("POST "+docs, `{"id":"1","pk":"a"}`, pk, 201)
	for _, path := range []string{"/dbs/d", "/dbs/d/colls/c", docs + "/1"} {
		etag := s.want("GET "+path, "", pk, 200).header.Get("etag")
		if got := s.want("GET "+path, "", with("If-None-Match", etag), 304); got.body != "" ||
			got.header.Get("etag") != etag {
			t.Errorf("%s: %q, etag %s", path, got.body, got.header.Get("etag"))
		}
	}
}

// TestSessions checks that the engine receives the session tokens of a request in all formats.
func TestSessions(t *testing.T) {
	s := newSurface(t, Options{})
	for _, c := range []struct {
		token, want string
	}{
		{"0:-1#40", "0:-1#41"}, {"0:-1#50#3=4", "0:-1#51"}, {"7:1,0:60", "0:-1#61"}, {"nonsense,:,0:x", "0:-1#62"},
	} {
		got := s.want("POST "+docs, `{"id":"1","pk":"a"}`, with("x-ms-documentdb-is-upsert", "true",
			"x-ms-session-token", c.token), map[bool]int{true: 201, false: 200}[c.want == "0:-1#41"])
		if token := got.header.Get("x-ms-session-token"); token != c.want {
			t.Errorf("after %s: %s, want %s", c.token, token, c.want)
		}
	}
}

// TestRangesAfterSplits checks a physical partition that still exists with some of its keys. It must not be reported
// as a parent. Otherwise, clients would remove the partition.
func TestRangesAfterSplits(t *testing.T) {
	s := newSurface(t, Options{})
	s.fake.ranges = []container.Range{{ID: "0", Max: "1F", Parents: []string{"9"}}, {ID: "1", Min: "1F", Max: "FF",
		Parents: []string{"0"}}}
	body := s.want("GET /dbs/d/colls/c/pkranges", "", nil, 200).body
	if !strings.Contains(body, `"parents":["9"]`) || strings.Contains(body, `"parents":["0"]`) {
		t.Error(body)
	}
}

// TestErrorsOfTheDatabase checks the status and the retry delay of errors from lower layers.
func TestErrorsOfTheDatabase(t *testing.T) {
	s := newSurface(t, Options{})
	for _, c := range []struct {
		err         error
		status      int
		sub, wait   string
		code, chars string
	}{
		{&dberr.Overloaded{Message: "m", RetryAfter: 1500 * time.Millisecond}, 429, "3200", "1500", "TooManyRequests",
			"m"},
		{&dberr.Overloaded{Message: "m"}, 429, "3200", "100", "TooManyRequests", "m"},
		{&container.Error{Status: 403, SubStatus: 1014, Message: "full", Charge: 3 * chargeMin}, 403, "1014", "",
			"Forbidden",
			"full"},
		{&container.Error{Status: 410, SubStatus: 1002, Message: "gone"}, 410, "1002", "", "Gone", "gone"},
		{&container.Error{Status: 449, Message: "again"}, 449, "", "", "RetryWith", "again"},
		{&dberr.Unavailable{Level: dberr.Quorum, Required: 3, Alive: 2}, 503, "", "", "ServiceUnavailable", "QUORUM"},
		{&dberr.WriteTimeout{}, 408, "", "", "RequestTimeout", ""},
		{context.DeadlineExceeded, 408, "", "", "RequestTimeout", ""},
		{&dberr.Invalid{Message: "bad"}, 400, "", "", "BadRequest", "bad"},
		{&dberr.Server{Message: "broken"}, 500, "", "", "InternalServerError", "broken"},
	} {
		s.fake.refusal = c.err
		got := s.ask("GET "+docs+"/1", "", pk, s.keys.Primary)
		if got.status != c.status || got.header.Get("x-ms-substatus") != c.sub ||
			got.header.Get("x-ms-retry-after-ms") != c.wait || !strings.Contains(got.body, c.chars) ||
			!strings.HasPrefix(got.body, `{"code":"`+c.code+`"`) {
			t.Errorf("%v: %d %v %s", c.err, got.status, got.header, got.body)
		}
	}
}

// TestBounds checks that the limits on bodies, on concurrent requests, and on their bytes are enforced. It also checks
// that admission control is used. After a rejection, the request must not be counted.
func TestBounds(t *testing.T) {
	s := newSurface(t, Options{})
	big := `{"id":"1","pk":"a","x":"` + strings.Repeat("x", BodyBytesMax) + `"}`
	if got := s.want("POST "+docs, big, pk, 413); !strings.Contains(got.body, "RequestEntityTooLarge") {
		t.Error(got.body)
	}
	s.server.opts.RequestBytesMax = 10
	s.want("POST "+docs, `{"id":"1","pk":"a"}`, pk, 429)
	s.server.opts.RequestBytesMax, s.server.opts.RequestsMax = 1<<20, -1
	s.want("GET "+docs+"/1", "", pk, 429)
	s.server.opts.RequestsMax = 100
	done := 0
	s.admits = func() (func(), bool) { return func() { done++ }, done == 0 }
	s.want("GET /", "", nil, 200)
	if got := s.want("GET /", "", nil, 429); got.header.Get("x-ms-retry-after-ms") == "" {
		t.Error("no time to wait")
	}
	st := s.server.Stats()
	if done != 1 || st.InFlight.Load() != 0 || st.InFlightBytes.Load() != 0 || st.Refused.Load() != 3 {
		t.Errorf("done %d, in flight %d, %d bytes, rejected %d", done, st.InFlight.Load(), st.InFlightBytes.Load(),
			st.Refused.Load())
	}
}

// TestHTTPS checks that the account's endpoint uses HTTPS and the host name of the request. The connection of a client
// without a key must be closed.
func TestHTTPS(t *testing.T) {
	keys := &Keys{Primary: keyOf(0)}
	// This server exists only for its certificate, which its client trusts.
	h := httptest.NewTLSServer(http.NotFoundHandler())
	defer h.Close()
	addr := listen(t, New(newFake(), noScripts{}, Options{Account: &surface{keys: keys}, TLS: h.TLS}))
	ask := func(key []byte) (*http.Response, string) {
		r, _ := http.NewRequest(get, "https://"+addr+"/", nil)
		r.Host = "db.example.org:8443"
		sign(r, key, time.Now())
		resp, err := h.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp, string(b)
	}
	if resp, body := ask(keyOf(0)); !strings.Contains(body, `"https://db.example.org:8443/"`) || resp.Close {
		t.Errorf("%v %s", resp.Close, body)
	}
	if resp, body := ask(keyOf(1)); resp.StatusCode != http.StatusUnauthorized || !resp.Close {
		t.Errorf("%s %v %s", resp.Status, resp.Close, body)
	}
}

// TestServe checks that a server serves a listener and that Shutdown ends the server.
func TestServe(t *testing.T) {
	keys := &Keys{Primary: keyOf(0)}
	s := New(newFake(), noScripts{}, Options{Account: &surface{keys: keys}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	r, _ := http.NewRequest(get, "http://"+l.Addr().String()+"/", nil)
	sign(r, keys.Primary, time.Now())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 {
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
