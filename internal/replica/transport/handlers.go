// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
)

// RaftHandler processes incoming Raft frames and snapshots. It must be safe for concurrent use.
type RaftHandler interface {
	// Receive processes a Raft frame and owns it. Calls are in the order in which from has sent the frames, and not
	// concurrent for one node. Receive must not block. An error closes the connection.
	Receive(from NodeID, frame []byte) error
	// ReceiveSnapshot receives a snapshot of size bytes. It must read to io.EOF, which is returned only if every byte
	// is correct, and return soon after Read fails. The sender gets nil or the text of the error.
	ReceiveSnapshot(from NodeID, snapshot io.Reader, size int64) error
}

// CommandHandler executes commands of other nodes. It must be safe for concurrent use.
type CommandHandler interface {
	// Serve runs a command on its own goroutine and owns the request. It responds with r, immediately or later. ctx
	// ends at the deadline, when the caller abandons the command, when the connection is lost, and when r has been
	// answered.
	Serve(ctx context.Context, from NodeID, request []byte, r Responder)
	// ServeInline may run a command before Serve, on the goroutine of its connection, which blocks all other commands
	// from that node. It must take no more than microseconds. Otherwise it must return false without having done
	// anything.
	ServeInline(request []byte, r Responder) bool
}

// Responder sends the response to one command. It is safe for concurrent use. Anything sent after the end is dropped.
type Responder interface {
	// Page sends a part of the response and copies it. It waits until the caller has taken enough of the previous
	// pages. An error means that continuing is useless: the caller has abandoned the command, the deadline has passed,
	// the connection is lost, or a single response was requested.
	Page(data []byte) error
	// End sends the last or only part of the response and copies it. It does not wait if data has at most 4 KiB.
	End(data []byte) error
	// Fail ends the response with an error. The caller sees its text, up to 1 KiB. ErrBusy remains ErrBusy.
	Fail(err error)
}

// Observer is notified of connections and of the ends of processes. Its methods are called on goroutines of the
// transport and must not block.
type Observer interface {
	// Accepted is called when the peer has dialed this node.
	Accepted(p Peer)
	// DialFailed is called for a failed attempt to connect. err wraps a *Refused, syscall.ECONNREFUSED, or another
	// cause. Silence causes a deadline error.
	DialFailed(node NodeID, address string, err error)
	// Refused is called if the connection was refused at the address where this process last answered. The process may
	// have ended. However, a rejecting firewall or a proxy without its backend does the same in front of a living
	// process.
	Refused(p Peer)
	// Departed is called when the process has announced, over its connection and after its last frame, that it no
	// longer serves anything.
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
	// ErrCopiedDirectory, that is the reason; otherwise the reason is ErrNotAdmitted.
	Admit(p Peer) error
	// FormerCluster returns the text for a node of another cluster if this node belonged to that cluster before: the
	// data directory of the other node is an earlier state of this one. It returns "" otherwise. The reason is then
	// ErrCopiedDirectory instead of ErrCluster.
	FormerCluster(cluster ClusterID, node NodeID) string
}

// admitAll admits all nodes.
type admitAll struct{}

func (admitAll) Admit(Peer) error                       { return nil }
func (admitAll) FormerCluster(ClusterID, NodeID) string { return "" }
