// SPDX-License-Identifier: Apache-2.0

// Package remote provides access to a replica on another node, with the same methods as partition.Replica.
//
//	Replica.Write ── request ──► transport ──► Server.Serve ──► partition.Replica.Write
//	completion    ◄── response ──────────────────────────────── completion
//	Replica.Read  ◄── page, page, last page ─────────────────── visitor
//
// Guarantees:
//
//   - (RM1) An error of package partition or dberr has the same type and the same value on both nodes.
//   - (RM2) If a request may have been executed, the error never states that the request had no effect. A lost
//     connection and a deadline cause partition.ErrUncertain. Only transport.ErrUnreachable and transport.ErrBusy mean
//     that the request did not arrive.
//   - (RM3) Read returns nil only after the other node has confirmed all rows that the visitor has received.
//   - (RM4) The maximum size of a page is PageBytes plus one row, and only a few pages are in flight.
//   - (RM5) A call does not retain its request, and calls its completion once.
//
// The coordinator handles topology, leaders, and retries. Start reading at Replica.Write and Server.Serve. wire.go,
// failure.go, and page.go define the wire formats.
package remote
