// SPDX-License-Identifier: Apache-2.0

package cqlwire

import "net/netip"

// These are the event types that REGISTER accepts.
const (
	TopologyChange    = "TOPOLOGY_CHANGE"
	StatusChange      = "STATUS_CHANGE"
	SchemaChangeEvent = "SCHEMA_CHANGE"
)

// EventStream is the stream number of events.
const EventStream = -1

// AppendSchemaEvent appends the body of an EVENT for a schema change.
func AppendSchemaEvent(dst []byte, version uint8, c *SchemaChange) []byte {
	return appendSchemaChange(appendString(dst, SchemaChangeEvent), version, c)
}

// AppendNodeEvent appends the body of an EVENT for a node. kind is TopologyChange or StatusChange. change is NEW_NODE
// or REMOVED_NODE for TopologyChange, and UP or DOWN for StatusChange.
func AppendNodeEvent(dst []byte, kind, change string, node netip.AddrPort) []byte {
	dst = appendString(dst, kind)
	dst = appendString(dst, change)
	dst = appendInet(dst, node.Addr())
	return appendI32(dst, int32(node.Port()))
}

// appendInet appends an [inetaddr]. An invalid address is encoded as 0.0.0.0.
func appendInet(dst []byte, a netip.Addr) []byte {
	a = a.Unmap()
	if a.Is6() {
		b := a.As16()
		return append(append(dst, 16), b[:]...)
	}
	var b [4]byte
	if a.Is4() {
		b = a.As4()
	}
	return append(append(dst, 4), b[:]...)
}
