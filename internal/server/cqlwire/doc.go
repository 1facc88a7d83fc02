// SPDX-License-Identifier: Apache-2.0

// Package cqlwire is a codec for versions 3 to 5 of the CQL binary protocol. The package converts between bytes and
// messages for servers and clients. It has no sockets, goroutines, or state.
//
// Guarantees: (CW1) For any input, a decoder returns a message or an error, and never reads beyond its input. (CW2)
// Before a decoder allocates memory in proportion to a number in the input, it checks that the input contains that
// number of bytes. (CW3) Request decoders do not allocate once their slices have grown. Their results refer to the
// input. (CW4) Encoders append to the caller's buffer. The package does not interpret statements or values, and does
// not check the order of messages on a connection.
//
// The package has three layers, with one or more files each:
//
//	segment.go, assembler.go   v5: segments with checksums, and envelopes cut over several of them
//	frame.go, writer.go        envelopes (the "frames" of v3 and v4): header, body, compression
//	query.go, batch.go, ...    bodies: requests decoded here, responses appended here; client_*.go are the other direction
//
// Start reading at Header, Writer, and Query. Errors of decoders are of the type *dberr.Protocol and can be sent to
// clients.
package cqlwire
