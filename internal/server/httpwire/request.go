// SPDX-License-Identifier: Apache-2.0

package httpwire

import (
	"bytes"
	"net/http"
	"strings"
)

// FieldsMax is how many header fields a request may have.
const FieldsMax = 200

// Malformed is why a request is refused, with the status that its client is to be told. Where the next one would begin
// is unknown then, so the connection ends.
type Malformed struct {
	Status  int
	Message string
}

func (m *Malformed) Error() string { return m.Message }

func malformed(message string) *Malformed { return &Malformed{http.StatusBadRequest, message} }

var (
	errLineEnd = malformed("A line of the request does not end with CR LF.")
	errHead    = malformed("The request does not begin with a method, a target and HTTP/1.1, with one blank between each.")
	errTarget  = malformed("The target of the request is neither a path nor an http URL.")
	errName    = malformed("A header of the request has no name, or one with other characters than those of a token.")
	errValue   = malformed("A header of the request has control characters in its value.")
	errHost    = malformed("A request of HTTP/1.1 has one Host header, and no request has more.")
	errLength  = malformed("The Content-Length of the request is not one decimal number.")
	errFraming = malformed("The request has both Content-Length and Transfer-Encoding: send one of them.")
	errVersion = &Malformed{http.StatusHTTPVersionNotSupported, "This server speaks HTTP/1.1 and HTTP/1.0."}
	errFields  = &Malformed{http.StatusRequestHeaderFieldsTooLarge,
		"The request has too many headers: 200 are allowed."}
	errCoding = &Malformed{http.StatusNotImplemented,
		"The Transfer-Encoding of the request is not supported: send a Content-Length, or chunks."}
	errExpectation = &Malformed{http.StatusExpectationFailed,
		"The expectation of the request is not supported: 100-continue is."}
)

// End looks for the end of a request's head in what has arrived of it. looked is how much of that an earlier call has
// seen, 0 in the first. end is 0 if more has to come.
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

// Field is one header field as it was sent, without white space around the value.
type Field struct{ Name, Value string }

// Fields are the header fields of a request in their order.
type Fields []Field

// Get returns the value of the first field of a name, in whatever case of letters, empty if there is none.
func (f Fields) Get(name string) string {
	for i := range f {
		if EqualFold(f[i].Name, name) {
			return f[i].Value
		}
	}
	return ""
}

// Chunks is the Request.Length of a body that comes in chunks.
const Chunks = -1

// Request is the head of a request.
type Request struct {
	// Method and Target are as they were sent. The target is a path with what follows a question mark, which Path
	// leaves out; or a URL, of which Path is a part.
	Method, Target string
	// Minor is that of the version: 0 or 1.
	Minor  int
	Host   string
	Fields Fields
	// Length is that of the body in bytes, or Chunks.
	Length int64
	// Close says that the client sends no further request, Continue that it waits to hear whether it may send the body.
	Close, Continue bool
}

// Path is the path of the target, escaped as it was sent.
func (r *Request) Path() string {
	path, _, _ := strings.Cut(r.Target, "?")
	if path[0] != '/' {
		_, path, _ = strings.Cut(path, "://")
		_, path, _ = strings.Cut(path, "/")
		path = "/" + path
	}
	return path
}

// Parse takes apart a head whose end is the end of data. The error is a *Malformed. The memory of Fields is used again.
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

// parseFirst reads the first line.
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

// isTarget reports whether a target is a path or an absolute URL of HTTP.
func isTarget(s string) bool {
	if strings.HasPrefix(s, "/") {
		return true
	}
	scheme, rest, ok := strings.Cut(s, "://")
	return ok && (EqualFold(scheme, "http") || EqualFold(scheme, "https")) && rest != "" &&
		!strings.HasPrefix(rest, "/")
}

// framing is what the header fields of a request say of its body and of the connection.
type framing struct {
	length              int64 // -1: not given
	hosts, codings      int
	chunked, keep, ends bool
}

// hear takes note of a field. The names it looks for have few lengths, so most fields are passed by that.
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

// apply draws the conclusions when all fields are known.
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
	// A client of HTTP/1.0 does not know of 100.
	r.Continue = r.Continue && r.Minor > 0 && r.Length != 0
	r.Close = f.ends || r.Minor == 0 && !f.keep
	return nil
}

// lengthDigits is how many digits the length of a body may have: more than any body that is taken.
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
