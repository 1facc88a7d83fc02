// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inflate is how many times a statement has an expression, with -long how many times that.
func inflate() int { return rounds(600) }

// TestInflatedRows proves that whatever a SELECT makes of one row of 1 MB, by every constructor of CQL, is refused or
// answered within the budget and the timeouts.
func TestInflatedRows(t *testing.T) {
	v := startVictim(t, "user_defined_functions_enabled: true")
	text := strings.Repeat("x", 1_000_000)
	quotes := strings.Repeat(`\"`, 400_000)
	v.do(
		"CREATE TYPE ks.u (a text, b text)",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v text, q text, b blob, l list<text>, m map<int, text>, s set<int>, "+
			"n list<int>, f frozen<list<frozen<u>>>, d varint, h text MASKED WITH mask_inner(1, 1, '*'))",
		"INSERT INTO ks.t (k, v, b, l, m, d, h) VALUES (1, '"+text+"', 0x"+strings.Repeat("ab", 500_000)+", ['"+text+
			"'], {1: '"+text+"'}, "+strings.Repeat("9", 30_000)+", '"+text+"')",
		"UPDATE ks.t SET q = '"+quotes+"', f = ["+many(20_000, ",", "{}")+"], s = {"+many(20_000, ",", "%d")+
			"}, n = ["+many(20_000, ",", "%d")+"] WHERE k = 1",
		"CREATE FUNCTION ks.large (x text) CALLED ON NULL INPUT RETURNS text LANGUAGE java AS 'return x + x;'",
		"CREATE FUNCTION ks.blank (x text) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS "+
			"'String s = \" \".repeat(2000000); int n = 0; for (int i = 0; i < 10000; i++) { if (s.isBlank()) n++; } return n;'",
		"CREATE FUNCTION ks.joined (s text, x text) CALLED ON NULL INPUT RETURNS text LANGUAGE java AS "+
			"'return s == null ? x : s;'",
		"CREATE AGGREGATE ks.first (text) SFUNC joined STYPE text",
	)
	n := inflate()
	nested := func(f string, depth int, arg string) string {
		return strings.Repeat(f+"(", depth) + arg + strings.Repeat(")", depth)
	}
	v.observe()
	for name, selected := range map[string]string{
		"columns":              many(n, ",", "v AS a%d"),
		"more columns":         many(4*n, ",", "v AS a%d"),
		"columns in JSON":      "JSON " + many(n, ",", "v AS a%d"),
		"quotes in JSON":       "JSON " + many(n, ",", "q AS a%d"),
		"to_json":              many(n, ",", "to_json(q) AS a%d"),
		"nested to_json":       nested("to_json", 14, "q"),
		"nested to_json twice": many(20, ",", nested("to_json", 10, "q")+" AS a%d"),
		"lists":                "(list<text>) [" + many(n, ",", "v") + "]",
		"lists of lists":       "(list<list<text>>) [" + many(n/10, ",", "["+many(20, ",", "v")+"]") + "]",
		"maps":                 "(map<int, text>) {" + many(n, ",", "%d: v") + "}",
		"tuples":               "(tuple<" + many(100, ",", "text") + ">) (" + many(100, ",", "v") + ")",
		"JSON of empty fields": "JSON " + many(n, ",", "f AS a%d"),
		"mask_inner":           many(n, ",", "mask_inner(v, 1, 1, '€') AS a%d"),
		"mask_default":         many(n, ",", "mask_default((vector<text, 100000>) null) AS a%d"),
		"a masked column":      many(n, ",", "h AS a%d"),
		"mask_replace":         many(n, ",", "mask_replace(k, 1) AS b%d") + "," + many(n, ",", "mask_replace(v, v) AS a%d"),
		"blobs":                many(n, ",", "text_as_blob(v) AS a%d"),
		"maximums":             many(n, ",", "max(v) AS a%d"),
		"both extremes":        many(n, ",", "min(v) AS a%d") + "," + many(n, ",", "max(v) AS b%d"),
		"map_values":           many(n, ",", "map_values(m) AS a%d"),
		"slices":               many(n, ",", "m[0..5] AS a%d"),
		"sums of elements":     many(n, ",", "collection_sum(n) AS a%d"),
		"powers":               "d" + strings.Repeat(" * d", n),
		"casts":                many(n, ",", "cast(d AS text) AS a%d"),
		"Java":                 many(n, ",", "ks.large(v) AS a%d"),
		"nested Java":          "(list<text>) [" + many(n, ",", "ks.large(v)") + "]",
		"slow Java":            many(20, ",", "ks.blank(v) AS a%d"),
		"aggregates in Java":   many(n, ",", "ks.first(v) AS a%d"),
	} {
		v.answers(name, "SELECT "+selected+" FROM ks.t WHERE k = 1")
	}
	v.answers("slow values", "INSERT INTO ks.t (k, n) VALUES (2, ["+many(200, ",", "ks.blank('x')")+"])")
	v.endure()
}

// restAttacker asks for queries over REST with the read-only key.
type restAttacker struct {
	v   *victim
	key []byte
	at  string
}

// send makes a signed request.
func (a *restAttacker) send(method, path, kind, link string, body []byte, timeout time.Duration,
	header ...string) (int, http.Header, []byte, error) {
	r, err := http.NewRequest(method, a.at+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	mac := hmac.New(sha256.New, a.key)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(method), kind, link, strings.ToLower(date))
	r.Header.Set("x-ms-date", date)
	r.Header.Set("x-ms-version", "2018-12-31")
	r.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+
		base64.StdEncoding.EncodeToString(mac.Sum(nil))))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: timeout}
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, text, err
}

// query runs one page of a query, which has to be answered in time, whatever the answer is.
func (a *restAttacker) query(name, text string) {
	a.v.t.Helper()
	body, _ := json.Marshal(map[string]any{"query": text})
	began := time.Now()
	status, header, answer, err := a.send(http.MethodPost, "/dbs/d/colls/c/docs", "docs", "dbs/d/colls/c", body,
		time.Minute, "Content-Type", "application/query+json", "x-ms-documentdb-isquery", "True",
		"x-ms-documentdb-query-enablecrosspartition", "True")
	took := time.Since(began)
	if err != nil {
		a.v.t.Errorf("%s: no answer: %v", name, err)
		return
	}
	if took > time.Second {
		a.v.t.Logf("%s: %d after %s, %s RU: %.100s", name, status, took.Round(time.Millisecond),
			header.Get("x-ms-request-charge"), answer)
	}
	if took > answerMax || status >= 500 && status != http.StatusServiceUnavailable {
		a.v.t.Errorf("%s: %d after %s: %.200s", name, status, took, answer)
	}
	if len(answer) > 5<<20 {
		a.v.t.Errorf("%s: a page of %d bytes", name, len(answer))
	}
}

// TestInflatedItems is TestInflatedRows for queries of containers, signed with a key over REST, over an item of 100 KB.
func TestInflatedItems(t *testing.T) {
	v, a := startContainers(t)
	n := 20 * inflate()
	selected := func(f string) string { return "SELECT " + many(n, ",", f+" AS a%d") + " FROM c" }
	v.observe()
	for name, text := range map[string]string{
		"arrays":       "SELECT VALUE [" + many(n, ",", "c") + "] FROM c WHERE c.id = 'one'",
		"objects":      "SELECT VALUE {" + many(n, ",", "a%d:c") + "} FROM c",
		"columns":      selected("c"),
		"concat":       "SELECT VALUE c.t" + strings.Repeat(" || c.t", n) + " FROM c",
		"REPLICATE":    "SELECT VALUE [" + many(n/4, ",", "REPLICATE(c.t, 20)") + "] FROM c",
		"constants":    "SELECT VALUE [" + many(n/4, ",", "REPLICATE('0123456789012345678901234567890123456789', 10000)") + "] FROM c",
		"ToString":     "SELECT VALUE [" + many(n, ",", "ToString(c)") + "] FROM c",
		"sub-queries":  "SELECT VALUE 1 FROM c" + many(500, "", " JOIN (SELECT VALUE ARRAY(SELECT TOP 90000 VALUE x FROM x IN c.a JOIN y IN c.a)) AS v%d"),
		"pages":        "SELECT VALUE [c, c, c, c] FROM c JOIN x IN c.a",
		"MAKELISTs":    "SELECT " + many(n/4, ",", "MAKELIST(c) AS a%d") + " FROM c JOIN x IN c.a",
		"ORDER BY":     "SELECT VALUE [c, c] FROM c JOIN x IN c.a ORDER BY c.t",
		"DISTINCT":     "SELECT DISTINCT VALUE CONCAT(c.t, ToString(RAND())) FROM c JOIN x IN c.a",
		"expressions":  "SELECT VALUE RegexMatch(c.t, '(((a?b?c?d?){10}){10}){10}x{1000}') FROM c",
		"splits":       "SELECT VALUE [" + many(n/40, ",", "StringSplit(REPLICATE(c.t, 20), '')") + "] FROM c",
		"three joins":  "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a",
		"rows of them": "SELECT VALUE z FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a WHERE x + y + z = -1",
		"EXISTS":       "SELECT VALUE EXISTS(SELECT VALUE 1 FROM x IN c.a JOIN y IN c.a JOIN z IN c.a WHERE z = -1) FROM c",
		"contains":     "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a WHERE ARRAY_CONTAINS(c.a, x + y)",
		"matches":      "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a WHERE RegexMatch(REPLICATE('a', 5000), '(a?){1000}b')",
		"conditions":   "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE c.z = 1" + strings.Repeat(" OR c.y = 3", 20_000),
	} {
		a.query(name, text)
	}
	v.endure()
}

// startContainers starts a process with a container that has an item of 100 KB.
func startContainers(t *testing.T) (*victim, *restAttacker) {
	t.Helper()
	key := bytes.Repeat([]byte{7}, 64)
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := setup{}.start(t)
	a := &restAttacker{v: v, key: key}
	return v, a
}
