// SPDX-License-Identifier: Apache-2.0

// Package rpc holds the registry of the calls between nodes. Every call is declared once, with its types, its limits,
// and the feature level from which nodes support it:
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
// A call with Spec.Manual, such as a read or a write of a replica, is encoded by the package that declares it. Its
// handler receives the bytes of the request. The registry adds no copy and no allocation to such a call.
//
// An error of package dberr that consists only of a message arrives as the same type. Other errors arrive as a
// transport.RemoteError with their text. UnknownCallError means that the other node runs a version that does not
// support the call.
//
// Raft messages and snapshots are streams without responses. They are not calls. Package transport implements them.
//
// The table in docs/dev/calls.md is generated from the registry. Start reading at Declare.
package rpc
