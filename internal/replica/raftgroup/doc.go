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
// Guarantees:
//
//   - (RG1) A proposal that succeeded is applied once on every replica that lives long enough, in the order of the log.
//     One that failed with ErrUnknown may be; with any other error it is not and never will be.
//   - (RG2) A read that succeeded, and one under Group.Leased, sees every proposal that had succeeded when it began.
//   - (RG3) A message that depends on the log leaves after the log is durable.
//   - (RG4) The log is truncated after a sync of the state machine.
//   - (RG5) A proposal with a term is in the log with that term or not at all.
//   - (RG6) A replica votes, for itself as well, only when no lease can rest on its promise: an election timeout after
//     it last answered a leader, and after the process started, unless the leader's own process has said that it has
//     served its last read.
//   - (RG7) Every queue has a bound in Options, and reaching it is a *Refused.
//   - (RG8) A replica that is Fresh has applied everything that had succeeded the given time ago.
//   - (RG9) A snapshot is stepped when its data are on this node; the data of one that the library ignores are closed.
//   - (RG10) A follower serves a read once it has applied an index that its leader took, under its lease or confirmed by
//     a quorum, after the read began; and no follower hears of a commit that its leader has not applied (ask.go,
//     news.go).
//   - (RG11) A change of members that succeeded is durable in the state of the replica that reports it.
//   - (RG12) A replica whose log holds a change of members knows, also after a crash, that every earlier change in that
//     log is committed: the commit index is written with the change. So a replica that has applied an older
//     configuration does not campaign by it, except by the one just before the last change in its log.
//   - (RG13) A node that abstains leaves a group to others only while another voter can lead it; see abstain.go. An
//     offer of leadership is answered or withdrawn, and proposals are taken between two offers (handover.go).
//
// The package knows nothing of rows, spans or clients. What entries mean is the business of a StateMachine, how their
// bytes survive that of a Log.
//
// Start at Host.Step, then Host.pump. Each part of a group has a file: flights (fate.go), reads (read.go, ask.go),
// lease and promise, news of commits, freshness (fresh.go), the log's tail, applying, snapshots, offers of leadership
// (handover.go). Those of the node are peers, gathering and elections; library.go is the seam to the library.
package raftgroup
