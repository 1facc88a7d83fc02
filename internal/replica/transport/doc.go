// SPDX-License-Identifier: Apache-2.0

// Package transport connects the nodes of a cluster: raft frames, snapshots and commands between any two of them, over
// net.Conn.
//
//	node A                                                          node B
//	Send ─────────► queue ─► raft connection ─────────────────────► OnFrame     small, ordered, may be lost
//	SendSnapshot ─► chunks ► a connection for each, rate-limited ─► OnSnapshot  large, checked, resumed where it was cut
//	Call, Stream ─► queue ─► command connection ◄─────────────────► OnCommand   answers in any order, deadlines, pages
//
// Each node dials its own connections, so that a pair has at most two of each class but for snapshots. They come in by
// one listener and are told apart by their first bytes: see hello.go for the handshake and frame.go for what follows
// it.
//
// Guarantees:
//
//   - (TR1) Nothing is exchanged before both sides know that they are different nodes of one cluster, speak a common
//     version and, with TLS, hold certificates that name the ids they claim; with a secret, that both have it.
//   - (TR2) Frames of one node to another are neither reordered nor doubled, over all connections.
//   - (TR3) Send never blocks, and no peer delays what is for another.
//   - (TR4) The reader of a snapshot ends in io.EOF only after exactly the bytes of the sender, and SendSnapshot
//     succeeds only if the handler did.
//   - (TR5) An error of Call says whether the command may have been carried out.
//   - (TR6) Every queue has a bound in Options.
//   - (TR7) Close leaves no goroutine.
//   - (TR8) Events.Departed comes from the process itself, after all frames that it sent over the connection and before
//     any of its successor.
//
// The package knows neither raft nor what commands mean. It does not import raftgroup, whose Transport has the same
// methods over its own NodeID; the composition root joins them:
//
//	type raftTransport struct{ *transport.Transport }
//
//	func (t raftTransport) Send(to raftgroup.NodeID, frame []byte) bool {
//		return t.Transport.Send(transport.NodeID(to), frame)
//	}
//	func (t raftTransport) SendSnapshot(to raftgroup.NodeID, head []byte, data io.ReaderAt, size int64) error {
//		return t.Transport.SendSnapshot(transport.NodeID(to), head, data, size)
//	}
//
// with OnFrame calling Runner.Receive and OnSnapshot Runner.ReceiveSnapshot. A node that stops closes the Runner first
// and then calls Depart: the others take that for proof that no lease is left.
//
// A node that is to join asks an address for the id of its cluster with Ask, before it has a Transport.
//
// Start at Transport.Send, then link.run in peer.go and session.run in session.go. Network in memory.go is the twin for
// tests.
package transport
