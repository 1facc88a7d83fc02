// SPDX-License-Identifier: Apache-2.0

// Package remote provides access to a replica on another node. The access has the same methods as partition.Replica.
//
//	Replica.Write ── request ──► transport ──► Server.Serve ──► partition.Replica.Write
//	completion    ◄── response ──────────────────────────────── completion
//	Replica.Read  ◄── page, page, last page ─────────────────── visitor
//
// Guarantees:
//
//   - (RM1) An error arrives as the same value: the same types and sentinels of packages partition and dberr.
//   - (RM2) An error meaning that nothing was done is never returned for a request that may have been executed. A lost
//     connection and a deadline cause partition.ErrUncertain. Only transport.ErrUnreachable and transport.ErrBusy mean
//     that the request did not arrive.
//   - (RM3) Read returns nil only after the other node has confirmed all rows that were passed on.
//   - (RM4) A page has at most PageBytes plus one row, and only a few pages are in flight.
//   - (RM5) No reference to a request is kept after the call returns, and a completion is called once.
//
// The coordinator handles topology, leaders, and retries. Start reading at Replica.Write and Server.Serve. The formats
// on the wire are in wire.go, failure.go, and page.go.
package remote
