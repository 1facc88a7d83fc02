// SPDX-License-Identifier: Apache-2.0

// Package cql serves CQL clients. It listens, manages connections, and negotiates the version, framing, compression,
// and identity. It passes requests to a Session and sends the responses.
//
// (CQ1) Every request gets exactly one response on its stream, unless the connection ends. Responses may be sent in
// any order. (CQ2) No client can make the server use more resources than the limits in Options allow. The server does
// not read from a client that does not read, and responds with OVERLOADED to a request that exceeds a limit. (CQ3) An
// event reaches the output of each registered connection before the result of the statement that caused the event, if
// the session announces the event first. (CQ4) An idle connection owns one parked goroutine and no buffer.
//
// Each connection has one goroutine. The goroutine waits until its socket is readable, takes a pooled buffer, and
// reads. It then executes all complete requests in the buffer sequentially and synchronously. The responses share an
// output buffer and a single write. A request that the session cannot complete immediately completes later, on another
// goroutine. A flusher then writes its response, and ends when the output is empty. Requests that may take a long time
// run on a bounded worker pool.
//
// The package does not interpret statements. Package cqlwire encodes and decodes the protocol. Start reading at
// Server, and continue with conn.serve. A conn consists of four parts. A frameReader decodes messages, a handshake
// authenticates, an executor tracks requests, and an output sends responses through a socketWriter.
package cql
