// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// NodeID is the identity of a node.
type NodeID = topology.NodeID

// Self is what a node says of itself in every handshake.
type Self struct {
	Cluster ClusterID
	Node    NodeID
	// Address is where others reach this node; they put it into their address books. Empty: they keep what they have.
	// At most 255 bytes.
	Address string
	// Lineage is what Options.Admit of others knows the node's data directory by, at most 1024 bytes; empty if they do
	// not ask.
	Lineage string
}

// Peer is a process of another node, as it introduced itself.
type Peer struct {
	Node NodeID
	// Incarnation is drawn anew by every process.
	Incarnation uint64
	// Address is where it was dialled, or where it says it can be.
	Address string
	// Lineage is what it says of its data directory.
	Lineage string
	// Levels are the feature levels that its build understands.
	Levels feature.Range
	// Version is the protocol version both chose.
	Version uint8
}

// Dial opens a connection. It must return soon after its context ended. An error that wraps syscall.ECONNREFUSED says
// that nobody listens there.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// DialTCP is the Dial of the network.
func DialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// Handlers are called with what arrives. All are safe for concurrent use; a nil one refuses.
type Handlers struct {
	// OnFrame takes a raft frame and owns it. It is called in the order in which from sent, never twice at a time for
	// one node, and must not block. An error closes the connection.
	OnFrame func(from NodeID, frame []byte) error
	// OnSnapshot takes a snapshot. It has to read to io.EOF, which comes only if every byte is right, and to return
	// soon when Read fails. The sender hears nil or the text of the error.
	OnSnapshot func(from NodeID, snapshot *SnapshotReader) error
	// OnCommand takes a command on a goroutine of its own and owns the request. It answers with r, at once or later;
	// ctx ends at the deadline, when the caller gave up, when the connection is lost and when r was answered.
	OnCommand func(ctx context.Context, from NodeID, request []byte, r *Responder)
	// Quick, if not nil, may take a command before OnCommand, on the goroutine of its connection, where all other
	// commands of that node wait: it must do no more than takes microseconds, and return false, having done nothing, if
	// there is more to do.
	Quick func(from NodeID, request []byte, r *Responder) bool
}

// Options of a Transport. The zero value is ready for use.
type Options struct {
	// TLS makes every connection mutual TLS 1.3, if not nil: Certificates, RootCAs are needed; ClientCAs is RootCAs if
	// nil. The certificate of a node names it in a URI (see NodeURI); host names are not looked at. GetConfigForClient
	// is not used.
	TLS *tls.Config
	// Secret, if not nil, has every connection, inside of TLS if there is that, begin with a proof of both sides that
	// they have it; at least SecretMin bytes.
	Secret []byte
	// Admit, if not nil, may refuse a node whose handshake is right otherwise: one that was removed, say. It is called
	// on both sides. The reason is ErrNotAdmitted, or ErrLevel if its error is that, or ErrCopy: its data directory is
	// not the one that is known.
	Admit func(Peer) error
	// Former, if not nil, says what a node is told that is in another cluster, if that is what this one was before: its
	// data directory is an earlier state of what is here. "" if not. The reason is ErrCopy then, not ErrCluster.
	Former func(ClusterID, NodeID) string
	// Levels are the feature levels that this node's build understands, up to 65535.
	Levels feature.Range

	// FrameBytes bounds one message: a raft frame, a request, a page; 64 MiB if 0, at most 1 GiB.
	FrameBytes int
	// QueueBytes bounds what waits for one peer and class; 16 MiB if 0. Messages above half of it have room of their
	// own: one passes in any case, several up to five quarters of FrameBytes.
	QueueBytes int
	// InboundConnections bounds accepted connections; 4096 if 0. Handshakes bounds those that are not through their
	// handshake; 64 if 0, a quarter of them from one host.
	InboundConnections int
	Handshakes         int

	// DialTimeout bounds a dial and the handshake that follows, HandshakeTimeout an accepted handshake; if 0,
	// IdleTimeout, and at least 1 s.
	DialTimeout      time.Duration
	HandshakeTimeout time.Duration
	// BackoffMin and BackoffMax are the pauses after the first and after a late failure to connect; 20 ms and 2 s if 0.
	// Up to half of a pause is left out as Jitter says.
	BackoffMin time.Duration
	BackoffMax time.Duration
	// Jitter returns numbers in [0, 1), safe for concurrent use; math/rand/v2 if nil.
	Jitter func() float64
	// KeepAlive is the silence after which a side says that it lives, IdleTimeout that after which a connection is
	// given up; 1 s and 5 s if 0.
	KeepAlive   time.Duration
	IdleTimeout time.Duration

	// SnapshotRate is how fast all snapshots of this node are sent, in bytes per second; 64 MiB if 0.
	SnapshotRate int64
	// Pressed reports whether this machine is asked for more than it does: snapshots are sent at a quarter of the rate
	// then. Nil: never.
	Pressed func() bool
	// SnapshotChunk is the bytes in one frame of a snapshot; 256 KiB if 0.
	SnapshotChunk int
	// SnapshotsAtOnce bounds the snapshots that are sent at a time, further ones wait; SnapshotsInbound those that are
	// received, further ones are refused; 2 and 8 if 0.
	SnapshotsAtOnce  int
	SnapshotsInbound int
	// SnapshotBytes bounds the size of a snapshot that is received; 1 TiB if 0.
	SnapshotBytes int64
	// ResumeTimeout is how long either side keeps a cut-off snapshot; 30 s if 0.
	ResumeTimeout time.Duration

	// CommandsPerPeer bounds the commands under way to, and from, one peer; 4096 if 0. CommandBytes bounds the bytes of
	// the requests from one peer that are under way; 64 MiB if 0.
	CommandsPerPeer int
	CommandBytes    int64
	// PagesAhead bounds the pages of a stream that were sent and not taken yet; 4 if 0, at most 255.
	PagesAhead int

	Events Events
}

func (o Options) withDefaults() Options {
	setDefault(&o.FrameBytes, 64<<20)
	o.FrameBytes = min(o.FrameBytes, 1<<30)
	setDefault(&o.QueueBytes, 16<<20)
	setDefault(&o.InboundConnections, 4096)
	setDefault(&o.Handshakes, 64)
	setDefault(&o.BackoffMin, 20*time.Millisecond)
	setDefault(&o.BackoffMax, 2*time.Second)
	if o.Jitter == nil {
		o.Jitter = rand.Float64
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

// Events are what an owner may want to log or act on. Each may be nil; they are called on the transport's goroutines
// and must not block.
type Events struct {
	// Connected: a connection that this node dialled is ready. Lost: it is over.
	Connected func(p Peer, c Class)
	Lost      func(p Peer, c Class, err error)
	// Accepted: the peer dialled this node.
	Accepted func(p Peer, c Class)
	// DialFailed: no connection; err wraps a *Refused, syscall.ECONNREFUSED, or whatever else it was (silence is a
	// deadline).
	DialFailed func(node NodeID, c Class, address string, err error)
	// Refused: the connection was refused at the very address where this process answered last. It may have ended; but
	// a firewall that rejects instead of dropping, and a proxy without its backend, say the same of a process that
	// lives.
	Refused func(p Peer)
	// Departed: the process said itself, over its connection and after its last frame, that it serves nothing any more.
	Departed func(p Peer)
	// HandshakeRefused: a peer that dialled this node was turned away.
	HandshakeRefused func(remote string, err error)
	// AddressChanged: the peer said that it is somewhere else now.
	AddressChanged func(node NodeID, from, to string)
	// SnapshotSent and SnapshotReceived: it ended; err is nil, or why it failed.
	SnapshotSent     func(to NodeID, size int64, err error)
	SnapshotReceived func(from NodeID, size int64, err error)
	// AcceptFailed: the listener failed for the moment (too many open files).
	AcceptFailed func(err error)
}

// Counters count what happened since the start.
type Counters struct {
	FramesSent, FramesReceived, FramesDropped  uint64
	BytesSent, BytesReceived                   uint64
	Writes                                     uint64
	Dials, DialsFailed, DialsRefused           uint64
	Accepted, HandshakesRefused                uint64
	SnapshotsSent, SnapshotsReceived           uint64
	SnapshotsFailed, SnapshotsResumed          uint64
	SnapshotBytesSent                          uint64
	CommandsSent, CommandsServed, CommandsBusy uint64
}

type counters struct {
	framesSent, framesReceived, framesDropped  atomic.Uint64
	bytesSent, bytesReceived                   atomic.Uint64
	writes                                     atomic.Uint64
	dials, dialsFailed, dialsRefused           atomic.Uint64
	accepted, handshakesRefused                atomic.Uint64
	snapshotsSent, snapshotsReceived           atomic.Uint64
	snapshotsFailed, snapshotsResumed          atomic.Uint64
	snapshotBytesSent                          atomic.Uint64
	commandsSent, commandsServed, commandsBusy atomic.Uint64
}

// Counters returns the counts.
func (t *Transport) Counters() Counters {
	c := &t.counters
	return Counters{
		FramesSent: c.framesSent.Load(), FramesReceived: c.framesReceived.Load(), FramesDropped: c.framesDropped.Load(),
		BytesSent: c.bytesSent.Load(), BytesReceived: c.bytesReceived.Load(), Writes: c.writes.Load(),
		Dials: c.dials.Load(), DialsFailed: c.dialsFailed.Load(), DialsRefused: c.dialsRefused.Load(),
		Accepted: c.accepted.Load(), HandshakesRefused: c.handshakesRefused.Load(),
		SnapshotsSent: c.snapshotsSent.Load(), SnapshotsReceived: c.snapshotsReceived.Load(),
		SnapshotsFailed: c.snapshotsFailed.Load(), SnapshotsResumed: c.snapshotsResumed.Load(),
		SnapshotBytesSent: c.snapshotBytesSent.Load(),
		CommandsSent:      c.commandsSent.Load(), CommandsServed: c.commandsServed.Load(),
		CommandsBusy: c.commandsBusy.Load(),
	}
}
