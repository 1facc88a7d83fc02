// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// NodeID is the ID of a node.
type NodeID = topology.NodeID

// Self describes this node in every handshake.
type Self struct {
	Cluster ClusterID
	Node    NodeID
	// Address is the address at which other nodes reach this node. The other nodes add it to their address books. If
	// Address is empty, the other nodes keep the known address. The maximum length is 255 bytes.
	Address string
	// History identifies the node's data directory. Other nodes pass it to Admission.Admit. The maximum length is 1024
	// bytes.
	History string
}

// Peer is a process of another node, as described in its handshake.
type Peer struct {
	Node NodeID
	// Incarnation is a random number that each process generates at its start.
	Incarnation uint64
	// Address is the dialed address, or the address in the handshake.
	Address string
	// History identifies the node's data directory.
	History string
	// Levels are the feature levels that the build of the process supports.
	Levels feature.Range
	// Version is the negotiated protocol version.
	Version uint8
}

// Dial opens a connection. It must return soon after its context has ended. An error that wraps syscall.ECONNREFUSED
// means that no process listens at the address.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// DialTCP is a Dial for TCP.
func DialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// Load is the load of this machine.
type Load interface{ Overloaded() bool }

// Options configure a Transport. The zero value is ready for use.
type Options struct {
	// TLS enables mutual TLS 1.3 for every connection if it is not nil. Certificates and RootCAs are required. The
	// default of ClientCAs is RootCAs. The certificate of a node contains a URI with the node ID (see NodeURI). The
	// transport ignores host names and GetConfigForClient.
	TLS *tls.Config
	// Secret is a shared secret of at least SecretMin bytes, or nil. If Secret is not nil, both sides of every
	// connection must first prove that they have the secret. With TLS, the proofs are sent over the TLS connection.
	Secret []byte
	// Admission may reject nodes whose handshake is otherwise valid. If Admission is nil, all these nodes are admitted.
	Admission Admission
	// Levels are the feature levels that this node's build supports. The maximum is 65535.
	Levels feature.Range

	// FrameBytes is the maximum size of one message, which is a Raft frame, a request, or a page. The default is 64
	// MiB, and the maximum is 1 GiB.
	FrameBytes int
	// QueueBytes is the maximum size of the queue for one peer and class. The default is 16 MiB. Messages larger than
	// half of QueueBytes have a separate limit of five quarters of FrameBytes, which always has room for one message.
	QueueBytes int
	// InboundConnections is the maximum number of accepted connections. The default is 4096. Handshakes is the maximum
	// number of accepted connections that have not completed their handshake. The default is 64. The limit for one host
	// is a quarter of Handshakes.
	InboundConnections int
	Handshakes         int

	// DialTimeout is the time limit for dialing and the subsequent handshake. HandshakeTimeout is the time limit for an
	// accepted handshake. The defaults are the maximum of IdleTimeout and 1 s.
	DialTimeout      time.Duration
	HandshakeTimeout time.Duration
	// BackoffMin and BackoffMax are the minimum and maximum delays after failed connection attempts. The defaults are
	// 20 ms and 2 s. The transport subtracts a random part of up to half of the delay.
	BackoffMin time.Duration
	BackoffMax time.Duration
	// KeepAlive is the time without frames after which a side sends a keep-alive. IdleTimeout is the time without
	// frames after which a connection is closed. The defaults are 1 s and 5 s.
	KeepAlive   time.Duration
	IdleTimeout time.Duration

	// SnapshotRate is the total rate at which this node sends snapshots, in bytes per second. The default is 64 MiB.
	SnapshotRate int64
	// Load reports whether this machine is overloaded. While the machine is overloaded, snapshots are sent at a quarter
	// of the rate. If Load is nil, the rate is never reduced.
	Load Load
	// SnapshotChunk is the number of bytes in one frame of a snapshot. The default is 256 KiB.
	SnapshotChunk int
	// SnapshotsAtOnce is the maximum number of snapshots that are sent concurrently. Additional snapshots wait.
	// SnapshotsInbound is the maximum number of snapshots that are received concurrently. Additional snapshots are
	// rejected. The defaults are 2 and 8.
	SnapshotsAtOnce  int
	SnapshotsInbound int
	// SnapshotBytes is the maximum size of a received snapshot. The default is 1 TiB.
	SnapshotBytes int64
	// ResumeTimeout is the time for which both sides keep an interrupted snapshot. The default is 30 s.
	ResumeTimeout time.Duration

	// CommandsPerPeer is the maximum number of commands in progress to one peer and the maximum number of commands in
	// progress from one peer. The default is 4096. CommandBytes is the maximum size of requests in progress from one
	// peer. The default is 64 MiB.
	CommandsPerPeer int
	CommandBytes    int64
	// PagesAhead is the maximum number of pages of a stream that have been sent but not yet read. The default is 4, and
	// the maximum is 255.
	PagesAhead int

	// Observer receives events of connections. It may be nil.
	Observer Observer
}

func (o Options) withDefaults() Options {
	setDefault(&o.FrameBytes, 64<<20)
	o.FrameBytes = min(o.FrameBytes, 1<<30)
	setDefault(&o.QueueBytes, 16<<20)
	setDefault(&o.InboundConnections, 4096)
	setDefault(&o.Handshakes, 64)
	setDefault(&o.BackoffMin, 20*time.Millisecond)
	setDefault(&o.BackoffMax, 2*time.Second)
	if o.Admission == nil {
		o.Admission = admitAll{}
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	setDefault(&o.KeepAlive, time.Second)
	setDefault(&o.IdleTimeout, 5*time.Second)
	setDefault(&o.DialTimeout, max(time.Second, o.IdleTimeout))
	setDefault(&o.HandshakeTimeout, max(time.Second, o.IdleTimeout))
	setDefault(&o.SnapshotRate, 64<<20)
	setDefault(&o.SnapshotChunk, 256<<10)
	o.SnapshotChunk = min(o.SnapshotChunk, o.FrameBytes)
	setDefault(&o.SnapshotsAtOnce, 2)
	setDefault(&o.SnapshotsInbound, 8)
	setDefault(&o.SnapshotBytes, 1<<40)
	setDefault(&o.ResumeTimeout, 30*time.Second)
	setDefault(&o.CommandsPerPeer, 4096)
	setDefault(&o.CommandBytes, 64<<20)
	setDefault(&o.PagesAhead, 4)
	o.PagesAhead = min(o.PagesAhead, 255)
	return o
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Counters holds totals since the start of the transport.
type Counters struct {
	FramesSent, FramesDropped        uint64
	BytesSent, BytesReceived, Writes uint64
	Dials, HandshakesRefused         uint64
	SnapshotsSent, SnapshotsReceived uint64
	SnapshotsResumed                 uint64
	SnapshotBytesSent                uint64
	CommandsServed                   uint64
}

type counters struct {
	framesSent, framesDropped        atomic.Uint64
	bytesSent, bytesReceived, writes atomic.Uint64
	dials, handshakesRefused         atomic.Uint64
	snapshotsSent, snapshotsReceived atomic.Uint64
	snapshotsResumed                 atomic.Uint64
	snapshotBytesSent                atomic.Uint64
	commandsServed                   atomic.Uint64
}

// Counters returns the counters.
func (t *Transport) Counters() Counters {
	c := &t.counters
	return Counters{
		FramesSent: c.framesSent.Load(), FramesDropped: c.framesDropped.Load(), BytesSent: c.bytesSent.Load(),
		BytesReceived: c.bytesReceived.Load(), Writes: c.writes.Load(), Dials: c.dials.Load(),
		HandshakesRefused: c.handshakesRefused.Load(), SnapshotsSent: c.snapshotsSent.Load(),
		SnapshotsReceived: c.snapshotsReceived.Load(), SnapshotsResumed: c.snapshotsResumed.Load(),
		SnapshotBytesSent: c.snapshotBytesSent.Load(), CommandsServed: c.commandsServed.Load(),
	}
}
