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
//   - (RG2) A successful read, and a read under Group.Leased, sees every proposal that had succeeded before the read
//     began.
//   - (RG3) A message that depends on the log is sent after the log is durable.
//   - (RG4) The log is truncated only after a sync of the state machine.
//   - (RG5) A proposal with a term enters the log only in this term.
//   - (RG6) A replica votes only when no lease can depend on its promise not to vote. A lease may depend on the promise
//     for an election timeout after the replica last responded to a leader and after the process started. The promise
//     ends earlier if the leader's process announces that it has served its last read.
//   - (RG7) Every queue has a limit in Options. A request that exceeds a limit fails with a *LimitError.
//   - (RG8) If Fresh returns true, the replica has applied all writes that had succeeded at the given time.
//   - (RG9) A snapshot is stepped only after its data has arrived on this node. If the library ignores the snapshot,
//     the data is closed.
//   - (RG10) A follower serves a read after it has applied the leader's commit index. The leader reads this index after
//     the read began, and holds a lease or contacts a quorum. A follower never learns of a commit that its leader has
//     not applied (indexquery.go, commitnotify.go).
//   - (RG11) A successful membership change is durable in the state of the replica that reports the success.
//   - (RG12) If the log of a replica contains a membership change, the replica knows, even after a crash, that all
//     earlier changes in this log are committed. The commit index is written together with the change. A replica
//     therefore never campaigns with a configuration older than the configuration before the last change in its log.
//   - (RG13) A node that abstains leaves the leadership of a group to other nodes only while another voter can lead the
//     group (abstain.go). Every leadership offer is answered or withdrawn, and the leader accepts proposals between two
//     offers (transfer.go).
//
// The package does not depend on rows, spans, or clients. A StateMachine interprets entries, and a Log stores them.
//
// Start reading at Host.Step, then Group.processReady. Each part of a group has its own file.
package raftgroup
