// SPDX-License-Identifier: Apache-2.0

// Package httpwire is a codec for the parts of HTTP/1.1 that a server needs. It finds and parses the heads of
// requests, decodes chunked bodies, and encodes the heads of responses. It does not handle connections.
//
// Guarantees: (H1) The end of a request is unambiguous. A malformed head is rejected and never repaired. Malformed
// heads include lines that do not end with CR LF, a head with both Content-Length and Transfer-Encoding, a repeated
// Content-Length or Transfer-Encoding, and a length that is not a number. They also include white space that proxies
// and servers interpret differently. (H2) Parsed values are copies that do not refer to the input. (H3) The value of a
// response header cannot start a line. Start reading at End and at Request.Parse.
package httpwire
