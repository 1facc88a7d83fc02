// SPDX-License-Identifier: Apache-2.0

package raftgroup

// Inbox holds all events since the last Step.
type Inbox struct {
	// Ticks is the number of ticks that have passed.
	Ticks int
	// Calls are called on the loop before other events are processed.
	Calls []func(*Host)
	// These are the reports of the other steps.
	Logged    []Logged
	Applied   []Applied
	Installed []Installed
	Shipped   []Shipped
	// Received holds the decoded frames of peers.
	Frames    []Received
	Proposals []Proposal
	Reads     []Read
	// Unreachable holds the nodes for which frames were dropped.
	Unreachable []NodeID
	// Coarse is set if the machine may have been suspended between the instant passed to Step and the time at which the
	// inbox was taken. The instant may then be too early. Leases may be granted, because a lease then ends earlier, but
	// no lease may be used.
	Coarse bool
	// hasQueries is set by a Runner if followers have sent queries.
	hasQueries bool
}

// Received is a decoded frame from a peer. A frame without messages is a heartbeat of the node.
type Received struct {
	From     NodeID
	Messages []Message
	// At is the sender's clock. Echo is the last value of this node's clock that the sender had received. A value of 0
	// means that the value is unknown.
	At, Echo Instant
	// g is set by Expect.
	g *Group
	// hasQueries reports whether followers have sent queries.
	hasQueries bool
}

// Frame is a frame to be sent to a peer.
type Frame struct {
	To   NodeID
	Data []byte
}

// Work is the work that results from a Step. Frames must be sent immediately and are valid until the next Step. The
// caller must pass appends to the LogWriter and applies to the Applier, both in order. Installs and sends may run in
// any order. The caller must close discards.
type Work struct {
	Frames   []Frame
	Appends  []Append
	Applies  []Apply
	Installs []Install
	Sends    []Send
	Discards []SnapshotData
}

// clear empties an inbox and keeps the memory for reuse.
func (in *Inbox) clear() {
	in.Ticks, in.hasQueries = 0, false
	in.Calls = emptied(in.Calls)
	in.Logged = emptied(in.Logged)
	in.Applied = emptied(in.Applied)
	in.Installed = emptied(in.Installed)
	in.Shipped = emptied(in.Shipped)
	in.Frames = emptied(in.Frames)
	in.Proposals = emptied(in.Proposals)
	in.Reads = emptied(in.Reads)
	in.Unreachable = emptied(in.Unreachable)
}

// keptMax is the maximum capacity of an inbox list whose memory is kept.
const keptMax = 16 << 10

func emptied[T any](s []T) []T {
	if cap(s) > keptMax {
		return nil
	}
	clear(s)
	return s[:0]
}
