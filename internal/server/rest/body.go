// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"net/http"

	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// discardSmall is the maximum size of an unread body that is discarded to reuse the connection.
const discardSmall = 256 << 10

// invite sends "100 Continue" if the client waits for this response. It also sets the deadline of the body.
func (c *conn) invite() error {
	if c.in.awaited {
		c.in.awaited = false
		c.x.out = append(c.x.out, httpwire.Continue...)
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.readWithin(requestWait)
}

// body reads up to most bytes of the request's body into new memory. The error is a *httpwire.Malformed or an error
// from the connection.
func (c *conn) body(most int) ([]byte, error) {
	if c.in.left == httpwire.Chunks {
		return c.chunked(most)
	}
	if c.in.left > int64(most) {
		return nil, httpwire.ErrTooLarge
	}
	b := make([]byte, c.in.left)
	n := copy(b, c.in.unread())
	c.in.r += n
	if n < len(b) {
		if err := c.invite(); err != nil {
			return nil, err
		}
	}
	for c.in.left -= int64(n); c.in.left > 0; c.in.left -= int64(n) {
		var err error
		if n, err = c.nc.Read(b[len(b)-int(c.in.left):]); n == 0 && err != nil {
			return nil, err
		}
	}
	c.in.awaited = false
	return b, nil
}

// chunked works like body for a chunked body.
func (c *conn) chunked(most int) (b []byte, err error) {
	for invited := false; ; {
		n, done := 0, false
		b, n, done, err = c.in.chunks.Take(b, c.in.unread(), most)
		c.in.r += n
		if err != nil {
			return nil, err
		}
		if done {
			c.in.left, c.in.awaited = 0, false
			return b, nil
		}
		if !invited {
			invited = true
			if err := c.invite(); err != nil {
				return nil, err
			}
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// discard reads up to most bytes of the remaining body. The length of the body must be known. It reports whether the
// body is complete.
func (c *conn) discard(most int64) bool {
	most = min(most, c.in.left)
	if n := min(most, int64(c.in.w-c.in.r)); n > 0 {
		c.in.r, c.in.left, most = c.in.r+int(n), c.in.left-n, most-n
	}
	if most > 0 && c.readWithin(requestWait) != nil {
		return false
	}
	for most > 0 {
		n, err := c.nc.Read(c.in.buf[:min(int64(len(c.in.buf)), most)])
		if c.in.left, most = c.in.left-int64(n), most-int64(n); n == 0 && err != nil {
			return false
		}
	}
	return c.in.left == 0
}

// settle reads the rest of the request, or marks the connection to be closed after the response.
func (c *conn) settle() {
	if c.last || c.in.left == 0 {
		return
	}
	if c.in.awaited || c.in.left == httpwire.Chunks || c.in.left > discardSmall || !c.discard(discardSmall) {
		c.last = true
	}
}

// refuseMalformed responds to a malformed request.
func (x *exchange) refuseMalformed(m *httpwire.Malformed) {
	x.reset()
	x.request.Method = ""
	x.write(x.refuse(failureOf(m)))
}

// bodyFailure converts an error that occurred while a body was read.
func bodyFailure(err error) *failure {
	if m, ok := errors.AsType[*httpwire.Malformed](err); ok {
		return failureOf(m)
	}
	return &failure{status: http.StatusRequestTimeout, message: "The body of the request could not be read: " +
		err.Error()}
}
