// SPDX-License-Identifier: Apache-2.0

// Package httpwire is a codec for the parts of HTTP/1.1 that a server needs. It finds and parses the heads of
// requests, decodes chunked bodies, and encodes the heads of responses. It does not handle connections.
//
// Guarantees: (H1) The end of a request is unambiguous. A head is rejected, and not repaired, if its lines do not end
// with CR LF, if it contains both Content-Length and Transfer-Encoding or one of them twice, if a length is not a
// number, or if it contains white space that proxies and servers interpret differently. (H2) Parsed values are copies
// and do not refer to the input. (H3) The value of a response header cannot start a line. Start reading at End and
// Request.Parse.
package httpwire
