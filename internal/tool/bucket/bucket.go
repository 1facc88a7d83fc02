// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Options configures access to a bucket.
type Options struct {
	// Endpoint is the URL of the server without the bucket. If Endpoint is empty, the server is AWS in the region.
	Endpoint string
	// Region is the region for request signatures. The default is us-east-1.
	Region string
	// Style is the position of the bucket name. It is "path" for the path of the URL, or "host" for the host name. If
	// Style is "", it is path if an endpoint is configured, and host otherwise.
	Style string
	// Roots are the certificate authorities of the server. If Roots is nil, the authorities of the operating system
	// apply.
	Roots *x509.CertPool
	// Credentials is called for each request.
	Credentials func() (Credentials, error)
}

const (
	defaultRegion = "us-east-1"
	// idleConns is the number of connections that are kept between requests.
	idleConns = 64
	// keyMax is the maximum length of a key in S3, in bytes.
	keyMax = 1024
	// listMax is the maximum number of keys in a listing. emptyMax is the maximum number of pages without keys.
	listMax  = 1 << 20
	emptyMax = 100
	// listBytes is the maximum size of a page of a list.
	listBytes = 16 << 20
	// confirmTries is the number of times that an object is stored again if it does not exist after Put.
	confirmTries = 3
)

// Bucket is a bucket of a server. Bucket is safe for concurrent use.
type Bucket struct {
	name string
	base url.URL
	opts Options
	http *http.Client
	// retries holds the time limits for requests. Tests shorten them.
	retries retryPolicy
}

// Open returns a bucket. It does not send a request.
func Open(name string, o Options) (*Bucket, error) {
	if !isName(name) {
		return nil, fmt.Errorf("invalid bucket name %q: expected 3 to 63 characters from a-z, 0-9, dots, and dashes", name)
	}
	o.Region = cmp.Or(o.Region, defaultRegion)
	b := &Bucket{name: name, opts: o, retries: defaultRetryPolicy}
	style := o.Style
	if o.Endpoint == "" {
		b.base = url.URL{Scheme: "https", Host: "s3." + o.Region + ".amazonaws.com"}
		if strings.HasPrefix(o.Region, "cn-") {
			b.base.Host += ".cn"
		}
		if style == "" && !strings.Contains(name, ".") { // a wildcard certificate covers only a single label
			style = "host"
		}
	} else {
		u, err := url.Parse(o.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" ||
			u.User != nil {
			return nil, fmt.Errorf("invalid S3 endpoint %q: expected https://HOST[:PORT]", o.Endpoint)
		}
		b.base = url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
	}
	switch style {
	case "host":
		b.base.Host = name + "." + b.base.Host
	case "", "path":
		b.base.Path += "/" + name
	default:
		return nil, fmt.Errorf("unknown URL style %q: use path or host", style)
	}
	b.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: b.retries.dial, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
			TLSHandshakeTimeout:    b.retries.dial,
			MaxIdleConnsPerHost:    idleConns,
			IdleConnTimeout:        time.Minute,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return b, nil
}

func isName(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	return len(s) >= 3 && len(s) <= 63
}

// Close closes idle connections.
func (b *Bucket) Close() { b.http.CloseIdleConnections() }

// Put creates or replaces an object.
func (b *Bucket) Put(ctx context.Context, key string, data []byte) error {
	err := error(nil)
	for range confirmTries {
		if _, err = b.ask(ctx, &request{method: http.MethodPut, key: key, body: data}); err != nil {
			return err
		}
		// Some servers acknowledge objects that they do not store, or that they store incompletely (OB1).
		var size int64
		size, err = b.size(ctx, key)
		switch {
		case err == nil && (size == int64(len(data)) || size < 0):
			return nil
		case err == nil:
			err = fmt.Errorf("the server stored %d bytes of object %s instead of %d", size, key, len(data))
		case !errors.Is(err, fs.ErrNotExist):
			return err
		default:
			err = fmt.Errorf("the server acknowledged object %s but did not store it", key)
		}
		if err := b.pause(ctx, b.retries.pauseMax); err != nil {
			return err
		}
	}
	return err
}

// size returns the size of an object. It returns -1 if the server does not report the size.
func (b *Bucket) size(ctx context.Context, key string) (int64, error) {
	a, err := b.ask(ctx, &request{method: http.MethodHead, key: key})
	if err != nil {
		return 0, err
	}
	return a.size, nil
}

// Get returns an object of up to limit bytes. If the object does not exist, the error matches fs.ErrNotExist.
func (b *Bucket) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	a, err := b.ask(ctx, &request{method: http.MethodGet, key: key, limit: limit})
	if err != nil {
		return nil, err
	}
	return a.body, nil
}

// Has reports whether an object exists.
func (b *Bucket) Has(ctx context.Context, key string) (bool, error) {
	_, err := b.size(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Remove deletes an object. If the object does not exist, Remove also succeeds.
func (b *Bucket) Remove(ctx context.Context, key string) error {
	_, err := b.ask(ctx, &request{method: http.MethodDelete, key: key})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// page is a page of a list in the format of S3.
type page struct {
	XMLName   xml.Name `xml:"ListBucketResult"`
	Truncated bool     `xml:"IsTruncated"`
	Next      string   `xml:"NextContinuationToken"`
	Contents  []struct {
		Key string `xml:"Key"`
	} `xml:"Contents"`
	Prefixes []struct {
		Prefix string `xml:"Prefix"`
	} `xml:"CommonPrefixes"`
}

// List returns the keys with a prefix in ascending order. If delimiter is set, keys that contain it after the prefix
// are replaced by their common prefix, which ends with the delimiter.
func (b *Bucket) List(ctx context.Context, prefix, delimiter string) ([]string, error) {
	var keys []string
	last, empty := "", 0
	for token := ""; ; {
		q := url.Values{"list-type": {"2"}, "prefix": {prefix}}
		if delimiter != "" {
			q.Set("delimiter", delimiter)
		}
		if token != "" {
			q.Set("continuation-token", token)
		}
		a, err := b.ask(ctx, &request{method: http.MethodGet, query: q, limit: listBytes, list: true})
		if err != nil {
			return nil, err
		}
		these := a.page.keys()
		slices.Sort(these)
		for _, key := range these {
			// A server that repeats pages would cause an endless loop (OB3).
			if !strings.HasPrefix(key, prefix) || key <= last {
				return nil, fmt.Errorf("invalid listing of bucket %s: the server returned %q after %q", b.name, key, last)
			}
			last = key
			keys = append(keys, key)
		}
		if empty++; len(these) > 0 {
			empty = 0
		}
		switch token = a.page.Next; {
		case !a.page.Truncated:
			return keys, nil
		case token == "" || empty > emptyMax:
			return nil, fmt.Errorf("invalid listing of bucket %s: the server repeated a page", b.name)
		case len(keys) > listMax:
			return nil, fmt.Errorf("bucket %s contains more than %d objects with the prefix %s", b.name, listMax, prefix)
		}
	}
}

func (p *page) keys() []string {
	out := make([]string, 0, len(p.Contents)+len(p.Prefixes))
	for _, c := range p.Contents {
		out = append(out, c.Key)
	}
	for _, c := range p.Prefixes {
		out = append(out, c.Prefix)
	}
	return out
}
