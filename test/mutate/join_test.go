// SPDX-License-Identifier: Apache-2.0

package mutate

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// These constants describe the handshake as documented in package transport.
const (
	introLength = 5 + 2 + 16 + 32
	proofLength = sha256.Size
	helloHead   = 10
)

var (
	joinSecret  = []byte(strings.Repeat("secret ", 6))
	joinCluster = transport.ClusterID{0xc1, 0x05, 0x7e}
	acceptor    = transport.NodeID{0xac}
	outsider    = transport.NodeID{0x57}
)

// handshakes returns the messages that an outsider sends, which are its proof, its intro, and its hello.
func handshakes() (out [][]byte) {
	for _, class := range []transport.Class{'a', transport.Raft, transport.Command, transport.Snapshot} {
		for honest := range byte(4) {
			b := append([]byte{honest}, "ilionp\x01"...)
			b = append(append(b, outsider[:]...), bytes.Repeat([]byte{7}, 32)...)
			out = append(out, append(b, helloOf(class)...))
		}
	}
	return append(out, append([]byte{2}, helloOf('a')...))
}

// helloOf returns the outsider's hello message.
func helloOf(class transport.Class) []byte {
	body := append([]byte{0}, joinCluster[:]...)
	body = append(append(body, outsider[:]...), acceptor[:]...)
	body = append(body, 1, 0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 4)
	body = append(body, "a:70\x03\x00why\x05\x001 2 3"...)
	b := append([]byte("ilion"), byte(class), 1, 1)
	b = append(binary.LittleEndian.AppendUint16(b, uint16(len(body))), body...)
	return sealed(b)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed returns a hello message with its checksum.
func sealed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// outsiderConn is a connection whose other end is an outsider.
type outsiderConn struct {
	net.Conn // the other methods are not used
	in       []byte
	heard    bytes.Buffer
	// next is called with all data received so far when the reader needs more data.
	next func(heard []byte) []byte
	done chan struct{}
}

// Read implements net.Conn.
func (c *outsiderConn) Read(b []byte) (int, error) {
	if len(c.in) == 0 && c.next != nil {
		c.in, c.next = c.next(c.heard.Bytes()), nil
	}
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (c *outsiderConn) Write(b []byte) (int, error) { return c.heard.Write(b) }

// Close implements net.Conn.
func (c *outsiderConn) Close() error {
	select {
	case <-c.done:
	default:
		close(c.done)
	}
	return nil
}

// SetDeadline implements net.Conn.
func (c *outsiderConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (c *outsiderConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (c *outsiderConn) SetWriteDeadline(time.Time) error { return nil }

// RemoteAddr implements net.Conn.
func (c *outsiderConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
}

// chanListener is a listener that receives its connections from the test.
type chanListener chan net.Conn

// Accept implements net.Listener.
func (d chanListener) Accept() (net.Conn, error) {
	if c, ok := <-d; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (d chanListener) Close() error { return nil }

// Addr implements net.Listener.
func (d chanListener) Addr() net.Addr { return &net.TCPAddr{} }

// prove returns the proof that a side of the handshake sends.
func prove(side string, dialler, acceptor []byte) []byte {
	h := hmac.New(sha256.New, joinSecret)
	h.Write([]byte(side + "\x01"))
	for _, part := range [][]byte{dialler[7:23], acceptor[7:23], dialler[23:introLength], acceptor[23:introLength]} {
		h.Write(part)
	}
	return h.Sum(nil)
}

// acceptances counts accepted peers.
type acceptances struct{ n *int }

func (a acceptances) Accepted(transport.Peer)                  { *a.n++ }
func (acceptances) DialFailed(transport.NodeID, string, error) {}
func (acceptances) Refused(transport.Peer)                     {}
func (acceptances) Departed(transport.Peer)                    {}
func (acceptances) HandshakeRefused(remote string, err error)  {}

// discarder discards frames and snapshots, and rejects commands.
type discarder struct{}

func (discarder) Receive(transport.NodeID, []byte) error { return nil }
func (discarder) ReceiveSnapshot(_ transport.NodeID, r io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
func (discarder) Serve(_ context.Context, _ transport.NodeID, _ []byte, r transport.Responder) {
	r.Fail(nil)
}
func (discarder) ServeInline([]byte, transport.Responder) bool { return false }

// shakeHands returns a function that connects an outsider to a node, and lets a joining node contact an outsider. The
// lowest bit of the first input byte determines whether the outsider knows the secret. The next bit determines whether
// its hello message has the correct checksum.
func shakeHands() func([]byte) string {
	accepted := 0
	tr, err := transport.New(transport.Self{Cluster: joinCluster, Node: acceptor}, nil, transport.Options{
		Secret: joinSecret, Observer: acceptances{&accepted}})
	if err != nil {
		return func([]byte) string { return err.Error() }
	}
	in := make(chanListener)
	if err := tr.Start(in, discarder{}, discarder{}); err != nil {
		return func([]byte) string { return err.Error() }
	}
	return func(b []byte) string {
		if len(b) == 0 {
			return ""
		}
		honest, seal := b[0]&1 != 0, b[0]&2 != 0
		intro, rest := b[1:], []byte(nil)
		if len(intro) > introLength {
			intro, rest = intro[:introLength], bytes.Clone(intro[introLength:])
		}
		if n := len(rest) - 4; seal && n > helloHead {
			binary.LittleEndian.PutUint16(rest[8:], uint16(n-helloHead))
			rest = sealed(rest[:n])
		}
		if len(intro) < introLength {
			honest = false
		}
		c := &outsiderConn{in: bytes.Clone(intro), done: make(chan struct{})}
		c.next = func(heard []byte) []byte {
			if honest && len(heard) >= introLength {
				return append(prove("ilion dialler", intro, heard[:introLength]), rest...)
			}
			return rest
		}
		before := accepted
		in <- c
		<-c.done
		if !honest && accepted != before {
			return "a peer without the secret was accepted"
		}
		if !honest && bytes.Contains(c.heard.Bytes(), joinCluster[:]) {
			return "cluster information was disclosed to an outsider"
		}
		return contactOutsider(intro, rest, honest)
	}
}

// contactOutsider lets a joining node contact the outsider.
func contactOutsider(intro, rest []byte, honest bool) string {
	c := &outsiderConn{in: bytes.Clone(intro), done: make(chan struct{})}
	c.next = func(heard []byte) []byte {
		if honest && len(heard) >= introLength {
			return append(prove("ilion acceptor", heard[:introLength], intro), rest...)
		}
		return rest
	}
	cluster, peer, err := transport.Identify(context.Background(), func(context.Context, string) (net.Conn, error) {
		return c, nil
	}, nil, joinSecret, "stranger:1")
	switch {
	case err == nil && !honest:
		return "a node without the secret was trusted"
	case err == nil && (cluster == transport.ClusterID{} || string(peer.Node[:]) != string(intro[7:23])):
		return "a different node than the one that proved the secret was trusted"
	}
	return ""
}
