// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/eventually"
)

// visitor sends requests to a server over one persistent connection.
type visitor struct {
	t      *testing.T
	client *http.Client
	url    string
	reused bool
}

func newVisitor(t *testing.T, addr string) *visitor {
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t: t, client: &http.Client{Transport: transport}, url: "http://" + addr + "/"}
}

// ask sends a request for the account with a valid signature.
func (v *visitor) ask() (status int, body string) {
	v.t.Helper()
	r, err := http.NewRequest(get, v.url, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	r = r.WithContext(httptrace.WithClientTrace(v.t.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { v.reused = i.Reused }}))
	sign(r, keyOf(0), time.Now())
	answer, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// startServer starts a server on a free port.
func startServer(t *testing.T, o Options) (s *Server, addr string) {
	t.Helper()
	keys := &Keys{Primary: keyOf(0)}
	o.Account = &surface{keys: keys}
	s = New(newFake(), noScripts{}, o)
	return s, listen(t, s)
}

// listen serves on a free port until the test ends.
func listen(t testing.TB, s *Server) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // do not wait for idle connections to end
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestStrangersMakeRoom checks that idle or slow connections stay within the limit, regardless of their number.
// Clients with a key must be able to connect and stay connected.
func TestStrangersMakeRoom(t *testing.T) {
	const places, crowd = 20, 300
	s, addr := startServer(t, Options{ConnectionsMax: places})
	unauthenticated := 0
	flood := func() {
		for i := range crowd {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if unauthenticated++; i%2 == 0 {
				// The server may already have closed the connection.
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: "+strings.Repeat("x", i))
			}
		}
		eventually.True(t, "all strangers have come", func() bool {
			st := s.Stats()
			if n := st.Connections.Load(); n > places {
				t.Fatalf("%d connections are open", n)
			}
			return st.Crowded.Load() >= int64(unauthenticated-places)
		})
	}
	flood()
	v := newVisitor(t, addr)
	if status, body := v.ask(); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	flood()
	if status, body := v.ask(); status != 200 || !v.reused {
		t.Errorf("after more of them: %d %s, on the connection of before: %v", status, body, v.reused)
	}
}

// TestConnectionLimits checks that an additional connection receives an error if authenticated clients or clients from
// one address use all slots. The connection must succeed when a slot is free.
func TestConnectionLimits(t *testing.T) {
	for text, o := range map[string]Options{
		"HTTP connection limit of this node is reached": {ConnectionsMax: 3},
		"Too many connections from this address":        {ConnectionsMax: 9, AddressConnectionsMax: 3},
	} {
		s, addr := startServer(t, o)
		var in []*visitor
		for range 3 {
			v := newVisitor(t, addr)
			if status, body := v.ask(); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			in = append(in, v)
		}
		further := newVisitor(t, addr)
		if status, body := further.ask(); status != 503 || !strings.Contains(body, text) {
			t.Errorf("%d %s, want %s", status, body, text)
		}
		in[0].client.CloseIdleConnections()
		eventually.True(t, "a place is free", func() bool { return s.Stats().Connections.Load() < 3 })
		if status, body := further.ask(); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	}
}

// auditRecords holds the audited requests.
type auditRecords []Audited

// WriteREST implements Auditor.
func (r *auditRecords) WriteREST(a *Audited) { *r = append(*r, *a) }

// TestAudit checks that every completed request is audited. The record must contain the client, the operation, the
// target, the text of a query, and the status.
func TestAudit(t *testing.T) {
	var got auditRecords
	s := newSurface(t, Options{Auditor: &got})
	s.want("POST "+docs, `{"id":"1","pk":"a"}`, pk, 201)
	s.want("GET "+docs+"/1", "", pk, 200)
	s.want("GET "+docs+"/2", "", pk, 404)
	query := m{"content-type": "application/query+json", "x-ms-documentdb-isquery": "true",
		"x-ms-documentdb-partitionkey": `["a"]`}
	s.want("POST "+docs, `{"query":"SELECT * FROM c","parameters":[]}`, query, 200)
	answer, err := http.Get(s.url + docs)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	want := auditRecords{
		{Key: primaryKey, Operation: "create database", Text: "POST /dbs", Status: 201},
		{Key: primaryKey, Operation: "create container", Database: "d", Text: "POST /dbs/d/colls", Status: 201},
		{Key: primaryKey, Operation: "create item", Items: true, Text: "POST " + docs, Status: 201},
		{Key: primaryKey, Operation: "read item", Reads: true, Items: true, Text: "GET " + docs + "/1", Status: 200},
		{Key: primaryKey, Operation: "read item", Reads: true, Items: true, Text: "GET " + docs + "/2", Status: 404},
		{Key: primaryKey, Operation: "query items", Reads: true, Items: true, Text: "POST " + docs + " SELECT * FROM c",
			Status: 200},
		{Text: "GET " + docs, Status: 401},
	}
	for i := range want {
		if i > 1 {
			want[i].Database, want[i].Container = "d", "c"
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d requests were reported: %+v", len(got), got)
	}
	for i, a := range got {
		if !a.Local.IsValid() || !a.Remote.IsValid() {
			t.Errorf("%s came from %v to %v", a.Text, a.Remote, a.Local)
		}
		if a.Local, a.Remote = want[i].Local, want[i].Remote; a != want[i] {
			t.Errorf("got %+v, want %+v", a, want[i])
		}
	}
}
