// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// adminClient sends requests to the HTTP interface of a running node.
type adminClient struct {
	HTTP string `name:"http" env:"ILION_HTTP" placeholder:"HOST:PORT" help:"HTTP address or URL of a node (default 127.0.0.1:8080)"`
	Data string `env:"ILION_DATA" placeholder:"DIR" help:"Data directory of a node on this machine, for access without a password"`
	credentials
	clientTLS
	// socket is the path of the node's admin socket. It is empty until the node has rejected a request and returned the
	// path.
	socket string
	// content is the body of the current request. ctx is the context of the current request. Both fields may be nil.
	content []byte
	ctx     context.Context
}

const (
	// responseMax is the maximum size of a response, in bytes.
	responseMax = 256 << 20
	// responseTimeout is the time limit for a request.
	responseTimeout = time.Minute
)

// defaultHTTP is the default HTTP address of a node.
const defaultHTTP = "127.0.0.1:8080"

// address returns the URL of the node without a path.
func (d adminClient) address(encrypted bool) (string, error) {
	if !strings.Contains(d.HTTP, "://") {
		scheme := "http"
		if encrypted {
			scheme = "https"
		}
		return scheme + "://" + d.HTTP, nil
	}
	u, err := url.Parse(d.HTTP)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "":
		return "", &usageError{fmt.Sprintf("invalid --http %s: expected HOST:PORT, http://HOST:PORT, or "+
			"https://HOST:PORT",
			d.HTTP)}
	case u.Scheme == "http" && encrypted:
		return "", &usageError{fmt.Sprintf("invalid --http %s: TLS options require an https URL", d.HTTP)}
	}
	return u.Scheme + "://" + u.Host, nil
}

// preferFlags resolves a conflict between --http and --data. If one option is set by a flag and the other option is set
// by an environment variable, preferFlags ignores the environment variable.
func (d *adminClient) preferFlags() {
	byEnv := func(value, name string) bool { return value != "" && value == os.Getenv(name) }
	switch http, data := byEnv(d.HTTP, "ILION_HTTP"), byEnv(d.Data, "ILION_DATA"); {
	case http && !data && d.Data != "":
		d.HTTP = ""
	case data && !http && d.HTTP != "":
		d.Data = ""
	}
}

// request sends a request to the node and returns the response. If the node accepts the request only from the owner of
// the data directory, request sends the request again to the admin socket.
func (d *adminClient) request(method, path string) ([]byte, error) {
	return d.requestWith(context.Background(), method, path, nil)
}

// requestWith works like request but also takes a context and a body.
func (d *adminClient) requestWith(ctx context.Context, method, path string, content []byte) ([]byte, error) {
	d.content, d.ctx = content, ctx
	if d.socket == "" {
		var body []byte
		var err error
		if body, d.socket, err = d.requestAddress(method, path); d.socket == "" {
			return body, err
		}
	}
	return d.requestSocket(d.socket, method, path)
}

// fetch requests a JSON document from the node and decodes it.
func (d *adminClient) fetch(ctx context.Context, path string, to any) error {
	body, err := d.requestWith(ctx, http.MethodGet, path, nil)
	if err == nil && json.Unmarshal(body, to) != nil {
		err = d.notANode()
	}
	return err
}

func (d *adminClient) notANode() error {
	return fmt.Errorf("cannot read response from %s: not an Ilion node. Check --http", d.HTTP)
}

// requestAddress sends a request to the address that the options specify. If the node requires the admin socket for the
// request, requestAddress returns the path of the socket.
func (d adminClient) requestAddress(method, path string) (body []byte, socket string, err error) {
	d.preferFlags()
	if d.HTTP != "" && d.Data != "" {
		return nil, "", &usageError{"--http and --data cannot be combined: specify one of them"}
	}
	if d.HTTP == "" {
		d.HTTP = defaultHTTP
	}
	if err := d.check(); err != nil {
		return nil, "", err
	}
	if d.Data != "" {
		return nil, filepath.Join(d.Data, node.AdminSocket), nil
	}
	config, err := d.config()
	if err != nil {
		return nil, "", err
	}
	address, err := d.address(config != nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := d.send(&http.Transport{TLSClientConfig: config}, method, address+path)
	if err != nil {
		return nil, "", d.connectError(err)
	}
	socket = resp.Header.Get(admin.SocketHeader)
	if code := resp.StatusCode; d.User == "" && socket != "" && isOwn(socket) &&
		(code == http.StatusUnauthorized || code == http.StatusForbidden) {
		_ = resp.Body.Close()
		return nil, socket, nil
	}
	body, err = d.read(resp)
	return body, "", err
}

// requestSocket sends a request to the admin socket of a node.
func (d adminClient) requestSocket(socket, method, path string) ([]byte, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	resp, err := d.send(&http.Transport{DialContext: dial}, method, "http://localhost"+path)
	d.HTTP = socket
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &unreachableError{fmt.Errorf("cannot connect to %s: no node is running on the data directory "+
			"%s. Start it with "+
			"ilion start", socket, filepath.Dir(socket))}
	}
	if err != nil {
		return nil, d.connectError(err)
	}
	return d.read(resp)
}

// isOwn reports whether this process has permission to use the socket.
func isOwn(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (d adminClient) send(t *http.Transport, method, url string) (*http.Response, error) {
	ctx := d.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(d.content))
	if err != nil {
		return nil, err
	}
	if d.User != "" {
		req.SetBasicAuth(d.User, d.Password)
	}
	t.DisableKeepAlives = true
	return (&http.Client{Timeout: responseTimeout, Transport: t}).Do(req)
}

// read returns the body of a response. For an error response, it returns an error with the text of the response.
func (d adminClient) read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, responseMax))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text := strings.TrimSpace(string(body))
		switch {
		case strings.Contains(text, "HTTP request to an HTTPS server"):
			return nil, fmt.Errorf("the node at %s requires TLS. Use --http https://%s, and --tls-ca FILE if its "+
				"certificate was issued by a private authority", d.HTTP, d.HTTP)
		case resp.StatusCode == http.StatusNotFound && text == "404 page not found":
			return nil, fmt.Errorf("the node at %s runs an older version that does not support this request. Use "+
				"another node", d.HTTP)
		case resp.Header.Get("x-ms-activity-id") != "":
			return nil, fmt.Errorf("%s is the REST address of a node. Use the HTTP address, which the --http option "+
				"of the node "+
				"specifies (default %s)", d.HTTP, defaultHTTP)
		case resp.StatusCode == http.StatusServiceUnavailable && (text == "" || strings.ContainsAny(text, "\n<")):
			return nil, fmt.Errorf("the node at %s is starting, stopping, or overloaded. Retry later", d.HTTP)
		case text == "" || strings.ContainsAny(text, "\n<"):
			return nil, fmt.Errorf("%s is not the HTTP address of a node: it returned %s. Check --http", d.HTTP,
				resp.Status)
		}
		return nil, errors.New(text)
	}
	return body, nil
}

// connectError returns the error for a request that failed without a response.
func (d adminClient) connectError(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // the message contains the address
	}
	if e := (*tls.CertificateVerificationError)(nil); errors.As(err, &e) {
		return fmt.Errorf("cannot verify the certificate of the node at %s: %w. Use --tls-ca FILE", d.HTTP,
			e.Err)
	}
	if strings.Contains(err.Error(), "malformed HTTP") ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return fmt.Errorf("%s is not the HTTP address of a node, or the node does not use TLS. Check --http", d.HTTP)
	}
	return &unreachableError{fmt.Errorf("cannot connect to a node at %s: %w", d.HTTP, err)}
}

type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }
