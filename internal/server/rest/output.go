// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// output holds the headers of a response and the pending output of a connection.
type output struct {
	// out is the pending output.
	out []byte
	// fields holds the headers. Their values are in values.
	fields []outputField
	values []byte
	// text is a buffer for the body of an item.
	text []byte
	// charge is the charge of the request.
	charge ru.Units
}

// outputField is a header. Its value is output.values[begin:end].
type outputField struct {
	name       string
	begin, end int
}

// reset discards the previous response. It releases large buffers.
func (o *output) reset() {
	o.fields, o.values, o.charge = o.fields[:0], o.values[:0], 0
	if cap(o.values) > keepBytes {
		o.values = nil
	}
	if cap(o.text) > keepBytes {
		o.text = nil
	}
	if len(o.out) == 0 && cap(o.out) > 2*keepBytes {
		o.out = nil
	}
}

// set sets a header of the response. Its name is sent unchanged.
func (o *output) set(name, value string) {
	o.values = append(o.values, value...)
	o.end(name, len(o.values)-len(value))
}

// setNumber sets a header to a number.
func (o *output) setNumber(name string, value int64) {
	begin := len(o.values)
	o.values = strconv.AppendInt(o.values, value, 10)
	o.end(name, begin)
}

// end completes a header whose value was appended to values. The value starts at begin. If the header already has a
// value, the new value replaces it.
func (o *output) end(name string, begin int) {
	f := outputField{name, begin, len(o.values)}
	for i := range o.fields {
		if o.fields[i].name == name {
			o.fields[i] = f
			return
		}
	}
	o.fields = append(o.fields, f)
}

// write encodes the response and adds it to the pending output.
func (x *exchange) write(a *answer) {
	s, c := x.server, x.conn
	s.stats.Requests.Add(1)
	x.setActivity()
	begin := len(x.values)
	x.values = appendCharge(x.values, x.charge)
	x.end(aCharge, begin)
	out := httpwire.AppendStatus(x.out, a.status)
	out = s.dates.Append(out, time.Now())
	for _, f := range x.fields {
		out = httpwire.AppendField(out, f.name, x.values[f.begin:f.end])
	}
	out = append(out, alike...)
	if s.draining.Load() && c.in.r == c.in.w { // requests that have already arrived are also answered
		c.last = true
	}
	switch {
	case c.last:
		out = append(out, "Connection: close\r\n"...)
	case x.request.Minor == 0:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	bodiless := a.status == http.StatusNoContent || a.status == http.StatusNotModified
	if !bodiless {
		if len(a.body) > 0 {
			out = append(out, "Content-Type: application/json\r\n"...)
		}
		out = httpwire.AppendLength(out, len(a.body))
	} else {
		out = append(out, "\r\n"...)
	}
	body := a.body
	if bodiless || x.request.Method == http.MethodHead {
		body = nil
	}
	if len(body) <= keepBytes {
		out, body = append(out, body...), nil
	}
	x.out = out
	err := c.flush()
	if err == nil && body != nil {
		err = c.write(body)
	}
	c.last = c.last || err != nil // it is not an error if the client disconnects during the response
}

// alike contains the headers of every response.
const alike = aVersion + ": 2\r\ncache-control: no-store, no-cache\r\n"

// setActivity generates the ID of the request.
func (x *exchange) setActivity() {
	const digits = "0123456789abcdef"
	begin := len(x.values)
	high, low := rand.Uint64(), rand.Uint64()
	high, low = high&^0xf000|0x4000, low&^(0xc000<<48)|0x8000<<48 // set the version and variant of a random UUID
	for _, part := range [...]uint64{high, low} {
		for i := 60; i >= 0; i -= 4 {
			if n := len(x.values) - begin; n == 8 || n == 13 || n == 18 || n == 23 {
				x.values = append(x.values, '-')
			}
			x.values = append(x.values, digits[part>>i&0xf])
		}
	}
	x.end(aActivity, begin)
}

// chargeMin is the minimum reported charge, because clients expect a positive number.
const chargeMin = ru.Unit

// appendCharge appends a charge in the client's format.
func appendCharge(dst []byte, u ru.Units) []byte {
	return strconv.AppendFloat(dst, max(u, chargeMin).Float(), 'f', -1, 64)
}
