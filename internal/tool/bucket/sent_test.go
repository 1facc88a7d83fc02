// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/s3"
)

// TestSent checks that a request has the path and the query that are signed, and that the signature covers the body
// and the session.
func TestSent(t *testing.T) {
	s := s3.New(t, 1)
	b := open(t, s)
	b.opts.Credentials = func() (Credentials, error) {
		return Credentials{ID: "id", Secret: "secret", Session: "token"}, nil
	}
	var sent []string
	s.Bad(func(_ http.ResponseWriter, r *http.Request) bool {
		sent = append(sent, r.Method+" "+r.RequestURI)
		for _, want := range []string{"Credential=id/", "/us-east-1/s3/aws4_request", "x-amz-content-sha256", "host",
			"x-amz-security-token"} {
			if got := r.Header.Get("Authorization"); !strings.Contains(got, want) {
				t.Errorf("the signature %s does not contain %s", got, want)
			}
		}
		if r.Method == http.MethodPut && r.Header.Get("X-Amz-Content-Sha256") !=
			"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
			t.Errorf("the digest of the body is %s", r.Header.Get("X-Amz-Content-Sha256"))
		}
		return false
	})
	const key = "a b/ü+&=%/~_.-/c'(d)"
	if err := b.Put(t.Context(), key, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if keys, err := b.List(t.Context(), "a b/ü+&", "/"); err != nil || len(keys) != 1 {
		t.Errorf("listed %q: %v", keys, err)
	}
	const path = "/shop/a%20b/%C3%BC%2B%26%3D%25/~_.-/c%27%28d%29"
	if got, want := strings.Join(sent, "\n"), "PUT "+path+"\nHEAD "+path+
		"\nGET /shop/?delimiter=%2F&list-type=2&prefix=a%20b%2F%C3%BC%2B%26"; got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
}
