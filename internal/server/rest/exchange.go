// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/query/container"
)

// exchange is one request and its answer.
type exchange struct {
	server  *Server
	request *http.Request
	header  http.Header // of the request
	target  *target
	// signer is the key that it was signed with, operation what it asks for; empty as long as they are not known.
	signer    string
	operation *operation
	// body is what was sent, held the memory that is counted for it.
	body []byte
	held int64

	out http.Header // of the answer
	// values has the values of its first headers, so that they are not allocated one by one, and valuesN how many.
	values  [24]string
	valuesN int
	// byRID says that the path is made of resource ids.
	byRID bool
	// charge is what the request has cost.
	charge ru.Units
}

// answer is what an operation answers: a status and JSON.
type answer struct {
	status int
	body   []byte
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{server: s, request: r, header: r.Header, out: w.Header()}
	s.stats.InFlight.Add(1)
	defer func() {
		s.stats.InFlight.Add(-1)
		s.stats.InFlightBytes.Add(-x.held)
	}()
	a, err := x.serve()
	if err != nil {
		a = x.refuse(failureOf(err))
	}
	x.write(w, a)
	if s.opts.Audit != nil {
		x.audit(a.status)
	}
}

// serve finds out what is asked for, by whom, and does it.
func (x *exchange) serve() (a *answer, err error) {
	defer func() {
		if defect := recover(); defect != nil {
			x.server.opts.Log.LogAttrs(x.request.Context(), slog.LevelError, "defect in a request over HTTP",
				slog.String("method", x.request.Method), slog.Any("defect", defect),
				slog.String("stack", string(debug.Stack())))
			err = &failure{status: http.StatusInternalServerError,
				message: "An internal error: see the log of the node."}
		}
	}()
	s, r := x.server, x.request
	if g := guestOf(r.Context()); g != nil && g.refusal != "" {
		x.out["Connection"] = closes
		return nil, &failure{status: http.StatusServiceUnavailable, message: g.refusal}
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath()
	}
	// Who has no key is told the same of every path, also of those that lead nowhere.
	target := parseTarget(path)
	known := target != nil
	if !known {
		target = &targetNone
	}
	x.target = target
	signer, refusal := s.opts.Keys().authenticate(r.Method, r.Header, target, s.opts.Now())
	if refusal != nil {
		x.out["Connection"] = closes // strangers do not keep one
		return nil, refusal
	}
	x.signer = signer
	guestOf(r.Context()).known()
	if !known {
		return nil, badRequest("The path " + strconv.Quote(path) + " is none of this interface.")
	}
	op, refusal := operationOf(r.Method, target, r.Header)
	if refusal != nil {
		return nil, refusal
	}
	x.operation = op
	if signer == readOnlyKey && !op.reads {
		return nil, &failure{status: http.StatusForbidden, message: "The read-only key does not allow " + op.name +
			": sign the request with the primary or the secondary key."}
	}
	done, refusal := x.admit()
	if refusal != nil {
		return nil, refusal
	}
	defer done()
	if err := x.read(); err != nil {
		return nil, err
	}
	return op.do(x, r.Context())
}

// targetNone stands for a path that leads nowhere: nobody signs it.
var targetNone = target{kind: "none"}

// admit refuses a request that a bound, or the machine, does not let in.
func (x *exchange) admit() (done func(), refusal *failure) {
	s := x.server
	if s.stats.InFlight.Load() > int64(s.opts.RequestsMax) {
		s.stats.Refused.Add(1)
		return nil, busy("Too many requests are in flight on this node.")
	}
	if s.opts.Admit == nil {
		return func() {}, nil
	}
	done, ok := s.opts.Admit(x.claimant())
	if !ok {
		s.stats.Refused.Add(1)
		return nil, busy("The node is asked for more than it can do: try again later, or ask another one.")
	}
	return done, nil
}

// claimant is who asks.
func (x *exchange) claimant() share.Claimant {
	number := uint32(0)
	if g := guestOf(x.request.Context()); g != nil {
		number = g.number
	}
	return share.Claimant{User: user, Connection: number, Low: strings.EqualFold(x.header.Get(hPriority), "low")}
}

func busy(message string) *failure {
	return &failure{status: http.StatusTooManyRequests, sub: container.SubThroughput, message: message,
		retryAfter: overloadWait}
}

// read takes the body in.
func (x *exchange) read() error {
	r := x.request
	size := r.ContentLength
	if size == 0 || r.Body == nil {
		return nil
	}
	if size > BodyBytesMax {
		return x.tooLarge()
	}
	if size < 0 {
		size = BodyBytesMax
	}
	s := x.server
	x.held = size
	if s.stats.InFlightBytes.Add(size) > s.opts.RequestBytesMax {
		s.stats.Refused.Add(1)
		return busy("The bodies of the requests in flight on this node take too much memory.")
	}
	if r.ContentLength > 0 {
		x.body = make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, x.body)
		return cutOff(err)
	}
	var err error
	x.body, err = io.ReadAll(io.LimitReader(r.Body, BodyBytesMax+1))
	if err == nil && len(x.body) > BodyBytesMax {
		return x.tooLarge()
	}
	return cutOff(err)
}

func cutOff(err error) error {
	if err == nil {
		return nil
	}
	return &failure{status: http.StatusRequestTimeout, message: "The body of the request did not arrive: " +
		err.Error()}
}

// tooLarge reads what a client that sends too much sends, up to a bound, so that it comes to read its answer.
func (x *exchange) tooLarge() error {
	_, _ = io.CopyN(io.Discard, x.request.Body, discardMax)
	return &failure{status: http.StatusRequestEntityTooLarge,
		message: "Request size is too large: the body of a request may have " + strconv.Itoa(BodyBytesMax) + " bytes."}
}

// refuse makes the answer of a failure.
func (x *exchange) refuse(f *failure) *answer {
	x.server.stats.Errors.Add(1)
	x.charge = max(x.charge, f.charge)
	if f.sub != 0 {
		x.set(aSubStatus, strconv.Itoa(f.sub))
	}
	if f.retryAfter > 0 {
		x.set(aRetryAfter, strconv.FormatInt(max(1, f.retryAfter.Milliseconds()), 10))
	}
	return &answer{f.status, f.body()}
}

// set sets a header of the answer: its name is sent as it is.
func (x *exchange) set(name, value string) {
	if n := x.valuesN; n < len(x.values) {
		x.values[n] = value
		x.out[name] = x.values[n : n+1 : n+1]
		x.valuesN++
		return
	}
	x.out[name] = []string{value}
}

// write sends the answer.
func (x *exchange) write(w http.ResponseWriter, a *answer) {
	x.server.stats.Requests.Add(1)
	x.set(aActivity, uuid.NewString())
	x.set(aCharge, chargeText(x.charge))
	x.set(aVersion, "2")
	x.set("cache-control", "no-store, no-cache")
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		w.WriteHeader(a.status)
		return
	}
	if len(a.body) > 0 {
		x.out[hContentType] = jsonType
	}
	x.set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	// A client that went away in the middle of its answer is nobody to report to.
	_, _ = w.Write(a.body)
}

var (
	jsonType = []string{"application/json"}
	closes   = []string{"close"}
)

// chargeMin is what any request is said to cost: clients want a number above zero.
const chargeMin = ru.Unit

// chargeText is a charge as clients read it.
func chargeText(u ru.Units) string {
	return strconv.FormatFloat(max(u, chargeMin).Float(), 'f', -1, 64)
}
