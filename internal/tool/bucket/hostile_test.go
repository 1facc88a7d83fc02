// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/test/s3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a bucket whose pauses between attempts last milliseconds.
func open(t *testing.T, s *s3.Server) *Bucket {
	t.Helper()
	b, err := Open(s3.Bucket, Options{Endpoint: s.URL, Credentials: func() (Credentials, error) {
		return Credentials{ID: "id", Secret: "secret"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.retries.pause, b.retries.pauseMax = time.Millisecond, 2*time.Millisecond
	t.Cleanup(b.Close)
	return b
}

const errorText = "<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>We\u202e erred</Message></Error>"

// TestPasses checks that each request of a bucket succeeds although the server fails for a while.
func TestPasses(t *testing.T) {
	for name, c := range map[string]struct {
		times int
		do    func(w http.ResponseWriter)
	}{
		"a storm of SlowDown": {8, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3000")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "<Error><Code>SlowDown</Code></Error>")
		}},
		"200 with an error": {3, func(w http.ResponseWriter) { fmt.Fprint(w, errorText) }},
		"half of an answer": {3, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "half")
		}},
		"no answer": {3, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := s3.New(t, 1)
			b := open(t, s)
			asked := map[string]int{}
			s.Bad(func(w http.ResponseWriter, r *http.Request) bool {
				what := r.Method + r.URL.String()
				if asked[what]++; asked[what] > c.times || r.Method == http.MethodHead {
					return false
				}
				c.do(w)
				return true
			})
			for _, key := range []string{"a/1", "a/2", "a/3", "b"} {
				if err := b.Put(t.Context(), key, []byte("of "+key)); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := b.Get(t.Context(), "a/2", 2000); err != nil || string(got) != "of a/2" {
				t.Fatalf("got %q: %v", got, err)
			}
			keys, err := b.List(t.Context(), "a/", "")
			if err != nil || !slices.Equal(keys, []string{"a/1", "a/2", "a/3"}) {
				t.Fatalf("listed %q: %v", keys, err)
			}
			if err := b.Remove(t.Context(), "a/2"); err != nil {
				t.Fatal(err)
			}
			if has, err := b.Has(t.Context(), "a/2"); err != nil || has {
				t.Fatalf("the removed object exists: %v", err)
			}
			if _, err := b.Get(t.Context(), "a/4", 2000); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("what never was there: %v", err)
			}
		})
	}
}

// TestForgets checks that an object is put again if the server acknowledges it without storing it. Put must return an
// error if the server never stores the object or stores only part of it. The server returns an incorrect ETag, because
// some servers do not use the MD5 digest of an object.
func TestForgets(t *testing.T) {
	puts := 0
	s := s3.New(t, 1)
	b := open(t, s)
	s.Bad(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		w.Header().Set("ETag", `"00000000000000000000000000000000"`)
		puts++
		return puts < 3
	})
	if err := b.Put(t.Context(), "k", []byte("half")); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(t.Context(), "k", 100); string(got) != "half" || puts != 3 {
		t.Errorf("the server has %q after %d requests: %v", got, puts, err)
	}
	s.Bad(func(_ http.ResponseWriter, r *http.Request) bool { return r.Method == http.MethodPut })
	if err := b.Put(t.Context(), "other", []byte("half")); err == nil ||
		!strings.Contains(err.Error(), "did not store it") {
		t.Errorf("an object that the server never stored: %v", err)
	}
	if err := b.Put(t.Context(), "k", []byte("half of it")); err == nil || !strings.Contains(err.Error(), "4 bytes") {
		t.Errorf("an object that the server stored partially: %v", err)
	}
}

// TestEnds checks that each request ends with an error that states the cause, even if a response, a list, or the
// failures of the server never end.
func TestEnds(t *testing.T) {
	n := 0
	forever := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 100)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
	list := func(body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			n++
			fmt.Fprintf(w, "<ListBucketResult><IsTruncated>true</IsTruncated>"+body+"</ListBucketResult>", n)
		}
	}
	for _, c := range []struct {
		name, says string
		list       bool
		serve      func(w http.ResponseWriter, r *http.Request)
	}{
		{"an answer without end", "exceeds 1000 bytes", false, forever},
		{"a large answer", "exceeds 1000 bytes", false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999999999")
		}},
		{"a drip", "did not respond in time", false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "x")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
		{"silence", "did not respond in time", false, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		{"nothing but errors", "503", false, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}},
		{"200 with errors only", "InternalError: We  erred", false, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, errorText)
		}},
		{"a page of a web site", "Check the endpoint", true, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<!doctype html><p>Welcome")
		}},
		{"a web site that has all", "Check the endpoint", false, func(http.ResponseWriter, *http.Request) {}},
		{"a redirection", "another region", false, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusMovedPermanently)
		}},
		{"no bucket", "Create the bucket first", false, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<Error><Code>NoSuchBucket</Code></Error>")
		}},
		{"no permission", "The credentials must allow", false, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}},
		{"a list that goes round", "invalid list", true, list("<NextContinuationToken>%d</NextContinuationToken>" +
			"<Contents><Key>a</Key></Contents>")},
		{"a list of nothing", "repeated a page", true, list("<NextContinuationToken>%d</NextContinuationToken>")},
		{"a list that breaks off", "repeated a page", true, list("<Contents><Key>a%06d</Key></Contents>")},
		{"a list of something else", "invalid list", true, list("<Contents><Key>%d</Key></Contents>")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s3.New(t, 1)
			b := open(t, s)
			s.Bad(func(w http.ResponseWriter, r *http.Request) bool { c.serve(w, r); return true })
			b.retries.try, b.retries.rate, b.retries.tries = 200*time.Millisecond, 1<<20, 3
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var err error
			if c.list {
				_, err = b.List(ctx, "a", "")
			} else if c.name == "a web site that has all" {
				_, err = b.Has(ctx, "k")
			} else {
				_, err = b.Get(ctx, "k", 1000)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the error %q does not contain %q", err, c.says)
			}
		})
	}
}

// TestStops checks that a request ends during a pause if its context is canceled.
func TestStops(t *testing.T) {
	s := s3.New(t, 1)
	s.Bad(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	b := open(t, s)
	b.retries.pause, b.retries.pauseMax = time.Hour, time.Hour
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if err := b.Put(ctx, "k", nil); !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
}

// TestOpen checks that invalid buckets are rejected before a request is sent, and checks which address a bucket uses.
func TestOpen(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"shop", Options{}, "https://shop.s3.us-east-1.amazonaws.com"},
		{"shop", Options{Region: "cn-north-1"}, "https://shop.s3.cn-north-1.amazonaws.com.cn"},
		{"a.shop", Options{Region: "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com/a.shop"},
		{"shop", Options{Style: "path"}, "https://s3.us-east-1.amazonaws.com/shop"},
		{"shop", Options{Endpoint: "http://127.0.0.1:9000/"}, "http://127.0.0.1:9000/shop"},
		{"shop", Options{Endpoint: "https://x.example/s3", Style: "host"}, "https://shop.x.example/s3"},
		{"shop", Options{Endpoint: "127.0.0.1:9000"}, ""},
		{"shop", Options{Endpoint: "ftp://x"}, ""},
		{"shop", Options{Style: "odd"}, ""},
		{"Shop", Options{}, ""},
		{"a/b", Options{}, ""},
	} {
		b, err := Open(c.name, c.o)
		switch {
		case (err == nil) != (c.want != ""):
			t.Errorf("%s %+v: %v", c.name, c.o, err)
		case err == nil && b.base.String() != c.want:
			t.Errorf("%s %+v is at %s, want %s", c.name, c.o, b.base.String(), c.want)
		}
	}
}
