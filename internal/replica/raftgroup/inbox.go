// SPDX-License-Identifier: Apache-2.0

package raftgroup

// Inbox holds everything that has happened since the last Step.
type Inbox struct {
	// Ticks that have passed.
	Ticks int
	// Calls run first, on the loop.
	Calls []func(*Host)
	// What the other steps report.
	Logged    []Logged
	Applied   []Applied
	Installed []Installed
	Shipped   []Shipped
	// Frames of peers, decoded.
	Frames    []Received
	Proposals []Proposal
	Reads     []Read
	// Unreachable are nodes to which frames were dropped.
	Unreachable []NodeID
	// Coarse says that the machine may have been suspended between the instant given to Step and the taking of this
	// inbox: leases are granted by such an instant, which is too early if anything, and none is used.
	Coarse bool
	// asked is set by a Runner: there are questions of followers.
	asked bool
}

// Received is a frame from a peer, decoded; without messages it is the node's heartbeat.
type Received struct {
	From     NodeID
	Messages []Message
	// At is the sender's clock, Echo the last it had heard of this node's; 0 for none.
	At, Echo Instant
	// g is set by Expect.
	g *Group
	// asks says that there are questions of followers.
	asks bool
}

// Frame is to be sent to a peer.
type Frame struct {
	To   NodeID
	Data []byte
}

// Work is to be done after a Step. Frames are sent at once and are valid until the next Step; appends go to the one
// LogWriter and applies to the one Applier, both in order; installs and sends are done in any order, and discards are
// closed.
type Work struct {
	Frames   []Frame
	Appends  []Append
	Applies  []Apply
	Installs []Install
	Sends    []Send
	Discards []SnapshotData
}

// clear empties an inbox and keeps its memory.
func (in *Inbox) clear() {
	in.Ticks, in.asked = 0, false
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

// keptMax is how many elements a list in an inbox may keep memory for.
const keptMax = 16 << 10

func emptied[T any](s []T) []T {
	if cap(s) > keptMax {
		return nil
	}
	clear(s)
	return s[:0]
}
