// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// retryPolicy limits the duration and the retries of requests to the server.
type retryPolicy struct {
	// tries is the maximum number of attempts of a request, and all is the maximum total time for retries.
	tries int
	all   time.Duration
	// pause is the first pause between two attempts. Each pause is twice as long as the previous pause, up to pauseMax.
	pause, pauseMax time.Duration
	// dial is the time limit for a connection. try is the time limit for an attempt, in addition to the time for
	// transferring both bodies at rate bytes per second.
	dial, try time.Duration
	rate      int64
}

var defaultRetryPolicy = retryPolicy{tries: 10, all: 10 * time.Minute, pause: 200 * time.Millisecond,
	pauseMax: 10 * time.Second, dial: 10 * time.Second, try: 30 * time.Second, rate: 32 << 10}

// slowest returns the time limit for a request that transfers n bytes.
func (p *retryPolicy) slowest(n int64) time.Duration {
	return p.try + time.Duration(float64(max(n, 0))/float64(p.rate)*float64(time.Second))
}

// request is a request to the server.
type request struct {
	method string
	key    string
	query  url.Values
	body   []byte
	// limit is the maximum size of the response in bytes. list is set if the request lists objects.
	limit int64
	list  bool
}

// answer is a response of the server.
type answer struct {
	body []byte
	size int64
	page page
}

// failure is an error response or a failed attempt.
type failure struct {
	status     int
	code, text string
	// again reports whether the same request may succeed later. after is the delay that the server requested, or 0 if
	// it requested none.
	again bool
	after time.Duration
	err   error
}

// Error implements error.
func (f *failure) Error() string {
	switch {
	case f.err != nil:
		return f.err.Error()
	case f.code != "":
		return strings.TrimSpace(fmt.Sprintf("%s: %s", f.code, f.text))
	}
	return fmt.Sprintf("it returned %d %s", f.status, http.StatusText(f.status))
}

// Unwrap returns the cause of the failure.
func (f *failure) Unwrap() error { return f.err }

var (
	errSlow    = errors.New("it did not respond in time")
	errForeign = errors.New("its response is not an S3 response. Check the endpoint")
)

// ask sends a request, and retries it if a retry may succeed.
func (b *Bucket) ask(ctx context.Context, r *request) (*answer, error) {
	if len(r.key) > keyMax {
		return nil, fmt.Errorf("object name %s is too long. Use a shorter prefix", r.key)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(r.body))
	until := time.Now().Add(b.retries.all)
	pause := b.retries.pause
	for try := 1; ; try++ {
		a, err := b.send(ctx, r, digest)
		if err == nil {
			return a, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var f *failure
		if !errors.As(err, &f) {
			return nil, b.tell(r, err)
		}
		if errors.Is(err, fs.ErrNotExist) || !f.again || try == b.retries.tries || time.Now().After(until) {
			return nil, b.tell(r, err)
		}
		if err := b.pause(ctx, max(pause, min(f.after, b.retries.pauseMax))); err != nil {
			return nil, err
		}
		pause = min(2*pause, b.retries.pauseMax)
	}
}

// pause waits for a random time between d/2 and d. Rejected clients therefore do not all retry at the same time.
func (b *Bucket) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d/2 + rand.N(d/2+1)):
		return nil
	}
}

// tell adds the operation and advice for the user to an error.
func (b *Bucket) tell(r *request, err error) error {
	what := "bucket " + b.name
	if r.key != "" {
		what = "object " + r.key + " in " + what
	}
	advice := ""
	if f := (*failure)(nil); errors.As(err, &f) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case f.code == "RequestTimeTooSkewed":
			advice = ". Check the clocks of this machine and of the server"
		case f.code == "NoSuchBucket":
			advice = ". Create the bucket first, and check its name and the endpoint"
		case f.status == http.StatusForbidden:
			advice = ". The credentials must allow listing the bucket, and reading, writing, and deleting its objects"
		case f.status/100 == 3 || f.code == "AuthorizationHeaderMalformed":
			advice = ". The bucket belongs to another region or endpoint: specify it"
		}
	}
	if e := (*tls.CertificateVerificationError)(nil); errors.As(err, &e) {
		advice = ". Specify the file with the authority of its certificate"
	}
	return fmt.Errorf("%s %s at %s: %w%s", strings.ToLower(r.method), what, b.base.Host, err, advice)
}

// send sends a request once, without retries.
func (b *Bucket) send(ctx context.Context, r *request, digest string) (*answer, error) {
	who, err := b.opts.Credentials()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slow := time.AfterFunc(b.retries.slowest(int64(len(r.body))), func() { cancel(errSlow) })
	defer slow.Stop()
	u := b.base
	u.Path += "/" + r.key
	// The path and the query are sent with the encoding that is signed.
	u.RawPath, u.RawQuery = s3utils.EncodePath(u.Path), s3utils.QueryEncode(r.query)
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Amz-Content-Sha256", digest)
	resp, err := b.http.Do(signer.SignV4(*req, who.ID, who.Secret, who.Session, b.opts.Region))
	if err != nil {
		return nil, unsent(ctx, err)
	}
	defer resp.Body.Close()
	limit := int64(errorBytes)
	if resp.StatusCode == http.StatusOK && r.method == http.MethodGet {
		limit = r.limit
	}
	if r.method != http.MethodHead && resp.ContentLength > limit {
		return nil, &failure{status: resp.StatusCode, again: r.method != http.MethodGet,
			err: fmt.Errorf("its response of %d bytes exceeds %d bytes", resp.ContentLength, limit)}
	}
	expected := resp.ContentLength
	if expected < 0 {
		expected = limit
	}
	slow.Reset(b.retries.slowest(expected))
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, unsent(ctx, err)
	}
	if int64(len(body)) > limit {
		return nil, &failure{status: resp.StatusCode, err: fmt.Errorf("its response exceeds %d bytes", limit)}
	}
	return r.read(resp, body)
}

// unsent returns the failure for a connection error.
func unsent(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSlow) {
		return &failure{again: true, err: errSlow}
	}
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // the address is part of another message
	}
	certificate := (*tls.CertificateVerificationError)(nil)
	return &failure{again: !errors.As(err, &certificate), err: err}
}

// errorBytes is the maximum size of an error response, and shownBytes is the maximum size that is displayed.
const (
	errorBytes = 64 << 10
	shownBytes = 300
)

// read distinguishes a response from an error, regardless of its status (OB2).
func (r *request) read(resp *http.Response, body []byte) (*answer, error) {
	a := &answer{body: body, size: resp.ContentLength}
	ok := resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent
	if ok && r.method == http.MethodHead && resp.Header.Get("ETag") == "" { // the response has no body to check
		return nil, &failure{status: resp.StatusCode, again: true, err: errForeign}
	}
	text := bytes.TrimSpace(body)
	if ok && r.list {
		if err := xml.Unmarshal(text, &a.page); err == nil {
			return a, nil
		}
	}
	// Objects of backups never start like XML. Only a list returns XML.
	if ok && !r.list && (len(text) == 0 || r.method == http.MethodGet && text[0] != '<') {
		return a, nil
	}
	f := &failure{status: resp.StatusCode}
	var e struct {
		XMLName xml.Name `xml:"Error"`
		Code    string   `xml:"Code"`
		Message string   `xml:"Message"`
	}
	if xml.Unmarshal(text, &e) == nil {
		f.code, f.text = shown(e.Code), shown(e.Message)
	}
	if ok && f.code == "" {
		f.err = errForeign
	}
	if resp.StatusCode == http.StatusNotFound && r.key != "" && f.code != "NoSuchBucket" {
		f.err = fs.ErrNotExist
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 && n < 3600 {
		f.after = time.Duration(n) * time.Second
	}
	f.again = ok || mayPass(resp.StatusCode, f.code)
	return nil, f
}

// mayPass reports whether the same request may succeed later.
func mayPass(status int, code string) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	switch code {
	// The body was corrupted in transit, or temporary credentials are being renewed. A retry may succeed.
	case "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "RequestTimeout", "SlowDown", "InternalError",
		"OperationAborted", "ExpiredToken":
		return true
	}
	return false
}

// shown returns a text from the server without characters that a terminal could interpret.
func shown(s string) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), shownBytes)], "")
}
