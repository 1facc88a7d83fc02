// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"container/list"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// phase is the state of the handshake of a connection.
type phase uint8

const (
	expectStartup phase = iota
	expectAuthResponse
	ready
)

// conn is a connection. Its goroutine runs serve. Fields without a comment belong to that goroutine.
type conn struct {
	srv *Server
	// number is unique among all connections of the node, including those before a restart. since is the time at which
	// the connection was accepted.
	number        uint64
	since         time.Time
	keys          Authenticator // for account clients; nil for clients that log in with a role
	sock          net.Conn      // the socket
	nc            net.Conn      // the connection to read from and write to: sock, or TLS on top of it
	remote, local netip.AddrPort
	encrypted     bool
	ctx           context.Context
	cancel        context.CancelFunc

	// Input. raw is nil if the connection cannot wait for readiness (TLS). Then small receives the first bytes of each
	// read.
	raw     syscall.RawConn
	tryRead func(fd uintptr) bool // the method value, created once, like trySend
	readErr error
	// readN is the number of bytes that the last read returned, and readLeft the number of bytes that it left in the
	// socket.
	readN, readLeft int
	// brought is the number of requests in the last read.
	brought int64
	small   []byte
	in      *buffer // nil unless it holds a part of a message or is in use
	rest    []byte  // a small part of a message that waits for the rest without a buffer
	plain   *buffer // the destination of decompressed messages, nil when idle
	large   cqlwire.Assembler
	skip    int // remaining bytes of a rejected message to skip; in version 5, of payload
	// reservedIn and reservedLarge are the shares of InFlightBytes that in, and large and plain, use.
	reservedIn, reservedLarge int64
	receiving                 bool // such messages have a deadline
	// slept is set if the last read had to wait. waited is the maximum time that its data was in the socket. emptied
	// is the time at which the socket was last empty, or 0 if unknown: all data in the socket arrived later.
	slept           bool
	waited, emptied time.Duration
	// held is set if the client delayed the connection by not reading.
	held atomic.Bool

	tally   tally
	request *request // for synchronous execution, nil when idle

	// Protocol state.
	phase           phase
	version         uint8 // the version of the last message until STARTUP has negotiated one; 0 if it is not supported
	segments        bool
	compression     cqlwire.Compression
	throwOnOverload bool
	lastMessage     bool           // the connection ends after the output has been written
	applicant       session.Client // the client that is logging in
	sess            Session
	claimant        fairshare.Principal
	asker           *usage.UserCounter // nil during the handshake

	// pending is the number of requests that execute asynchronously.
	pending  atomic.Int32
	requests atomic.Int64
	// client is set when the handshake is complete.
	client atomic.Pointer[session.Client]

	// writingSince is the start time of the system call that is writing, in Unix nanoseconds, or 0.
	writingSince atomic.Int64
	// sending is the data that is being written, sent the number of bytes written, and sendErr the error that ended
	// the write. They belong to the goroutine that has set writing.
	trySend func(fd uintptr) bool
	sending []byte
	sent    int
	sendErr error
	// arriving is the entry in the list of connections in their handshake, nil afterward. seen and idle are the state
	// at the last call of endIdle. Server.mu guards them.
	arriving *list.Element
	seen     int64
	idle     int
	// leaving is set when the connection has been notified of Shutdown. Then idleReads is the number of reads since
	// the last request or response that have timed out, and idleUntil the time at which the next read times out.
	leaving   atomic.Bool
	idleReads int
	idleUntil time.Time

	// tasks counts workers and flushers. None is added after closed is set.
	tasks sync.WaitGroup

	mu sync.Mutex
	// mu guards the remaining fields.
	wake      sync.Cond // writing or pending has changed, output has decreased, or closed is set
	waiting   bool
	out       cqlwire.Writer
	outBuffer *buffer                // owns out.Buf, nil when there is no output
	payload   []cqlwire.PayloadEntry // of the last response with a payload
	writing   bool                   // a goroutine is writing and continues until the output is empty
	scheduled bool                   // a flusher has been started and is not running yet
	unsent    int                    // bytes of the buffer that is being written
	counted   int64                  // the output that is counted in Stats.Backlog
	// did is the number of completed requests that are not in Stats yet, and cost the cost of one of them.
	did  int64
	cost ru.Units
	// units are the request units of those requests that are not counted for the user yet, and refused is the number
	// of rejected requests.
	units   ru.Units
	refused uint64
	// oldest and newest are the ends of the list of asynchronous requests.
	oldest, newest *request
	// parked are requests for workers that wait until the client has read more output.
	parked   []*request
	deadline time.Time
	closed   bool
	reason   error
}

func newConn(s *Server, nc net.Conn, keys Authenticator) *conn {
	remote, local := addrPort(nc.RemoteAddr()), addrPort(nc.LocalAddr())
	c := &conn{srv: s, keys: keys, sock: nc, nc: s.encrypt(nc), remote: remote, local: local,
		encrypted: s.opts.TLS != nil, since: time.Now()}
	c.wake.L = &c.mu
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.initRead()
	return c
}

// serve serves the connection until it closes. It returns the reason, or nil if the client closed the connection.
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
		if c.receiving && errors.Is(err, os.ErrDeadlineExceeded) {
			err = errSlowSender
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
			c.fail(err)
			break
		}
		if c.srv.draining.Load() && !c.leave() {
			c.answerAll()
			linger(c.nc)
			c.fail(errClosing)
			break
		}
	}
	c.cancel()
	c.srv.events.remove(c)
	c.tasks.Wait()
	c.dropParked()
	if c.sess != nil {
		c.sess.Close()
	}
	c.releaseInput(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseOutput()
	c.unsent = 0
	c.account()
	if errors.Is(c.reason, io.EOF) {
		return nil
	}
	if errors.Is(c.reason, ErrSlowClient) {
		c.srv.stats.Slow.Add(1)
	}
	return c.reason
}

var (
	errLastMessage = errors.New("the client received the reason")
	errSlowSender  = fmt.Errorf("%w: it did not send the rest of a large message", ErrSlowClient)
)

// finishRead completes the processing of one read: counters, output, and buffers that are not needed while the
// connection waits.
func (c *conn) finishRead() {
	n := c.tally.flush(&c.srv.stats)
	c.brought = n
	if c.requests.Add(n); c.waited > 0 {
		c.srv.stats.Waited.Add(int64(c.waited) * n)
	}
	c.releaseInput(false)
	c.drain()
}

// fail closes the connection. The first reason is kept. It is safe for concurrent use.
func (c *conn) fail(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(reason)
}

func (c *conn) failLocked(reason error) {
	if c.closed {
		return
	}
	c.closed = true
	c.reason = reason
	c.cancel()
	c.wake.Broadcast()
	// Not nc.Close: TLS would write a close notification first, and wait for a client that does not read.
	_ = c.sock.Close()
}

// refuseClear sends an error to a client that speaks unencrypted CQL to a TLS listener. Otherwise the client would
// wait for a response. start is the beginning of its first message.
func (c *conn) refuseClear(start [5]byte) {
	v := start[0] & 0x7f
	if v < cqlwire.VersionMin || v > cqlwire.VersionMax {
		return // not CQL
	}
	var w cqlwire.Writer
	stream := int16(binary.BigEndian.Uint16(start[2:]))
	w.Begin(cqlwire.Header{Version: v, Response: true, Stream: stream, Opcode: cqlwire.OpError})
	w.Buf = cqlwire.AppendError(w.Buf, v, dberr.Protocolf("This address requires TLS: connect with TLS"))
	w.End()
	_ = c.sock.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.sock.Write(w.Buf)
	linger(c.sock)
}

// linger gives a client time to read the last message. Closing a socket with unread input resets the connection, and
// the message would be lost.
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

func (c *conn) info() ClientInfo {
	i := ClientInfo{Requests: c.requests.Load()}
	if client := c.client.Load(); client != nil {
		i.Client, i.Ready, i.Keyspace = *client, true, c.sess.Keyspace()
	} else {
		i.Client = session.Client{Remote: c.remote, Local: c.local, Encrypted: c.encrypted}
	}
	return i
}

// enter completes the handshake.
func (c *conn) enter(client session.Client) {
	client.Remote, client.Local, client.Encrypted, client.Version = c.remote, c.local, c.encrypted, c.version
	client.Account = c.keys != nil
	c.sess = c.srv.newSession(client)
	c.client.Store(&client) // publishes the session as well
	c.claimant = client.Claimant()
	c.asker = c.srv.users.Connect(client.Identity())
	c.phase = ready
	c.srv.mu.Lock()
	c.srv.crowd.arrived(c)
	c.srv.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Time{})
}
