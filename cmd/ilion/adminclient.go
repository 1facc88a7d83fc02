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

// door is how commands reach a running node.
type door struct {
	HTTP string `name:"http" env:"ILION_HTTP" placeholder:"HOST:PORT" help:"HTTP address or URL of a node (default 127.0.0.1:8080)"`
	Data string `env:"ILION_DATA" placeholder:"DIR" help:"Data directory of a node on this machine, for access without a password"`
	credentials
	clientTLS
	// socket is where the node takes what it did not take at its address: it is not asked there again, and again notes
	// a refusal.
	socket string
	// content is what a request comes with, and ctx what it ends with, nil if nothing.
	content []byte
	ctx     context.Context
}

const (
	// answerMax bounds what is read of an answer, in bytes.
	answerMax = 256 << 20
	// answerWait is how long an answer may take.
	answerWait = time.Minute
)

// defaultHTTP is where a node answers that was told nothing.
const defaultHTTP = "127.0.0.1:8080"

// address is where the node answers, as a URL without a path.
func (d door) address(encrypted bool) (string, error) {
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
		return "", &usageError{fmt.Sprintf("--http %s is neither HOST:PORT nor http://HOST:PORT nor https://HOST:PORT",
			d.HTTP)}
	case u.Scheme == "http" && encrypted:
		return "", &usageError{fmt.Sprintf("--http %s is without TLS, and there are options for it: say https", d.HTTP)}
	}
	return u.Scheme + "://" + u.Host, nil
}

// preferFlags has what was said by a flag count more than what the environment says of another way to the node.
func (d *door) preferFlags() {
	byEnv := func(value, name string) bool { return value != "" && value == os.Getenv(name) }
	switch http, data := byEnv(d.HTTP, "ILION_HTTP"), byEnv(d.Data, "ILION_DATA"); {
	case http && !data && d.Data != "":
		d.HTTP = ""
	case data && !http && d.HTTP != "":
		d.Data = ""
	}
}

// ask sends a request to the node and returns what it answers. Where the node takes it only from the owner of its data
// directory, and tells where the socket for that is, it is asked there.
func (d *door) ask(method, path string) ([]byte, error) {
	return d.askWith(context.Background(), method, path, nil)
}

// askWith is ask with a body, and ends with a context.
func (d *door) askWith(ctx context.Context, method, path string, content []byte) ([]byte, error) {
	d.content, d.ctx = content, ctx
	if d.socket == "" {
		var body []byte
		var err error
		if body, d.socket, err = d.askAddress(method, path); d.socket == "" {
			return body, err
		}
	}
	return d.askSocket(d.socket, method, path)
}

// fetch asks the node for a page of JSON.
func (d *door) fetch(ctx context.Context, path string, to any) error {
	body, err := d.askWith(ctx, http.MethodGet, path, nil)
	if err == nil && json.Unmarshal(body, to) != nil {
		err = d.notOfNode()
	}
	return err
}

func (d *door) notOfNode() error {
	return fmt.Errorf("%s is not the HTTP address of a node: its answer is none of a node", d.HTTP)
}

// askAddress is ask at the address that the options say. Where the node takes the request at a socket only it returns
// that.
func (d door) askAddress(method, path string) (body []byte, socket string, err error) {
	d.preferFlags()
	if d.HTTP != "" && d.Data != "" {
		return nil, "", &usageError{"--http and --data are two ways to a node: give one of them"}
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
		return nil, "", d.unanswered(err)
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

// askSocket asks the node whose socket that is.
func (d door) askSocket(socket, method, path string) ([]byte, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	resp, err := d.send(&http.Transport{DialContext: dial}, method, "http://localhost"+path)
	d.HTTP = socket
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &noAnswer{fmt.Errorf("no node answers at %s: none runs on the data directory %s. Start it first, "+
			"with ilion start", socket, filepath.Dir(socket))}
	}
	if err != nil {
		return nil, d.unanswered(err)
	}
	return d.read(resp)
}

// isOwn reports whether this process may use a socket: another user's is not asked.
func isOwn(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (d door) send(t *http.Transport, method, url string) (*http.Response, error) {
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
	return (&http.Client{Timeout: answerWait, Transport: t}).Do(req)
}

// read reads an answer.
func (d door) read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text := strings.TrimSpace(string(body))
		switch {
		case strings.Contains(text, "HTTP request to an HTTPS server"):
			return nil, fmt.Errorf("the node at %s speaks TLS: say --http https://%s, and --tls-ca FILE if its "+
				"certificate is of an authority of your own", d.HTTP, d.HTTP)
		case resp.StatusCode == http.StatusNotFound && text == "404 page not found":
			return nil, fmt.Errorf("the node at %s is of an older build, which cannot answer this: ask another node", d.HTTP)
		case resp.Header.Get("x-ms-activity-id") != "":
			return nil, fmt.Errorf("%s is the address of containers (REST): give the HTTP address of the node, which its "+
				"option --http says (default %s)", d.HTTP, defaultHTTP)
		case resp.StatusCode == http.StatusServiceUnavailable && (text == "" || strings.ContainsAny(text, "\n<")):
			return nil, fmt.Errorf("the node at %s is starting, stopping or busy: try again", d.HTTP)
		case text == "" || strings.ContainsAny(text, "\n<"):
			return nil, fmt.Errorf("%s is not the HTTP address of a node: it answers %s", d.HTTP, resp.Status)
		}
		return nil, errors.New(text)
	}
	return body, nil
}

// unanswered says why there is no answer.
func (d door) unanswered(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // the address is said already
	}
	if e := (*tls.CertificateVerificationError)(nil); errors.As(err, &e) {
		return fmt.Errorf("the certificate of the node at %s is not to be trusted: %w: give --tls-ca FILE", d.HTTP,
			e.Err)
	}
	if strings.Contains(err.Error(), "malformed HTTP") ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return fmt.Errorf("%s is not the HTTP address of a node, or not with TLS", d.HTTP)
	}
	return &noAnswer{fmt.Errorf("no node answers at %s: %w", d.HTTP, err)}
}

// noAnswer says that nobody has answered.
type noAnswer struct{ error }

func (e *noAnswer) Unwrap() error { return e.error }
