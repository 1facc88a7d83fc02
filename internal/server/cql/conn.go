// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// conn is a connection whose goroutine runs serve. Fields without a comment belong to this goroutine.
type conn struct {
	srv *Server
	// number is unique among all connections of the node, including the connections before a restart. since is the
	// time at which the connection was accepted.
	number        uint64
	since         time.Time
	nc            net.Conn // the socket, or TLS on top of the socket
	remote, local netip.AddrPort
	ctx           context.Context
	cancel        context.CancelFunc

	in        frameReader
	delay     socketDelay
	tally     tally
	handshake handshake
	// lastMessage means that the connection ends after the output has been written.
	lastMessage bool

	// exec and out have their own locks.
	exec executor
	out  output

	requests atomic.Int64
	// client is set when the handshake is complete.
	client atomic.Pointer[session.Client]
	// slot is the state for the limits of the server. Server.mu guards it.
	slot     slot
	shutdown shutdown
}

func newConn(s *Server, nc net.Conn, keys Authenticator) *conn {
	c := &conn{srv: s, nc: nc, remote: addrPort(nc.RemoteAddr()), local: addrPort(nc.LocalAddr()), since: time.Now()}
	if s.opts.TLS != nil {
		c.nc = tls.Server(nc, s.opts.TLS)
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.handshake = handshake{opts: &s.opts, nc: c.nc, remote: c.remote, keys: keys}
	c.delay.srv, c.shutdown.srv, c.shutdown.nc = s, s, c.nc
	c.in.init(s, c.nc)
	c.out.init(s, nc, c.nc, c.in.raw, c.cancel)
	c.exec.srv, c.exec.out, c.exec.ctx = s, &c.out, c.ctx
	return c
}

// serve serves the connection until it closes. serve returns the reason, or nil if the client closed the connection.
func (c *conn) serve() error {
	_ = c.nc.SetReadDeadline(time.Now().Add(c.srv.opts.HandshakeTimeout))
	for {
		err := c.fill()
		if clear, ok := errors.AsType[tls.RecordHeaderError](err); ok && clear.Conn != nil {
			c.refuseClear(clear.RecordHeader)
		}
		if err != nil {
			if err = c.timedOut(err); err == nil {
				continue
			}
		}
		if c.in.memory.receiving && errors.Is(err, os.ErrDeadlineExceeded) {
			err = errSlowSender
		}
		var m message
		if errors.Is(err, errNoMemory) && c.in.shed(&m) {
			c.out.overloaded(m.Stream, errNoMemory)
			err = nil
		}
		if err == nil {
			err = c.consume()
		}
		c.finishRead()
		if err == nil && c.lastMessage {
			linger(c.nc)
			err = errLastMessage
		}
		if err != nil {
			c.out.fail(err)
			break
		}
		if c.srv.draining.Load() && !c.shutdown.leave() {
			c.answerAll()
			linger(c.nc)
			c.out.fail(errClosing)
			break
		}
	}
	return c.end()
}

// end releases the resources of the connection after the connection has failed or has been closed. end returns the
// reason.
func (c *conn) end() error {
	c.cancel()
	c.srv.events.remove(c)
	c.out.tasks.Wait()
	c.out.dropParked()
	if c.exec.sess != nil {
		c.exec.sess.Close()
	}
	c.exec.release()
	c.in.release(true)
	reason := c.out.end()
	if errors.Is(reason, io.EOF) {
		return nil
	}
	if errors.Is(reason, ErrSlowClient) {
		c.srv.stats.Slow.Add(1)
	}
	return reason
}

var (
	errLastMessage = errors.New("the client received the reason")
	errSlowSender  = fmt.Errorf("%w: it did not send the rest of a large message", ErrSlowClient)
)

// fill waits for input and reads once.
func (c *conn) fill() error {
	c.delay.pause(c.in.readLeft)
	n, err := c.in.fill()
	if err != nil {
		return err
	}
	if c.in.raw == nil {
		c.delay.waited = time.Duration(c.srv.pressure.processor.Load())
	} else {
		held := c.out.sock.held.Load()
		if held {
			c.out.sock.held.Store(false)
		}
		c.delay.read(n, c.in.readLeft, c.in.slept, held)
	}
	c.srv.stats.Reads.Add(1)
	c.srv.stats.BytesIn.Add(int64(n))
	return nil
}

// consume executes all complete messages in the input. An error ends the connection.
func (c *conn) consume() error {
	var m message
	for !c.lastMessage {
		ok, err := c.in.next(&m)
		if !ok || err != nil {
			return err
		}
		if m.refused == nil {
			c.message(m.Header, m.body)
			continue
		}
		switch {
		case errors.Is(m.refused, errNoMemory):
			c.out.overloaded(m.Stream, errNoMemory)
		default:
			if m.last && m.Version == 0 { // the version is not supported
				c.out.version = 0
			}
			c.out.respondError(m.Stream, m.refused)
			c.lastMessage = m.last
		}
		m = message{}
	}
	return nil
}

// message executes a message or responds to it.
func (c *conn) message(h cqlwire.Header, body []byte) {
	c.tally.count(h.Opcode)
	if c.handshake.phase == expectStartup {
		c.out.version = h.Version // no version has been negotiated, so the response has the requested version
	}
	if err := c.handshake.validate(h, c.out.version); err != nil {
		stream := h.Stream
		if c.handshake.phase == expectStartup {
			stream = 0 // Cassandra also uses stream 0
		}
		c.out.respondError(stream, err)
		return
	}
	if h.Flags&cqlwire.FlagCompressed != 0 && !c.in.segments && len(body) > 0 {
		var err error
		if body, err = c.in.decompress(body); err != nil {
			c.out.respondError(h.Stream, err)
			return
		}
		defer c.in.releasePlain()
	}
	switch h.Opcode {
	case cqlwire.OpStartup:
		c.startup(h, body)
	case cqlwire.OpOptions:
		c.out.respond(h.Stream, cqlwire.OpSupported, func(dst []byte) []byte { return append(dst, c.srv.supported...) })
	case cqlwire.OpAuthResponse:
		c.authResponse(h, body)
	case cqlwire.OpRegister:
		c.register(h, body)
	default:
		c.exec.execute(h, body, c.delay.waited)
	}
}

// finishRead completes the processing of one read. It updates counters, writes output, and returns buffers that the
// connection does not need while it waits.
func (c *conn) finishRead() {
	n := c.tally.flush(&c.srv.stats)
	c.delay.brought = n
	if c.requests.Add(n); c.delay.waited > 0 {
		c.srv.stats.Waited.Add(int64(c.delay.waited) * n)
	}
	c.in.release(false)
	c.exec.release()
	c.out.drain()
}

// refuseClear sends an error to a client that sends unencrypted CQL to a TLS listener. Without the error, the client
// would wait for a response. start holds the first bytes of the client's first message.
func (c *conn) refuseClear(start [5]byte) {
	v := start[0] & 0x7f
	if v < cqlwire.VersionMin || v > cqlwire.VersionMax {
		return // the client does not use CQL
	}
	var w cqlwire.Writer
	stream := int16(binary.BigEndian.Uint16(start[2:]))
	w.Begin(cqlwire.Header{Version: v, Response: true, Stream: stream, Opcode: cqlwire.OpError})
	w.Buf = cqlwire.AppendError(w.Buf, v, dberr.Protocolf("This address requires TLS: connect with TLS"))
	w.End()
	sock := c.out.sock.sock
	_ = sock.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = sock.Write(w.Buf)
	linger(sock)
}

// linger gives a client time to read the last message. If a socket with unread input is closed, the connection is
// reset, and the message is lost.
func linger(nc net.Conn) {
	if t, ok := nc.(interface{ CloseWrite() error }); !ok || t.CloseWrite() != nil {
		return
	}
	_ = nc.SetReadDeadline(time.Now().Add(time.Second))
	var drain [512]byte
	for total := 0; total < 1<<20; {
		n, err := nc.Read(drain[:])
		if err != nil {
			return
		}
		total += n
	}
}

// enter completes the handshake.
func (c *conn) enter() {
	client := c.handshake.applicant
	client.Remote, client.Local, client.Encrypted = c.remote, c.local, c.srv.opts.TLS != nil
	client.Version, client.Account = c.out.version, c.handshake.keys != nil
	c.exec.sess = c.srv.newSession(client)
	c.exec.client, c.exec.claimant = &client, client.Claimant()
	c.client.Store(&client) // storing the client also publishes the session
	c.out.charges.user = c.srv.users.Connect(client.Identity())
	c.handshake.phase, c.in.trusted = ready, true
	c.srv.mu.Lock()
	c.srv.crowd.arrived(c)
	c.srv.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Time{})
}
