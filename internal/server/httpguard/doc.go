// SPDX-License-Identifier: Apache-2.0

// Package httpguard wraps the listener of an http.Server. The wrapper limits the number of connections, in total and
// per address. It passes only requests whose framing package httpwire accepts.
//
// Guarantees: (HG1) Package httpwire determines the end of a request. net/http never receives a byte that httpwire
// rejects or attributes to another request. (HG2) A connection without a request in flight is closed to make room for
// a new connection. Therefore, idle connections cannot block new connections. (HG3) The number of connections from one
// address cannot exceed the limit per address. Start reading at Listen.
package httpguard
