// SPDX-License-Identifier: Apache-2.0

// Package rpc holds the registry of the calls between nodes. Every call is declared once, with its types, its limits,
// and the minimum feature level:
//
//	var StatsCall = rpc.Declare[rpc.None, NodeStats](rpc.Spec{Name: "stats", Number: 71, ...})
//
//	caller   StatsCall.Do(ctx, client, node, rpc.None{})
//	server   rpc.Handle(server, StatsCall, func(ctx, from, rpc.None) (NodeStats, error) { ... })
//
// A request on the wire is the number of the call, followed by the encoded request. Calls without a number share the
// number 73, which is followed by the name of the call and a zero byte. A type that implements encoding.BinaryAppender
// and encoding.BinaryUnmarshaler defines its own encoding. Other types are encoded as JSON.
//
// If Spec.Manual is set, the package that declares the call defines the encoding, and the handler receives the bytes of
// the request. The registry adds no copy and no allocation to a manual call.
//
// The caller receives an error of package dberr that consists only of a message as the same type. It receives all other
// errors as a transport.RemoteError.
//
// Raft messages and snapshots are not calls. Package transport implements them.
//
// The table in docs/dev/calls.md is generated from the registry. Start reading at Declare.
package rpc
