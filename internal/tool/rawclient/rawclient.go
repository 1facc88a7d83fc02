// SPDX-License-Identifier: Apache-2.0

// Package rawclient is a minimal CQL client. It uses one connection and protocol version 4. It has no connection
// pools, no retries, and no value codecs. Load and administration tools use it, because a full driver uses more CPU
// time than the server under test.
//
// A Conn must be used by one goroutine at a time. Call sends one request and waits for its response. To pipeline
// requests, use Write and Read with AppendFrame. Start reading at Dial.
package rawclient

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

const (
	version = cqlwire.V4
	// responseMax is the maximum size of the body of a response to Call.
	responseMax = 256 << 20
)

// Options configures a connection.
type Options struct {
	// User and Password are used if the server requires a login.
	User, Password string
	// TLS encrypts the connection. If TLS is nil, the connection is not encrypted. An empty ServerName is replaced by
	// the host part of the address.
	TLS *tls.Config
	// Name is the driver name that the client reports. If Name is empty, ilion-raw is reported.
	Name string
	// Timeout is the time limit of each Call. If Timeout is 0, the limit is 30 seconds.
	Timeout time.Duration
}

// Conn is a connection that has completed the handshake.
type Conn struct {
	nc      net.Conn
	timeout time.Duration
	out     []byte
	// Warnings, Payload, and TraceID belong to the response to the last Call. TraceID is valid if HasTrace is set.
	Warnings []string
	Payload  []cqlwire.PayloadEntry
	HasTrace bool
	TraceID  [16]byte
}

// Dial connects to a server, and logs in if the server requires it.
func Dial(ctx context.Context, addr string, o Options) (*Conn, error) {
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{nc: nc, timeout: o.Timeout}
	if o.TLS != nil {
		c.nc = encrypted(nc, addr, o.TLS)
	}
	if err := c.handshake(o); err != nil {
		nc.Close()
		return nil, fmt.Errorf("handshake with %s: %w", addr, err)
	}
	return c, nil
}

func encrypted(nc net.Conn, addr string, config *tls.Config) net.Conn {
	if config = config.Clone(); config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr) // the address has already been dialed, so it is valid
	}
	return tls.Client(nc, config)
}

func (c *Conn) handshake(o Options) error {
	if o.Name == "" {
		o.Name = "ilion-raw"
	}
	startup := cqlwire.AppendStartup(nil, cqlwire.Startup{"CQL_VERSION": "3.0.0", "DRIVER_NAME": o.Name})
	op, _, err := c.Call(cqlwire.OpStartup, startup)
	if err != nil || op == cqlwire.OpReady {
		return err
	}
	if op != cqlwire.OpAuthenticate {
		return fmt.Errorf("unexpected response %v", op)
	}
	if o.User == "" {
		return errors.New("the server requires a user name and a password")
	}
	token := cqlwire.AppendAuthResponse(nil, cqlwire.AppendPlain(nil, o.User, o.Password))
	if op, _, err = c.Call(cqlwire.OpAuthResponse, token); err == nil && op != cqlwire.OpAuthSuccess {
		err = fmt.Errorf("unexpected response %v", op)
	}
	return err
}

// Close closes the connection.
func (c *Conn) Close() error { return c.nc.Close() }

// Write and Read access the connection directly. They are for callers that pipeline frames created with AppendFrame.
func (c *Conn) Write(b []byte) (int, error) { return c.nc.Write(b) }

// Read reads available data.
func (c *Conn) Read(b []byte) (int, error) { return c.nc.Read(b) }

// SetDeadline sets the deadline of Write and Read.
func (c *Conn) SetDeadline(t time.Time) error { return c.nc.SetDeadline(t) }

// AppendFrame appends a request frame.
func AppendFrame(dst []byte, stream int16, op cqlwire.Opcode, body []byte) []byte {
	dst = append(dst, version, 0, byte(stream>>8), byte(stream), byte(op))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...)
}

// Call sends one request and returns the opcode and body of its response. An ERROR is returned as a *cqlwire.Error.
func (c *Conn) Call(op cqlwire.Opcode, body []byte) (cqlwire.Opcode, []byte, error) {
	return c.call(0, op, body)
}

func (c *Conn) call(flags byte, op cqlwire.Opcode, body []byte) (cqlwire.Opcode, []byte, error) {
	if err := c.nc.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, nil, err
	}
	// If the deadline remained, it would affect a caller that continues with Write and Read.
	defer func() { _ = c.nc.SetDeadline(time.Time{}) }() // a failed connection returns its error on the next use
	c.out = AppendFrame(c.out[:0], 0, op, body)
	c.out[1] = flags
	if _, err := c.nc.Write(c.out); err != nil {
		return 0, nil, err
	}
	var head [cqlwire.HeaderSize]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return 0, nil, err
	}
	h := cqlwire.ParseHeader(head[:])
	if h.Length < 0 || h.Length > responseMax {
		return 0, nil, fmt.Errorf("response of %d bytes exceeds the limit", h.Length)
	}
	answer := make([]byte, h.Length)
	if _, err := io.ReadFull(c.nc, answer); err != nil {
		return 0, nil, err
	}
	prefix, answer, err := cqlwire.SplitPrefix(h.Flags, answer)
	if err != nil {
		return 0, nil, err
	}
	c.Warnings, c.Payload = prefix.Warnings, prefix.Payload
	c.HasTrace, c.TraceID = prefix.HasTrace, prefix.TraceID
	if h.Opcode == cqlwire.OpError {
		e, err := cqlwire.DecodeError(answer, version)
		if err != nil {
			return 0, nil, err
		}
		return h.Opcode, nil, e
	}
	return h.Opcode, answer, nil
}

func (c *Conn) result(flags byte, op cqlwire.Opcode, body []byte) (*cqlwire.Result, error) {
	got, answer, err := c.call(flags, op, body)
	if err != nil {
		return nil, err
	}
	if got != cqlwire.OpResult {
		return nil, fmt.Errorf("unexpected response %v", got)
	}
	return cqlwire.DecodeResult(answer, version)
}

// Query executes a statement without values at consistency level ONE.
func (c *Conn) Query(text string) (*cqlwire.Result, error) {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency = dberr.One
	r, err := c.result(0, cqlwire.OpQuery, q.Append(nil, version))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return r, nil
}

// Run executes a statement with the parameters of q. The server traces it if traced is set.
func (c *Conn) Run(q *cqlwire.Query, traced bool) (*cqlwire.Result, error) {
	flags := byte(0)
	if traced {
		flags = cqlwire.FlagTracing
	}
	return c.result(flags, cqlwire.OpQuery, q.Append(nil, version))
}

// Prepare prepares a statement.
func (c *Conn) Prepare(text string) (*cqlwire.Result, error) {
	p := cqlwire.Prepare{Text: []byte(text)}
	r, err := c.result(0, cqlwire.OpPrepare, p.Append(nil, version))
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", text, err)
	}
	return r, nil
}
