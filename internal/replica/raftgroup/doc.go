// SPDX-License-Identifier: Apache-2.0

// Package raftgroup drives the Raft groups of a node: it orders proposals, replicates and applies them, answers
// linearizable reads and changes members.
//
//	            Inbox                     Work
//	peers ──► frames ───┐            ┌──► frames ─────────────────────────────► peers
//	clients ► proposals ├─► Host.Step├──► appends ──► LogWriter.Write ─► frames ► peers
//	          reads ────┤   (loop)   ├──► applies ──► Applier.Apply ──► StateMachine
//	          ticks ────┘     ▲      └──► installs, sends ─► Install, Send ─► SnapshotStore
//	                          └── what writer, applier and snapshots report back
//
// The steps - Host.Step, LogWriter.Write, Applier.Apply, Install.Run, Send.Capture - are plain synchronous functions.
// They read no clock, start no goroutine, wait for nothing and range over no map, so that a whole cluster runs as a
// reproducible simulation of one goroutine (test/sim). Runner is the thin part that adds goroutines, ticks and a
// transport.
//
// Guarantees: (G1) a proposal that succeeded is applied on every replica that lives long enough, once, in the order of
// the log; one that failed with ErrUnknown may be; with another error it is not and never will be; (G2) a read that
// succeeded sees every proposal that had succeeded when it began; so does a read under Group.Leased; (G3) a message
// that depends on the log leaves after the log is durable; (G4) the log is truncated behind a sync of the state
// machine; (G5) a proposal with a term is in the log with that term or not at all; (G6) a vote is given, to
// itself as well, only when no lease can rest on this replica's word: an election timeout after it last answered a
// leader, and after a restart, unless the leader's process has said that it has served its last read; (G7) every queue
// has a bound in Options, and reaching it is a *Refused; (G8) a replica that is Fresh has applied all that
// had succeeded so long ago; (G9) a snapshot is stepped when its data are on this node, and what the library does not
// take is closed; (G10) a follower serves a read when it has applied the index that its leader told it: one taken under
// the leader's lease, or confirmed by a quorum, after the read began; and no follower is told of a commit that its
// leader has not applied (ask.go); (G11) a change of members that succeeded is durable in the state of the replica that
// says so.
//
// The package knows nothing of rows, spans or clients. What entries mean is the business of a StateMachine, how their
// bytes survive that of a Log. Start at Host.Step, then pump in group.go, then read.go, ask.go, fate.go, fresh.go and
// snapshot.go.
package raftgroup
