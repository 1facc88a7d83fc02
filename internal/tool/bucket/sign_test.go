// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSignature checks the signatures of the examples in AWS's documentation of Signature Version 4 for S3
// ("Authenticating Requests: Using the Authorization Header").
func TestSignature(t *testing.T) {
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	who := Credentials{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	for _, c := range []struct {
		name, method, path string
		query              url.Values
		headers            map[string]string
		body, signature    string
	}{
		{"get object", "GET", "/test.txt", nil, map[string]string{"Range": "bytes=0-9"}, "",
			"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"put object", "PUT", "/test$file.text", nil, map[string]string{"Date": "Fri, 24 May 2013 00:00:00 GMT",
			"X-Amz-Storage-Class": "REDUCED_REDUNDANCY"}, "Welcome to Amazon S3.",
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		{"get bucket lifecycle", "GET", "/", url.Values{"lifecycle": {""}}, nil, "",
			"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"list objects", "GET", "/", url.Values{"max-keys": {"2"}, "prefix": {"J"}}, nil, "",
			"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		u := url.URL{Scheme: "https", Host: "examplebucket.s3.amazonaws.com", Path: c.path, RawPath: escape(c.path),
			RawQuery: encodeQuery(c.query)}
		r, err := http.NewRequest(c.method, u.String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		sign(r, who, "us-east-1", digestOf([]byte(c.body)), at)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+c.signature) {
			t.Errorf("%s is signed as %s, want %s", c.name, got, c.signature)
		}
	}
}

// TestEscape checks that a path is sent with the encoding that is signed.
func TestEscape(t *testing.T) {
	const path = "/a b/ü+&=%/~_.-/c'(d)"
	got := escape(path)
	if got != "/a%20b/%C3%BC%2B%26%3D%25/~_.-/c%27%28d%29" {
		t.Errorf("%s is encoded as %s", path, got)
	}
	u := url.URL{Path: path, RawPath: got}
	if u.EscapedPath() != got {
		t.Errorf("%s is sent as %s, and signed as %s", path, u.EscapedPath(), got)
	}
}

// TestCredentials checks that credentials are read from the environment and from the profiles of a file, and that
// incomplete credentials are rejected.
func TestCredentials(t *testing.T) {
	env := map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "s"}
	get := func(name string) string { return env[name] }
	if c, ok, err := FromEnvironment(get); err != nil || !ok || c != (Credentials{"id", "secret", "s"}) {
		t.Errorf("the environment has %v %v: %v", c, ok, err)
	}
	delete(env, "AWS_SECRET_ACCESS_KEY")
	if _, _, err := FromEnvironment(get); err == nil {
		t.Error("a key without its secret was accepted")
	}
	clear(env)
	if _, ok, err := FromEnvironment(get); ok || err != nil {
		t.Errorf("an empty environment has credentials: %v", err)
	}
	path := filepath.Join(t.TempDir(), "credentials")
	text := "# mine\n[default]\naws_access_key_id = a\naws_secret_access_key=b=\n\n[other]\nAWS_ACCESS_KEY_ID=c\n" +
		"aws_secret_access_key = d\naws_session_token = e\n[half]\naws_access_key_id = f\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for profile, want := range map[string]Credentials{"default": {"a", "b=", ""}, "other": {"c", "d", "e"}} {
		if c, err := FromFile(path, profile); err != nil || c != want {
			t.Errorf("profile %s is %v, want %v: %v", profile, c, want, err)
		}
	}
	for _, profile := range []string{"half", "none"} {
		if _, err := FromFile(path, profile); err == nil {
			t.Errorf("profile %s was accepted", profile)
		}
	}
	if _, err := FromFile(path+"x", "default"); err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("a missing file: %v", err)
	}
}
