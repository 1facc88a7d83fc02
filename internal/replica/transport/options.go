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

// NodeID is the identity of a node.
type NodeID = topology.NodeID

// Self describes this node in every handshake.
type Self struct {
	Cluster ClusterID
	Node    NodeID
	// Address is where other nodes reach this node; they add it to their address books. If it is empty, they keep the
	// known address. It has at most 255 bytes.
	Address string
	// History identifies the node's data directory for Admission.Admit of other nodes. It has at most 1024 bytes. It is
	// empty if they do not check it.
	History string
}

// Peer is a process of another node, as described in its handshake.
type Peer struct {
	Node NodeID
	// Incarnation is a random number drawn by every process.
	Incarnation uint64
	// Address is the address that was dialed, or the address in the handshake.
	Address string
	// History identifies the node's data directory.
	History string
	// Levels are the feature levels that its build supports.
	Levels feature.Range
	// Version is the protocol version chosen by both sides.
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

// Options configure a Transport. The zero value is ready for use.
type Options struct {
	// TLS, if not nil, enables mutual TLS 1.3 for every connection. Certificates and RootCAs are required; ClientCAs is
	// RootCAs if nil. The certificate of a node names it in a URI (see NodeURI); host names are ignored.
	// GetConfigForClient is not used.
	TLS *tls.Config
	// Secret, if not nil, makes both sides of every connection prove first, inside of TLS if enabled, that they have
	// the secret. It has at least SecretMin bytes.
	Secret []byte
	// Admission may reject nodes whose handshake is otherwise valid. Nil means that all of them are admitted.
	Admission Admission
	// Levels are the feature levels that this node's build supports, up to 65535.
	Levels feature.Range

	// FrameBytes bounds one message: a Raft frame, a request, or a page; 64 MiB if 0, at most 1 GiB.
	FrameBytes int
	// QueueBytes bounds the queue for one peer and class; 16 MiB if 0. Messages above half of it have a separate limit:
	// one always fits, and several up to five quarters of FrameBytes.
	QueueBytes int
	// InboundConnections bounds accepted connections; 4096 if 0. Handshakes bounds the connections among them that have
	// not completed their handshake; 64 if 0, a quarter of them from one host.
	InboundConnections int
	Handshakes         int

	// DialTimeout bounds a dial and the handshake after it. HandshakeTimeout bounds an accepted handshake. If 0, they
	// are IdleTimeout and at least 1 s.
	DialTimeout      time.Duration
	HandshakeTimeout time.Duration
	// BackoffMin and BackoffMax are the minimum and maximum delays after failed connection attempts; 20 ms and 2 s if
	// 0. A random part of up to half of a delay is subtracted.
	BackoffMin time.Duration
	BackoffMax time.Duration
	// KeepAlive is the silence after which a side sends a keep-alive. IdleTimeout is the silence after which a
	// connection is closed. They are 1 s and 5 s if 0.
	KeepAlive   time.Duration
	IdleTimeout time.Duration

	// SnapshotRate is the total rate at which this node sends snapshots, in bytes per second; 64 MiB if 0.
	SnapshotRate int64
	// Overloaded reports whether this machine is overloaded: snapshots are then sent at a quarter of the rate. Nil
	// means never.
	Overloaded func() bool
	// SnapshotChunk is the number of bytes in one frame of a snapshot; 256 KiB if 0.
	SnapshotChunk int
	// SnapshotsAtOnce bounds the snapshots that are sent concurrently; further ones wait. SnapshotsInbound bounds the
	// snapshots that are received concurrently; further ones are rejected. They are 2 and 8 if 0.
	SnapshotsAtOnce  int
	SnapshotsInbound int
	// SnapshotBytes bounds the size of a received snapshot; 1 TiB if 0.
	SnapshotBytes int64
	// ResumeTimeout is how long either side keeps an interrupted snapshot; 30 s if 0.
	ResumeTimeout time.Duration

	// CommandsPerPeer bounds the commands in progress to, and from, one peer; 4096 if 0. CommandBytes bounds the bytes
	// of requests in progress from one peer; 64 MiB if 0.
	CommandsPerPeer int
	CommandBytes    int64
	// PagesAhead bounds the pages of a stream that were sent and not yet taken; 4 if 0, at most 255.
	PagesAhead int

	// Observer is notified of connections. It may be nil.
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

// Counters holds totals since the start.
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
