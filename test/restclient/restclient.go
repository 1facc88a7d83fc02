// SPDX-License-Identifier: Apache-2.0

// Package restclient sends signed HTTP requests for containers and items to nodes, as the SDKs of Azure Cosmos DB do.
// The package is for tests that must receive every status without the retries of an SDK. Start reading at Client.Ask.
package restclient

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Key is a 64-byte key for the nodes of tests.
var Key = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("not a secret key", 4)))

// ReadOnlyKey is a 64-byte key for tests whose clients may only read.
var ReadOnlyKey = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("reads and no more", 4)[:64]))

// Client has persistent connections to one node. It is safe for concurrent use.
type Client struct {
	address, key string
	http         http.Client
}

// New returns a client of the node at an address of the form HOST:PORT. The client signs with Key. A request that
// takes longer than most fails.
func New(address string, most time.Duration) *Client { return NewWithKey(address, Key, most) }

// NewWithKey returns a client that signs with the given key.
func NewWithKey(address, key string, most time.Duration) *Client {
	return &Client{address, key, http.Client{Timeout: most, Transport: &http.Transport{}}}
}

// Close closes the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is a request for the resource at a path such as dbs/ID/colls/ID/docs/ID, without leading and trailing
// slashes.
type Request struct {
	Method, Path string
	// Key, if not empty, is the partition key. It is a text.
	Key string
	// Headers holds headers in addition to the signature and the partition key.
	Headers map[string]string
	// Body is sent as JSON.
	Body any
}

// Ask sends a request and decodes the response into out if out is not nil and the status is below 300. Ask returns the
// status, or an error if it receives no response. If out is a *[]byte, it receives the raw response for any status.
func (c *Client) Ask(ctx context.Context, r *Request, out any) (status int, h http.Header, err error) {
	var sent []byte
	if r.Body != nil {
		if sent, err = json.Marshal(r.Body); err != nil {
			return 0, nil, err
		}
	}
	q, err := http.NewRequestWithContext(ctx, r.Method, "http://"+c.address+"/"+r.Path, bytes.NewReader(sent))
	if err != nil {
		return 0, nil, err
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	q.Header.Set("x-ms-date", date)
	q.Header.Set("Authorization", SignatureOf(c.key, r.Method, r.Path, date))
	if r.Key != "" {
		q.Header.Set("x-ms-documentdb-partitionkey", fmt.Sprintf("[%q]", r.Key))
	}
	for name, value := range r.Headers {
		q.Header.Set(name, value)
	}
	resp, err := c.http.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = text
	} else if out != nil && resp.StatusCode < 300 {
		err = json.Unmarshal(text, out)
	}
	return resp.StatusCode, resp.Header, err
}

// Signature returns the Authorization header of a request that is signed with Key.
func Signature(method, path, date string) string { return SignatureOf(Key, method, path, date) }

// SignatureOf returns the Authorization header of a request that is signed with a key. The signed text contains the
// path of a resource, or the path of the parent of a list.
func SignatureOf(encoded, method, path, date string) string {
	parts := strings.Split(path, "/")
	kind, link := parts[len(parts)-1], strings.Join(parts[:len(parts)-1], "/")
	if len(parts)%2 == 0 {
		kind, link = parts[len(parts)-2], path
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		panic(err) // cannot fail, because the keys are constants
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(method), kind, link, strings.ToLower(date))
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
