// SPDX-License-Identifier: Apache-2.0

// Package httpguard stands between a listener and an http.Server: it bounds connections, in all and of each address,
// and passes on only requests whose framing package httpwire accepts.
//
// Guarantees: (HG1) where a request ends is decided by package httpwire: net/http never sees a byte that httpwire takes
// for another request or refuses; (HG2) a connection without a request under way gives its place to a new one, so idle
// connections keep nobody out; (HG3) the connections of one address take no more than the places of an address. Start
// at Listen.
package httpguard
