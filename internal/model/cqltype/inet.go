// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"net/netip"
	"strconv"
	"strings"
)

// parseInet parses an IPv4 or IPv6 address in the forms that Java accepts. An IPv4-mapped IPv6 address becomes an IPv4
// address. A scope is dropped. Host names are not resolved.
func parseInet(s string) ([]byte, bool) {
	if v4, ok := parseIPv4(s); ok {
		return v4, true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(s, ":") {
			return nil, false
		}
	}
	s, scope, scoped := strings.Cut(s, "%")
	if !strings.Contains(s, ":") || scoped && scope == "" {
		return nil, false
	}
	addr, err := netip.ParseAddr(plainIPv6(s))
	if err != nil {
		return nil, false
	}
	return addr.Unmap().AsSlice(), true
}

// parseIPv4 parses one to four decimal numbers, which may have leading zeros. The last number fills the remaining
// bytes of the address.
func parseIPv4(s string) ([]byte, bool) {
	if len(s) > len("255.255.255.255") {
		return nil, false
	}
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return nil, false
	}
	out := make([]byte, 4)
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 32)
		bytes := 1
		if i == len(parts)-1 {
			bytes = 4 - i
		}
		if err != nil || p[0] == '+' || v >= 1<<(8*bytes) {
			return nil, false
		}
		for j := range bytes {
			out[i+j] = byte(v >> (8 * (bytes - 1 - j)))
		}
	}
	return out, true
}

// plainIPv6 removes leading zeros from the groups of an IPv6 address, because Go accepts at most four digits per group.
func plainIPv6(s string) string {
	groups := strings.Split(s, ":")
	for i, g := range groups {
		if i == len(groups)-1 && strings.Contains(g, ".") {
			if v4, ok := parseIPv4(g); ok && strings.Count(g, ".") == 3 {
				g = netip.AddrFrom4([4]byte(v4)).String()
			}
		} else if short := strings.TrimLeft(g, "0"); len(g) > 4 && len(g) <= 32 {
			g = short + "0"[:1-min(1, len(short))]
		}
		groups[i] = g
	}
	return strings.Join(groups, ":")
}

// appendInet formats an address in the same way as java.net.InetAddress.getHostAddress. IPv6 addresses have eight
// groups and are never shortened.
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
