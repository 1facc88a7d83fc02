// SPDX-License-Identifier: Apache-2.0

// Package transport connects the nodes of a cluster. It transfers Raft frames, snapshots, and commands between any two
// nodes over net.Conn.
//
//	node A                                                          node B
//	Send ─────────► queue ─► raft connection ─────────────────────► Receive          small, ordered, may be lost
//	SendSnapshot ─► chunks ► a connection for each, rate-limited ─► ReceiveSnapshot  large, checked, resumable
//	Call, Stream ─► queue ─► command connection ◄─────────────────► Serve            responses in any order, deadlines, pages
//
// Each node dials its own connections. Two nodes therefore have at most two connections of each class, except for
// snapshots. All connections arrive at one listener and are distinguished by their first bytes. hello.go describes the
// handshake, and frame.go describes the frames after it.
//
// Guarantees:
//
//   - (TR1) Nothing is exchanged before both sides know that they are different nodes of one cluster and speak a common
//     version. With TLS, both must hold certificates that name their node IDs. With a secret, both must prove that they
//     have it.
//   - (TR2) Frames from one node to another are neither reordered nor duplicated, over all connections.
//   - (TR3) Send never blocks, and no peer delays frames for another peer.
//   - (TR4) The reader of a snapshot returns io.EOF only after exactly the sender's bytes, and SendSnapshot succeeds
//     only if the handler has succeeded.
//   - (TR5) An error of Call states whether the command may have been executed.
//   - (TR6) Every queue has a limit in Options.
//   - (TR7) Close leaves no goroutine.
//   - (TR8) Observer.Departed is caused by the process itself. It comes after all frames that the process sent over the
//     connection and before any frame of its successor.
//
// The package does not depend on Raft or on the meaning of commands. Transport implements the interface of the same
// name in package raftgroup, and its RaftHandler calls Runner.Receive and Runner.ReceiveSnapshot. A node that stops
// first closes the Runner and then calls Depart. Depart notifies the other nodes that this node holds no lease.
//
// A node that joins a cluster calls Identify before it has a Transport. Identify returns the cluster ID of the node at
// an address.
//
// Start reading at Transport.Send, then read link.run in peer.go and session.run in session.go.
package transport
