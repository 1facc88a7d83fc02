// SPDX-License-Identifier: Apache-2.0

// Package cqlwire is the CQL binary protocol, versions 3 to 5, as a pure codec: bytes to messages and messages to
// bytes, for servers and for clients, without sockets, goroutines or state of its own.
//
// Guarantees: (CW1) whatever the bytes, a decoder returns a message or an error, and never reads beyond its input;
// (CW2) it allocates nothing in proportion to a number in the input before that many bytes are known to be there; (CW3)
// request decoders allocate nothing once their slices have grown: what they return are views over the input; (CW4)
// encoders append to the caller's buffer. It knows nothing of statements, of what values mean, or of the order of
// messages on a connection.
//
// Three layers, one file or two each:
//
//	segment.go, assembler.go   v5: segments with checksums, and envelopes cut over several of them
//	frame.go, writer.go        envelopes (the "frames" of v3 and v4): header, body, compression
//	query.go, batch.go, ...    bodies: requests decoded here, responses appended here; client_*.go are the other direction
//
// Start at Header, Writer and Query. Errors of decoders are *dberr.Protocol and can be sent to the client as they are.
package cqlwire
