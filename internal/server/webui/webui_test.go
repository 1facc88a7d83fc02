// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// nasty is a malicious name that a user may choose.
const nasty = `<script>alert("x")</script>`

func testOptions(partitions int) Options {
	now := time.Date(2026, 11, 1, 12, 30, 0, 0, time.UTC)
	table := admin.TableUsage{Name: "s.foods", PerSecond: 1000}
	status := admin.TableStatus{Name: "s.foods"}
	for i := range partitions {
		table.Partitions = append(table.Partitions, admin.PartitionUsage{
			ID: uint64(i + 1), DiskBytes: uint64(i+1) << 20, Share: 0.25, PerSecond: 250,
			LargeKeys: []usage.LargePartition{{Name: "group = 'Beef Products'", Bytes: 3 << 20},
				{Name: nasty, Bytes: 2 << 20},
				{Name: "group = 'Soups, Sauces, and Gravies'", Bytes: 1 << 20}, {Name: "group = 'Fourth'", Bytes: 1}},
			Minutes: []admin.MinuteUsage{{At: now.Add(-time.Minute).Format(time.RFC3339), Units: 600, Throttled: 1,
				TopKey: nasty}},
		})
		status.Partitions = append(status.Partitions, admin.PartitionStatus{ID: uint64(i + 1), CapBytes: 4 << 20})
	}
	return Options{
		Reports: &fakeReports{
			status: admin.Status{Cluster: nasty, Tables: []admin.TableStatus{status, {Name: "system.local"}},
				Problems: []string{nasty}},
			usage:   table,
			history: []admin.ChangeStatus{{Kind: "split", Table: nasty, Partition: 1}, {Kind: "merge", Partition: 2}},
		},
		Slow: fakeSlow{ThresholdMillis: 500, Slow: 1234, Omitted: 7, Unreachable: []string{nasty},
			Statements: []slowlog.Statement{{Statement: "SELECT " + nasty, Keyspace: nasty, Table: "t", Count: 3,
				MinMillis: 501, MeanMillis: 1000, MaxMillis: 1500, Last: now}},
			Requests: []slowlog.Request{{At: now, Node: "0123456789", Statement: nasty, User: nasty, Client: nasty,
				Millis: 1500, Consistency: "QUORUM", Rows: 9, MorePages: true, Units: 2.5, Outcome: "timeout"}}},
		Explorer: echo{},
		Clock:    fakeclock.Func(func() time.Time { return now }),
	}
}

// fakeReports returns a fixed status, one table, and a fixed history.
type fakeReports struct {
	status  admin.Status
	usage   admin.TableUsage
	history []admin.ChangeStatus
}

func (f *fakeReports) Status() admin.Status          { return f.status }
func (f *fakeReports) History() []admin.ChangeStatus { return f.history }

func (f *fakeReports) ShowUsage(_ context.Context, of string, _ bool) []admin.TableUsage {
	if of != "" && of != f.usage.Name {
		return nil
	}
	return []admin.TableUsage{f.usage}
}

func (f *fakeReports) Latency(string, bool) (median, p99 float64, ok bool) { return 0, 0, false }

// fakeSlow is a fixed report.
type fakeSlow slowlog.Report

func (f fakeSlow) SlowQueries(context.Context) slowlog.Report { return slowlog.Report(f) }

// echo is an Explorer that returns a row with the statement and its parameters.
type echo struct{}

func (echo) Explore(_ context.Context, role string, q Query) (*Answer, error) {
	if q.Text == "BAD" {
		return nil, errors.New(nasty)
	}
	text := q.Text + " in " + q.Keyspace + " by " + role + " after " + string(q.State)
	return &Answer{Columns: []string{nasty, "b"}, Rows: [][]*string{{&text, nil}}, State: []byte("more"),
		Units: 2.5}, nil
}

// ask returns a handler's response to a request.
func ask(h http.Handler, method, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestViews checks that every view shows its data and escapes all names. The content security policy must permit only
// scripts from this server.
func TestViews(t *testing.T) {
	h := Handler(testOptions(3))
	for path, wants := range map[string][]string{
		"/ui/": {"s.foods", "1 problem", "physical partitions", "6.0 MiB"},
		"/ui/storage": {"Physical partition 3", "Beef Products", "Soups, Sauces, and Gravies", "75",
			"limit of 4.0 MiB"},
		"/ui/storage?table=s.foods&partition=1": {"Physical partition 1", `aria-current="true"`, "25"},
		"/ui/storage?table=s.none":              {"Table s.none does not exist."},
		"/ui/heat":                              {"partition 1", `class="h9 refused"`, "12:30"},
		"/ui/changes":                           {"split", "merge", "in progress"},
		"/ui/explore?statement=SELECT+1":        {"SELECT 1", "Explain"},
		"/ui/slow": {"1.5 s", "timeout", "QUORUM", "9, more", "did not respond", "01234567<",
			"500 ms or more"},
	} {
		w := ask(h, "GET", path, nil)
		body := w.Body.String()
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%s", path, want, body)
			}
		}
		if strings.Contains(body, nasty) || strings.Contains(body, "Fourth") ||
			strings.Contains(body, "system.local") {
			t.Errorf("%s: a name is not escaped, or hidden data is shown:\n%s", path, body)
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if strings.Contains(body, "://") || strings.Contains(body, " style=") {
			t.Errorf("%s: something is fetched from elsewhere, or styled against the policy", path)
		}
	}
}

// TestChangesOnce checks a change that ended after the status was taken. The change must not also be shown as in
// progress.
func TestChangesOnce(t *testing.T) {
	for began, want := range map[string]bool{"2026-11-01T12:00:00Z": false, "2026-11-01T12:10:00Z": true} {
		o := testOptions(1)
		ended := admin.ChangeStatus{Kind: "split", Partition: 1, Other: 2, Began: "2026-11-01T12:00:00Z"}
		reports := o.Reports.(*fakeReports)
		reports.history = []admin.ChangeStatus{ended}
		reports.status.Changes = []admin.ChangeStatus{{Kind: "split", Partition: 1, Other: 2, Began: began}}
		body := ask(Handler(o), "GET", "/ui/changes", nil).Body.String()
		if got := !strings.Contains(body, "No partition is being split"); got != want {
			t.Errorf("began at %s: a change is shown as in progress: %v, want %v", began, got, want)
		}
	}
}

// TestFragment checks that a fragment is part of the complete page.
func TestFragment(t *testing.T) {
	h := Handler(testOptions(3))
	r := httptest.NewRequest("GET", "/ui/storage", nil)
	r.Header.Set(fragmentHeader, "main")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	whole := ask(h, "GET", "/ui/storage", nil).Body.String()
	if part := w.Body.String(); strings.Contains(part, "<html") || !strings.Contains(whole, part) {
		t.Errorf("%s\nis not a part of\n%s", part, whole)
	}
}

// TestBounds checks that a view of many partitions has only two marks per partition. The heat map must show only the
// busiest partitions.
func TestBounds(t *testing.T) {
	h := Handler(testOptions(1000))
	if n := strings.Count(ask(h, "GET", "/ui/storage", nil).Body.String(), "<rect"); n != 2000 {
		t.Errorf("%d marks for 1,000 partitions", n)
	}
	body := ask(h, "GET", "/ui/heat", nil).Body.String()
	if n := strings.Count(body, "<g "); n != heatRowsMost || !strings.Contains(body, "880 are omitted") {
		t.Errorf("%d rows", n)
	}
}

// TestExplore checks that a statement can be executed unchanged, explained, and resumed at the next page. Errors must
// be shown as escaped text.
func TestExplore(t *testing.T) {
	h := Handler(testOptions(1))
	for _, tc := range []struct {
		form url.Values
		code int
		want string
	}{
		{url.Values{"statement": {"SELECT x; "}, "keyspace": {" ks "}, "do": {"run"}}, 200,
			"SELECT x in ks by  after <"},
		{url.Values{"statement": {"SELECT x"}, "do": {"explain"}, "state": {"bW9yZQ=="}}, 200,
			"EXPLAIN SELECT x in  by  after <"},
		{url.Values{"statement": {"SELECT x"}, "do": {"run"}, "state": {"bW9yZQ=="}}, 200, "after more"},
		{url.Values{"statement": {"SELECT x"}, "do": {"run"}}, 200, `name="state" value="bW9yZQ=="`},
		{url.Values{"statement": {"BAD"}, "do": {"run"}}, 200, "&lt;script&gt;"},
		{url.Values{"statement": {strings.Repeat("x", cellMost+10)}}, 200, strings.Repeat("x", cellMost) + " …"},
		{url.Values{"statement": {"SELECT x"}, "state": {"%"}}, 400, "invalid paging state"},
		{url.Values{"statement": {strings.Repeat("x", formMost)}}, 400, "256 KiB"},
	} {
		w := ask(h, "POST", "/ui/explore", tc.form)
		body := w.Body.String()
		if w.Code != tc.code || !strings.Contains(body, tc.want) || strings.Contains(body, nasty) {
			t.Errorf("%.40s: %d, no %q in\n%.4000s", tc.form.Get("statement"), w.Code, tc.want, body)
		}
	}
}

// blocked is an Explorer that reports the start of each statement to begun. It completes the statement when end
// permits it.
type blocked struct{ begun, end chan struct{} }

func (b blocked) Explore(context.Context, string, Query) (*Answer, error) {
	b.begun <- struct{}{}
	<-b.end
	return &Answer{}, nil
}

// TestExploreIsBounded checks that no more than exploreMost statements run concurrently (PG3).
func TestExploreIsBounded(t *testing.T) {
	o := testOptions(1)
	under, over := make(chan struct{}), make(chan struct{})
	o.Explorer = blocked{under, over}
	h := Handler(o)
	form := url.Values{"statement": {"SELECT x"}}
	ended := make(chan struct{})
	for range exploreMost {
		go func() {
			ask(h, "POST", "/ui/explore", form)
			ended <- struct{}{}
		}()
		<-under
	}
	if w := ask(h, "POST", "/ui/explore", form); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", w.Code)
	}
	close(over)
	for range exploreMost {
		<-ended
	}
}

// BenchmarkStorage measures the Storage view with 1,000 partitions.
func BenchmarkStorage(b *testing.B) {
	h := Handler(testOptions(1000))
	for b.Loop() {
		w := ask(h, "GET", "/ui/storage", nil)
		b.ReportMetric(float64(w.Body.Len()), "bytes")
	}
}
