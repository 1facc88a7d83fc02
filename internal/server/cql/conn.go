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
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// phase is where a connection stands in the handshake.
type phase uint8

const (
	expectStartup phase = iota
	expectAuthResponse
	ready
)

// conn is a connection. Its goroutine runs serve; fields without a remark belong to that goroutine.
type conn struct {
	srv *Server
	// number is the connection's own among all of the node, those before a restart included; since is when it began.
	number        uint64
	since         time.Time
	keys          Authenticator // of clients of the account; nil for those of roles
	sock          net.Conn      // the socket
	nc            net.Conn      // what is spoken through: sock, or TLS over it
	remote, local netip.AddrPort
	encrypted     bool
	ctx           context.Context
	cancel        context.CancelFunc

	// Input. raw is nil where readiness cannot be waited for (TLS): then small receives the first bytes of each read.
	raw     syscall.RawConn
	tryRead func(fd uintptr) bool // the method, bound once, as is trySend
	readErr error
	// readN are the bytes that the last read brought, readLeft those that it left in the socket.
	readN, readLeft int
	// brought are the requests that were in it.
	brought int64
	small   []byte
	in      *buffer // nil unless it holds a part of a message or is being worked on
	rest    []byte  // a small part of a message, which waits for more without a buffer
	plain   *buffer // where messages are decompressed to, nil when idle
	large   cqlwire.Assembler
	skip    int // bytes of a refused message still to be dropped; in version 5 of payload
	// reservedIn and reservedLarge are the shares of InFlightBytes that in, and large and plain, have.
	reservedIn, reservedLarge int64
	receiving                 bool // and have a deadline
	// slept is set if the last read had to be waited for; waited is how long what it brought was in the socket at most,
	// emptied when that was last seen to be empty, 0 if unknown: of what is there now nothing came earlier.
	slept           bool
	waited, emptied time.Duration
	// held is set when the client has kept the connection waiting by not reading.
	held atomic.Bool

	tally   tally
	request *request // for execution in place, nil when idle

	// The state of the protocol.
	phase           phase
	version         uint8 // that of the last message until STARTUP has agreed on one; 0 if that is not spoken
	segments        bool
	compression     cqlwire.Compression
	throwOnOverload bool
	lastMessage     bool           // the connection ends after the output is written
	applicant       session.Client // the client that wants to log in
	sess            Session
	claimant        share.Claimant
	asker           *usage.Asker // nil during the handshake

	// pending counts the requests that execute other than in place.
	pending  atomic.Int32
	requests atomic.Int64
	// client is set when the handshake is over.
	client atomic.Pointer[session.Client]

	// writingSince is when the system call that is writing began, in Unix nanoseconds, 0 if there is none.
	writingSince atomic.Int64
	// sending is what is being written, of which sent bytes are, and sendErr why no more was. They belong to whoever
	// has set writing.
	trySend func(fd uintptr) bool
	sending []byte
	sent    int
	sendErr error
	// arriving is the place among those in their handshake, nil afterwards; seen and idle are what endIdle found the
	// last time. Server.mu guards them.
	arriving *list.Element
	seen     int64
	idle     int
	// leaving is set when the connection knows of Shutdown. Then idleReads counts the reads since the last request or
	// answer that have timed out, the next of them at idleUntil.
	leaving   atomic.Bool
	idleReads int
	idleUntil time.Time

	// tasks are workers and flushers; none is added once closed.
	tasks sync.WaitGroup

	mu sync.Mutex
	// The rest is guarded by mu.
	wake      sync.Cond // writing has become false, output or pending have become less, or closed has become true
	waiting   bool
	out       cqlwire.Writer
	outBuffer *buffer                // owns out.Buf, nil when there is no output
	payload   []cqlwire.PayloadEntry // of the last response that had one
	writing   bool                   // somebody writes, and will go on until the output is empty
	scheduled bool                   // a flusher has been started and has not begun
	unsent    int                    // bytes of the buffer that is being written
	counted   int64                  // of the output, in Stats.Backlog
	// did are the requests answered that are not in Stats yet, cost is what one of them costs.
	did  int64
	cost ru.Units
	// units are what those requests cost that are not counted for the user yet, refused how many were too many.
	units   ru.Units
	refused uint64
	// oldest and newest are the ends of the list of requests that are under way other than in place.
	oldest, newest *request
	// parked are requests for workers that wait until the client has read more.
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

// serve runs the connection and returns why it ended, nil if the client hung up.
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
	errLastMessage = errors.New("the client was told why")
	errSlowSender  = fmt.Errorf("%w: it does not send the rest of a large message", ErrSlowClient)
)

// finishRead ends the work on one read: counts, output, and buffers that are not needed while the connection waits.
func (c *conn) finishRead() {
	n := c.tally.flush(&c.srv.stats)
	c.brought = n
	if c.requests.Add(n); c.waited > 0 {
		c.srv.stats.Waited.Add(int64(c.waited) * n)
	}
	c.releaseInput(false)
	c.drain()
}

// fail ends the connection; the first reason counts. It may be called by anybody.
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
	// Not nc.Close: TLS would write a goodbye first, and wait for a client that does not read.
	_ = c.sock.Close()
}

// refuseClear tells a client that speaks CQL in clear at an address for TLS what is wrong: it would wait for an answer,
// or guess. start is how its first message begins.
func (c *conn) refuseClear(start [5]byte) {
	v := start[0] & 0x7f
	if v < cqlwire.VersionMin || v > cqlwire.VersionMax {
		return // it speaks something else
	}
	var w cqlwire.Writer
	stream := int16(binary.BigEndian.Uint16(start[2:]))
	w.Begin(cqlwire.Header{Version: v, Response: true, Stream: stream, Opcode: cqlwire.OpError})
	w.Buf = cqlwire.AppendError(w.Buf, v, dberr.Protocolf("This address takes TLS only: connect with TLS"))
	w.End()
	_ = c.sock.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.sock.Write(w.Buf)
	linger(c.sock)
}

// linger gives a client the time to read a last message: closing a socket with unread input resets it, and the message
// would be lost.
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

// enter ends the handshake.
func (c *conn) enter(client session.Client) {
	client.Remote, client.Local, client.Encrypted, client.Version = c.remote, c.local, c.encrypted, c.version
	client.Account = c.keys != nil
	c.sess = c.srv.newSession(client)
	c.client.Store(&client) // whoever sees it sees the session, too
	c.claimant = client.Claimant()
	c.asker = c.srv.users.Enter(client.Identity())
	c.phase = ready
	c.srv.mu.Lock()
	c.srv.crowd.arrived(c)
	c.srv.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Time{})
}
