// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// discard is a response writer that keeps nothing.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkReadItem is what the surface adds to a point read, but for package http: the path, the signature, headers
// and
// the item. It stresses the processor.
func BenchmarkReadItem(b *testing.B) {
	f := newFake()
	keys := &Keys{Primary: keyOf(0), Secondary: keyOf(1), ReadOnly: keyOf(2)}
	s := New(f, noScripts{}, Options{Keys: func() *Keys { return keys }})
	ask := func(method, path, body string) *http.Request {
		r, err := http.NewRequest(method, "http://h"+path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.RequestURI = path
		sign(r, keys.Primary, time.Now())
		r.Header.Set("x-ms-documentdb-partitionkey", `["a"]`)
		return r
	}
	for _, r := range []*http.Request{ask(post, "/dbs", `{"id":"d"}`),
		ask(post, "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`),
		ask(post, docs, `{"id":"1","pk":"a","x":"`+strings.Repeat("x", 1000)+`"}`)} {
		s.ServeHTTP(&discard{http.Header{}}, r)
	}
	r := ask(get, docs+"/1", "")
	b.ReportAllocs()
	for b.Loop() {
		s.ServeHTTP(&discard{http.Header{}}, r)
	}
}
