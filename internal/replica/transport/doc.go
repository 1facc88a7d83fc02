// SPDX-License-Identifier: Apache-2.0

// Package transport connects the nodes of a cluster. It transfers Raft frames, snapshots, and commands between any two
// nodes over net.Conn.
//
//	node A                                                          node B
//	Send ─────────► queue ─► raft connection ─────────────────────► Receive          small, ordered, may be lost
//	SendSnapshot ─► chunks ► a connection for each, rate-limited ─► ReceiveSnapshot  large, checked, resumable
//	Call, Stream ─► queue ─► command connection ◄─────────────────► Serve            responses in any order, deadlines, pages
//
// Each node dials its own connections. Two nodes therefore have up to two connections of each class, except snapshot
// connections. All connections arrive at one listener, which distinguishes them by their first bytes. hello.go
// describes the handshake, and frame.go describes the frames that follow.
//
// Guarantees:
//
//   - (TR1) Before nodes exchange data, both sides verify that they are different nodes of one cluster and support a
//     common version. With TLS, both nodes must have certificates that contain their node IDs. With a secret, both
//     nodes must prove that they have the secret.
//   - (TR2) Frames from one node to another node are neither reordered nor duplicated, even across connections.
//   - (TR3) Send never blocks, and no peer delays frames for another peer.
//   - (TR4) The reader of a snapshot returns io.EOF only after exactly the sender's bytes, and SendSnapshot succeeds
//     only if the handler has succeeded.
//   - (TR5) An error of Call states whether the command may have been executed.
//   - (TR6) Every queue has a limit in Options.
//   - (TR7) Close returns after all goroutines have ended.
//   - (TR8) Only the departing process itself can cause Observer.Departed. The call follows all frames of this process
//     and precedes all frames of the next process.
//
// The package does not depend on Raft or on the meaning of commands. Transport implements raftgroup.Transport, and
// RaftHandler calls Runner.Receive and Runner.ReceiveSnapshot. To stop, a node first closes the Runner and then calls
// Depart, which notifies the other nodes that this node holds no lease.
//
// A node that joins a cluster calls Identify before it creates a Transport.
//
// Start reading at Transport.Send, then read link.run in peer.go and session.run in session.go.
package transport
