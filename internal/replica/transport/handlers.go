// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
)

// RaftHandler processes incoming Raft frames and snapshots. It must be safe for concurrent use.
type RaftHandler interface {
	// Receive processes a Raft frame and owns it. For each node, calls are made in the order in which from has sent the
	// frames, and not concurrently. Receive must not block. If it returns an error, the connection is closed.
	Receive(from NodeID, frame []byte) error
	// ReceiveSnapshot receives a snapshot of size bytes. It must read to io.EOF, which is returned only if every byte
	// is correct. It must return soon after Read fails. The sender receives nil or the text of the error.
	ReceiveSnapshot(from NodeID, snapshot io.Reader, size int64) error
}

// CommandHandler executes commands of other nodes. It must be safe for concurrent use.
type CommandHandler interface {
	// Serve runs a command on its own goroutine and owns the request. It responds with r, either immediately or later.
	// ctx ends at the deadline, when the caller abandons the command, when the connection is lost, and when r has sent
	// its response.
	Serve(ctx context.Context, from NodeID, request []byte, r Responder)
	// ServeInline may run a command before Serve is called. It runs on the goroutine of its connection, and blocks all
	// other commands from that node. It must take no more than microseconds. If it cannot run the command, it must
	// return false without any effect.
	ServeInline(request []byte, r Responder) bool
}

// Responder sends the response to one command. It is safe for concurrent use. Data that is sent after the end is
// dropped.
type Responder interface {
	// Page sends a part of the response and copies it. It waits until the caller has taken enough of the previous
	// pages. An error means that the caller has abandoned the command, the deadline has passed, the connection is lost,
	// or a single response was requested. The handler should then stop.
	Page(data []byte) error
	// End sends the last or only part of the response and copies it. It does not wait if data has at most 4 KiB.
	End(data []byte) error
	// Fail ends the response with an error. The caller receives the text of the error, up to 1 KiB. ErrBusy arrives as
	// ErrBusy on the caller's node.
	Fail(err error)
}

// Observer is notified of connections and of the ends of processes. Its methods are called on goroutines of the
// transport and must not block.
type Observer interface {
	// Accepted is called when the peer has dialed this node.
	Accepted(p Peer)
	// DialFailed is called for a failed attempt to connect. err wraps a *Refused, syscall.ECONNREFUSED, or another
	// cause. If the peer does not respond, err is a deadline error.
	DialFailed(node NodeID, address string, err error)
	// Refused is called if the connection was refused at the address at which this process last responded. In that
	// case, the process may have ended. However, a firewall that rejects connections, or a proxy whose backend is down,
	// has the same effect although the process is alive.
	Refused(p Peer)
	// Departed is called when the process has announced that it no longer serves requests. The announcement arrives
	// over its connection, after its last frame.
	Departed(p Peer)
	// HandshakeRefused is called when a peer that dialed this node was rejected.
	HandshakeRefused(remote string, err error)
}

// noObserver ignores all notifications.
type noObserver struct{}

func (noObserver) Accepted(Peer)                    {}
func (noObserver) DialFailed(NodeID, string, error) {}
func (noObserver) Refused(Peer)                     {}
func (noObserver) Departed(Peer)                    {}
func (noObserver) HandshakeRefused(string, error)   {}

// Admission decides which nodes may connect. Both sides of a connection call it. It must be safe for concurrent use.
type Admission interface {
	// Admit returns an error for a node that is rejected, for example a removed node. If the error is ErrLevel or
	// ErrCopiedDirectory, it is the reason for the rejection; otherwise, the reason is ErrNotAdmitted.
	Admit(p Peer) error
	// FormerCluster returns the text for a node of another cluster if this node belonged to that cluster before: the
	// data directory of the other node is an earlier state of this node's directory. Otherwise, it returns "". If the
	// text is not empty, the reason is ErrCopiedDirectory instead of ErrCluster.
	FormerCluster(cluster ClusterID, node NodeID) string
}

// admitAll admits all nodes.
type admitAll struct{}

func (admitAll) Admit(Peer) error                       { return nil }
func (admitAll) FormerCluster(ClusterID, NodeID) string { return "" }
