// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"net/netip"
	"strconv"
)

// parseInet reads an IPv4 or IPv6 address; IPv4 inside IPv6 becomes IPv4, as in Java. Host names are not resolved.
func parseInet(s string) ([]byte, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return nil, false
	}
	return addr.Unmap().AsSlice(), true
}

// appendInet writes an address as java.net.InetAddress.getHostAddress does: IPv6 in eight groups, never shortened.
func appendInet(dst, wire []byte) []byte {
	switch len(wire) {
	case 4:
		for i, b := range wire {
			if i > 0 {
				dst = append(dst, '.')
			}
			dst = strconv.AppendUint(dst, uint64(b), 10)
		}
	case 16:
		for i := 0; i < 16; i += 2 {
			if i > 0 {
				dst = append(dst, ':')
			}
			dst = strconv.AppendUint(dst, uint64(wire[i])<<8|uint64(wire[i+1]), 16)
		}
	}
	return dst
}
