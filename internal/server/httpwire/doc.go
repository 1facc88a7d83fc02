// SPDX-License-Identifier: Apache-2.0

// Package httpwire is HTTP/1.1 as a server needs it, as a pure codec: heads of requests are found and taken apart,
// bodies in chunks put together, heads of answers made. It knows nothing of connections.
//
// Guarantees: (H1) where a request ends is certain: a head with lines that end otherwise than with CR LF, with both
// Content-Length and Transfer-Encoding, with either twice, with a length that is no number, or with white space where a
// proxy and a server might see two names, is refused and not repaired; (H2) what is parsed is a copy, not a view over
// the input; (H3) no value of an answer's header can begin a line of its own. Start at End and Request.Parse.
package httpwire
