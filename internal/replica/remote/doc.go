// SPDX-License-Identifier: Apache-2.0

// Package remote is a replica on another node: what partition.Replica does here, asked for there.
//
//	Replica.Write ── request ──► transport ──► Server.Serve ──► partition.Replica.Write
//	completion    ◄── answer ────────────────────────────────── completion
//	Replica.Read  ◄── page, page, last page ─────────────────── visitor
//
// Guarantees: (RM1) an error arrives as the value it was: the same types and sentinels of partition and dberr; (RM2) an
// error that says that nothing was done is never returned for what may have been done: a lost connection and a deadline
// are partition.ErrUncertain, only transport.ErrUnreachable and transport.ErrBusy mean that the request did not arrive;
// (RM3) Read returns nil only after the other node's word that what was passed on is confirmed; (RM4) a page is as
// large as PageBytes and one row at most, and a few are under way; (RM5) nothing of a request is kept when the call
// returns, and a completion is told once.
//
// The package knows nothing of maps, leaders and retries: those are the coordinator's. Start at Replica.Write and
// Server.Serve; the forms on the wire are in wire.go, failure.go and page.go.
package remote
