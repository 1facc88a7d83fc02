// SPDX-License-Identifier: Apache-2.0

// Package httpguard wraps the listener of an http.Server. It limits the number of connections, in total and per
// address, and passes only requests whose framing package httpwire accepts.
//
// Guarantees: (HG1) Package httpwire determines where a request ends. net/http never receives a byte that httpwire
// attributes to another request or rejects. (HG2) A connection without a request in flight is closed to make room for a
// new connection. Idle connections therefore cannot block new connections. (HG3) The number of connections from one
// address cannot exceed the limit per address. Start reading at Listen.
package httpguard
