// SPDX-License-Identifier: Apache-2.0

package httpwire

import (
	"bytes"
	"net/http"
	"strings"
)

// FieldsMax is the maximum number of header fields of a request.
const FieldsMax = 200

// Malformed is the reason why a request is rejected. It contains the status for the client. The start of the next
// request is then unknown, so the connection must be closed.
type Malformed struct {
	Status  int
	Message string
}

func (m *Malformed) Error() string { return m.Message }

func malformed(message string) *Malformed { return &Malformed{http.StatusBadRequest, message} }

var (
	errLineEnd = malformed("A line of the request does not end with CR LF.")
	errHead    = malformed("The request line must contain a method, a target, and HTTP/1.1, separated by single spaces.")
	errTarget  = malformed("The target of the request must be a path or an http URL.")
	errName    = malformed("The name of a request header is empty or contains invalid characters.")
	errValue   = malformed("The value of a request header contains control characters.")
	errHost    = malformed("An HTTP/1.1 request must contain exactly one Host header.")
	errLength  = malformed("The Content-Length of the request must be a single decimal number.")
	errFraming = malformed("The request contains both Content-Length and Transfer-Encoding. Send only one of them.")
	errVersion = &Malformed{http.StatusHTTPVersionNotSupported, "This server supports only HTTP/1.1 and HTTP/1.0."}
	errFields  = &Malformed{http.StatusRequestHeaderFieldsTooLarge,
		"The request has too many headers: 200 are allowed."}
	errCoding = &Malformed{http.StatusNotImplemented,
		"The Transfer-Encoding of the request is not supported. Use Content-Length or chunked encoding."}
	errExpectation = &Malformed{http.StatusExpectationFailed,
		"The expectation of the request is not supported. Only 100-continue is supported."}
)

// End searches for the end of a request head in the received data. looked is the number of bytes that earlier calls
// have searched. It is 0 for the first call. end is 0 if the head is incomplete.
func End(data []byte, looked int) (end int, err error) {
	for at := looked; ; at++ {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return 0, nil
		}
		at += i
		if at == 0 || data[at-1] != '\r' {
			return 0, errLineEnd
		}
		if at == 1 || data[at-2] == '\n' {
			return at + 1, nil
		}
	}
}

// Field is a header field. The value has no surrounding white space.
type Field struct{ Name, Value string }

// Fields holds the header fields of a request in order.
type Fields []Field

// Get returns the value of the first field with the given name, or an empty string. The case of the name does not
// matter.
func (f Fields) Get(name string) string {
	for i := range f {
		if EqualFold(f[i].Name, name) {
			return f[i].Value
		}
	}
	return ""
}

// Chunks is the value of Request.Length for a chunked body.
const Chunks = -1

// Request is the head of a request.
type Request struct {
	// Method and Target contain the unchanged text of the request. The target is a path with an optional query, or an
	// absolute URL. Path returns the path of the target.
	Method, Target string
	// Minor is the minor version, which is 0 or 1.
	Minor  int
	Host   string
	Fields Fields
	// Length is the length of the body in bytes, or Chunks.
	Length int64
	// Close means that the client sends no further requests. Continue means that the client waits for permission to
	// send the body.
	Close, Continue bool
}

// Path returns the path of the target without the query. Escapes are preserved.
func (r *Request) Path() string {
	path, _, _ := strings.Cut(r.Target, "?")
	if path[0] != '/' {
		_, path, _ = strings.Cut(path, "://")
		_, path, _ = strings.Cut(path, "/")
		path = "/" + path
	}
	return path
}

// Parse parses a head that ends at the end of data. Errors are of the type *Malformed. Parse reuses the memory of
// Fields.
func (r *Request) Parse(data []byte) error {
	*r = Request{Fields: r.Fields[:0]}
	line, rest, _ := strings.Cut(string(data), "\r\n")
	if err := r.parseFirst(line); err != nil {
		return err
	}
	f := framing{length: -1}
	for {
		line, rest, _ = strings.Cut(rest, "\r\n")
		if line == "" {
			break
		}
		if len(r.Fields) == FieldsMax {
			return errFields
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return errName
		}
		if value = strings.Trim(value, " \t"); !isText(value) {
			return errValue
		}
		r.Fields = append(r.Fields, Field{name, value})
		if err := f.hear(r, name, value); err != nil {
			return err
		}
	}
	return f.apply(r)
}

// parseFirst parses the request line.
func (r *Request) parseFirst(line string) error {
	method, rest, _ := strings.Cut(line, " ")
	target, version, ok := strings.Cut(rest, " ")
	if !ok || !isToken(method) {
		return errHead
	}
	switch version {
	case "HTTP/1.1":
		r.Minor = 1
	case "HTTP/1.0":
	default:
		if !strings.HasPrefix(version, "HTTP/") || strings.Contains(version, " ") {
			return errHead
		}
		return errVersion
	}
	if !isText(target) || strings.Contains(target, "\t") || !isTarget(target) {
		return errTarget
	}
	r.Method, r.Target = method, target
	return nil
}

// isTarget reports whether a target is a path or an absolute HTTP URL.
func isTarget(s string) bool {
	if strings.HasPrefix(s, "/") {
		return true
	}
	scheme, rest, ok := strings.Cut(s, "://")
	return ok && (EqualFold(scheme, "http") || EqualFold(scheme, "https")) && rest != "" &&
		!strings.HasPrefix(rest, "/")
}

// framing holds the header fields that determine the body and the connection.
type framing struct {
	length              int64 // -1 if the field is not set
	hosts, codings      int
	chunked, keep, ends bool
}

// hear records a header field. The relevant names have only a few different lengths, so most fields can be skipped
// after a check of the length of their names.
func (f *framing) hear(r *Request, name, value string) error {
	switch len(name) {
	case len("Host"):
		if EqualFold(name, "Host") {
			f.hosts++
			r.Host = value
		}
	case len("Expect"):
		if EqualFold(name, "Expect") {
			if !EqualFold(value, "100-continue") {
				return errExpectation
			}
			r.Continue = true
		}
	case len("Connection"):
		if EqualFold(name, "Connection") {
			for option := range strings.SplitSeq(value, ",") {
				option = strings.Trim(option, " \t")
				f.ends = f.ends || EqualFold(option, "close")
				f.keep = f.keep || EqualFold(option, "keep-alive")
			}
		}
	case len("Content-Length"):
		if EqualFold(name, "Content-Length") {
			n, ok := parseLength(value)
			if !ok || f.length >= 0 {
				return errLength
			}
			f.length = n
		}
	case len("Transfer-Encoding"):
		if EqualFold(name, "Transfer-Encoding") {
			f.codings++
			f.chunked = EqualFold(value, "chunked")
		}
	}
	return nil
}

// apply validates the combination of all fields.
func (f *framing) apply(r *Request) error {
	switch {
	case f.codings > 0 && f.length >= 0:
		return errFraming
	case f.codings > 0 && (!f.chunked || f.codings > 1 || r.Minor == 0):
		return errCoding
	case f.hosts > 1 || f.hosts == 0 && r.Minor > 0:
		return errHost
	case f.codings > 0:
		r.Length = Chunks
	case f.length > 0:
		r.Length = f.length
	}
	// HTTP/1.0 clients do not support the status 100.
	r.Continue = r.Continue && r.Minor > 0 && r.Length != 0
	r.Close = f.ends || r.Minor == 0 && !f.keep
	return nil
}

// lengthDigits is the maximum number of digits of the length of a body. The number suffices for every accepted body.
const lengthDigits = 18

func parseLength(s string) (n int64, ok bool) {
	if len(s) == 0 || len(s) > lengthDigits {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}
