// SPDX-License-Identifier: Apache-2.0

// Package s3 is an in-memory bucket that serves the S3 protocol. Tests can inject faults. It does not check
// signatures. The tests with real servers (make s3) check signatures.
package s3

import (
	"crypto/md5"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Bucket is the name of the bucket.
const Bucket = "shop"

// Server is the server, with a single bucket.
type Server struct {
	// URL is the URL of the server.
	URL string
	mu  sync.Mutex
	// objects maps keys to the content of the bucket.
	objects map[string][]byte
	// pageOf is the maximum number of keys per page of a list.
	pageOf int
	bad    func(w http.ResponseWriter, r *http.Request) bool
}

// New starts a server with the given page size. The server stops at the end of the test.
func New(t testing.TB, pageOf int) *Server {
	t.Helper()
	s := &Server{objects: map[string][]byte{}, pageOf: pageOf}
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return s
}

// Bad sets a function that can handle requests instead of the server. The server handles a request if the function
// returns false. A nil function removes the previous function. Requests are handled one at a time.
func (s *Server) Bad(bad func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = bad
}

// Change calls fn with all objects to read or change them. Do not call it from a function passed to Bad.
func (s *Server) Change(fn func(objects map[string][]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s.objects)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client was killed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bad != nil && s.bad(w, r) {
		return
	}
	key := strings.TrimPrefix(r.URL.Path, "/"+Bucket+"/")
	data, ok := s.objects[key]
	switch {
	case r.URL.Query().Get("list-type") == "2":
		s.list(w, r)
	case r.Method == http.MethodPut:
		s.objects[key] = body
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(data))))
		_, _ = w.Write(data)
	}
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	prefix, after := q.Get("prefix"), q.Get("continuation-token")
	var lines []string
	for key := range s.objects {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		if name, _, ok := strings.Cut(rest, "/"); ok && q.Get("delimiter") == "/" {
			lines = append(lines, prefix+name+"/")
			continue
		}
		lines = append(lines, key)
	}
	slices.Sort(lines)
	lines = slices.DeleteFunc(slices.Compact(lines), func(line string) bool { return line <= after })
	truncated := len(lines) > s.pageOf
	lines = lines[:min(len(lines), s.pageOf)]
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>%v</IsTruncated>", truncated)
	for _, line := range lines {
		if text := html.EscapeString(line); strings.HasSuffix(line, "/") {
			fmt.Fprintf(w, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", text)
		} else {
			fmt.Fprintf(w, "<Contents><Key>%s</Key></Contents>", text)
		}
	}
	if truncated {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", lines[len(lines)-1])
	}
	_, _ = io.WriteString(w, "</ListBucketResult>")
}
