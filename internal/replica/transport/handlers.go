// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
)

// RaftHandler processes incoming Raft frames and snapshots. Implementations must be safe for concurrent use.
type RaftHandler interface {
	// Receive processes a Raft frame and owns it. The transport calls Receive in the order in which from has sent the
	// frames, and never concurrently for one node. Receive must not block. If it returns an error, the transport closes
	// the connection.
	Receive(from NodeID, frame []byte) error
	// ReceiveSnapshot receives a snapshot of size bytes. It must read to io.EOF. The snapshot returns io.EOF only if
	// every byte is correct. ReceiveSnapshot must return soon after Read fails. The sender receives nil or the text of
	// the error.
	ReceiveSnapshot(from NodeID, snapshot io.Reader, size int64) error
}

// CommandHandler executes commands of other nodes. Implementations must be safe for concurrent use.
type CommandHandler interface {
	// Serve runs a command on a separate goroutine and owns the request. It responds with r, either immediately or
	// later. ctx ends at the deadline, when the caller abandons the command, when the connection is lost, or when r has
	// sent the response.
	Serve(ctx context.Context, from NodeID, request []byte, r Responder)
	// ServeInline runs a command on the goroutine of the connection, and blocks all other commands from the same node.
	// It must return within microseconds. If it cannot run the command, it must return false without any effect, and
	// the transport calls Serve.
	ServeInline(request []byte, r Responder) bool
}

// Responder sends the response to one command. It is safe for concurrent use. It drops data that is sent after the end.
type Responder interface {
	// Page copies and sends a part of the response. It waits until the caller has received enough of the previous
	// pages. It returns an error if the caller has abandoned the command, the deadline has passed, the connection is
	// lost, or the caller has requested a single response. The handler should then stop.
	Page(data []byte) error
	// End copies and sends the last or only part of the response. It does not wait if data has up to 4 KiB.
	End(data []byte) error
	// Fail ends the response with an error. The caller receives up to 1 KiB of the text of the error. If err is
	// ErrBusy, the caller receives ErrBusy.
	Fail(err error)
}

// Observer receives events of connections and processes. The methods are called on goroutines of the transport and must
// not block.
type Observer interface {
	// Accepted is called when a peer has connected to this node.
	Accepted(p Peer)
	// DialFailed is called after a failed connection attempt. err wraps a *Refused, syscall.ECONNREFUSED, or another
	// cause. If the peer does not respond, err is a deadline error.
	DialFailed(node NodeID, address string, err error)
	// Refused is called if a connection is refused at the address at which the process p last responded. The process
	// may have ended, but a firewall or a proxy can also refuse connections while the process is alive.
	Refused(p Peer)
	// Departed is called when a process has announced that it no longer serves requests. The announcement arrives after
	// the last frame of the process.
	Departed(p Peer)
	// HandshakeRefused is called when this node has rejected a peer's handshake.
	HandshakeRefused(remote string, err error)
}

// noObserver ignores all notifications.
type noObserver struct{}

func (noObserver) Accepted(Peer)                    {}
func (noObserver) DialFailed(NodeID, string, error) {}
func (noObserver) Refused(Peer)                     {}
func (noObserver) Departed(Peer)                    {}
func (noObserver) HandshakeRefused(string, error)   {}

// Admission decides which nodes may connect. Both sides of a connection call Admission. Implementations must be safe
// for concurrent use.
type Admission interface {
	// Admit returns an error to reject a node, for example a removed node. If the error is ErrLevel or
	// ErrCopiedDirectory, the error is the reason for the rejection. Otherwise, the reason is ErrNotAdmitted.
	Admit(p Peer) error
	// FormerCluster returns a text for a node of another cluster if the data directory of this node belonged to this
	// cluster before. Otherwise, it returns an empty string. If the text is not empty, the reason for the rejection is
	// ErrCopiedDirectory instead of ErrCluster.
	FormerCluster(cluster ClusterID, node NodeID) string
}

// admitAll admits all nodes.
type admitAll struct{}

func (admitAll) Admit(Peer) error                       { return nil }
func (admitAll) FormerCluster(ClusterID, NodeID) string { return "" }
