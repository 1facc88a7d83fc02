// SPDX-License-Identifier: Apache-2.0

// Package freeport selects ports for servers that a test starts in other processes.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// portMin and portMax limit the ports. Operating systems assign higher ports to outgoing connections and to
	// listeners that do not specify a port.
	portMin, portMax = 15_000, 30_000
	attempts         = 100
)

// Address returns an address of 127.0.0.1 with a free port. Other processes do not get this port unless they
// explicitly request it.
func Address() (string, error) {
	for range attempts {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(portMin+rand.IntN(portMax-portMin))))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("no free port was found")
}
