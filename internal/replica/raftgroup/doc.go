// SPDX-License-Identifier: Apache-2.0

// Package raftgroup implements the Raft groups of a node. It orders proposals, replicates and applies them, serves
// linearizable reads, and changes members.
//
//	            Inbox                     Work
//	peers ──► frames ───┐            ┌──► frames ─────────────────────────────► peers
//	clients ► proposals ├─► Host.Step├──► appends ──► LogWriter.Write ─► frames ► peers
//	          reads ────┤   (loop)   ├──► applies ──► Applier.Apply ──► StateMachine
//	          ticks ────┘     ▲      └──► installs, sends ─► Install, Send ─► SnapshotStore
//	                          └── reports of the writer, the applier and snapshots
//
// The steps are synchronous functions: Host.Step, LogWriter.Write, Applier.Apply, Install.Run, and Send.Capture. They
// read no clock, start no goroutine, do not block, and do not range over maps. A whole cluster can therefore run as a
// reproducible simulation in one goroutine (test/sim). Runner is the thin layer that adds goroutines, ticks, and a
// transport.
//
// Guarantees:
//
//   - (RG1) A proposal that succeeded is applied once on every replica that survives long enough, in log order. A
//     proposal that failed with ErrUnknown may be applied. A proposal that failed with any other error is never
//     applied.
//   - (RG2) A read that succeeded, and a read under Group.Leased, sees every proposal that had succeeded when it began.
//   - (RG3) A message that depends on the log is sent after the log is durable.
//   - (RG4) The log is truncated after a sync of the state machine.
//   - (RG5) A proposal with a term is in the log with that term or not at all.
//   - (RG6) A replica votes, for itself or for others, only when no lease can depend on its promise not to vote. This
//     is the case an election timeout after it last answered a leader and after the process started, or when the
//     leader's process has announced that it has served its last read.
//   - (RG7) Every queue has a limit in Options. Reaching it causes a *LimitError.
//   - (RG8) A replica for which Fresh returns true has applied everything that had succeeded before the given duration
//     ago.
//   - (RG9) A snapshot is stepped when its data is on this node. If the library ignores the snapshot, its data is
//     closed.
//   - (RG10) A follower serves a read once it has applied an index that its leader took after the read began, under its
//     lease or confirmed by a quorum. A follower never learns of a commit that its leader has not applied
//     (indexquery.go, commitnotify.go).
//   - (RG11) A membership change that succeeded is durable in the state of the replica that reports it.
//   - (RG12) If the log of a replica contains a membership change, the replica knows, even after a crash, that every
//     earlier change in that log is committed: the commit index is written with the change. A replica that has applied
//     an older configuration therefore does not campaign with it, except with the configuration just before the last
//     change in its log.
//   - (RG13) A node that abstains leaves a group to other nodes only while another voter can lead it; see abstain.go. A
//     leadership offer is answered or withdrawn, and proposals are accepted between two offers (transfer.go).
//
// The package does not depend on rows, spans, or clients. A StateMachine interprets entries, and a Log stores them.
//
// Start reading at Host.Step, then Group.processReady. Each part of a group has its own file. The parts are pending
// proposals (pending.go), reads (read.go, indexquery.go), lease and vote lease, commit notifications, freshness
// (staleness.go), the log tail, applying, snapshots, elections, quiescence, and leadership transfer (transfer.go).
// Peers, batching, and the leadership policy (abstain.go) belong to the node. rawnode.go wraps the Raft library.
package raftgroup
