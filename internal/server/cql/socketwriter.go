// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// writeChunk is the maximum number of bytes that are written under one deadline.
const writeChunk = 256 << 10

// socketWriter writes to the socket of a connection. It limits the time for which the client may block a write, and
// records whether the client has blocked a write. Calls of write must not be concurrent.
type socketWriter struct {
	stats    *Stats
	timeout  time.Duration
	sock     net.Conn // socket of the connection
	nc       net.Conn // sock, or TLS on top of sock
	deadline time.Time
	// raw is nil if the connection cannot wait for readiness (TLS). sending is the data that is being written. sent is
	// the number of written bytes. sendErr is the error that ended the write.
	raw     syscall.RawConn
	trySend func(fd uintptr) bool // a method value that is created once
	sending []byte
	sent    int
	sendErr error
	// since is the start time of the system call in progress, in Unix nanoseconds, or 0.
	since atomic.Int64
	// held is set if the connection was delayed because the client did not read.
	held atomic.Bool
}

func (w *socketWriter) init(s *Server, sock, nc net.Conn, raw syscall.RawConn) {
	w.stats, w.timeout, w.sock, w.nc, w.raw = &s.stats, s.opts.WriteTimeout, sock, nc, raw
	if raw != nil {
		w.trySend = w.trySendFD
	}
}

// write writes data.
func (w *socketWriter) write(data []byte) error {
	for len(data) > 0 {
		now := time.Now()
		if w.deadline.Sub(now) < w.timeout-w.timeout/4 {
			w.deadline = now.Add(w.timeout)
			if err := w.nc.SetWriteDeadline(w.deadline); err != nil {
				return err
			}
		}
		w.since.Store(now.UnixNano())
		n, err := w.send(data[:min(len(data), writeChunk)])
		w.since.Store(0)
		w.stats.Writes.Add(1)
		w.stats.BytesOut.Add(int64(n))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w: it has not read %d bytes of responses for %s", ErrSlowClient, len(data)-n, w.timeout)
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// send writes data and records whether it had to wait for the client.
func (w *socketWriter) send(data []byte) (n int, err error) {
	if w.raw == nil {
		return w.nc.Write(data)
	}
	w.sending, w.sent, w.sendErr = data, 0, nil
	if err = w.raw.Write(w.trySend); err == nil {
		err = w.sendErr
	}
	w.sending = nil
	return w.sent, err
}

// trySendFD is called by the runtime when the socket may be writable.
func (w *socketWriter) trySendFD(fd uintptr) (done bool) {
	for w.sent < len(w.sending) {
		n, again, err := writeFD(fd, w.sending[w.sent:])
		if again {
			w.held.Store(true)
			return false
		}
		if n == 0 && err == nil {
			err = io.ErrUnexpectedEOF
		}
		if w.sent += n; err != nil {
			w.sendErr = err
			break
		}
	}
	return true
}

// stalled reports whether the client has blocked a write for longer than backlogPatience. It is safe for concurrent
// use.
func (w *socketWriter) stalled(now time.Time) bool {
	since := w.since.Load()
	return since != 0 && now.UnixNano()-since > int64(backlogPatience)
}

// close closes the socket. A close of the TLS connection would first write a notification and wait for a client that
// does not read.
func (w *socketWriter) close() { _ = w.sock.Close() }
