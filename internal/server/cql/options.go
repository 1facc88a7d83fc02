// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"runtime"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// Options holds the limits and the configuration of a Server. If a field is zero, the default in its comment applies.
type Options struct {
	// Authenticator authenticates clients. If it is nil, all clients are admitted.
	Authenticator Authenticator
	// TLS encrypts connections. If it is nil, connections are not encrypted.
	TLS *tls.Config
	// CQLVersion is the CQL version in SUPPORTED. The default is 3.4.5.
	CQLVersion string
	// Tablets enables tablets-routing-v1. If a client that requests the extension sends a request to the wrong node,
	// it receives the location of the data. Sessions do this for clients with session.Client.Tablets.
	Tablets bool
	// Supported holds additional entries of SUPPORTED.
	Supported []cqlwire.Option

	// ConnectionsMax is the maximum number of connections. The default is 20000. An additional connection receives
	// OVERLOADED and is closed.
	ConnectionsMax int
	// AddressConnectionsMax is the maximum number of connections from one address. The default is half of
	// ConnectionsMax.
	AddressConnectionsMax int
	// ArrivingMax is the maximum number of connections in their handshake. The default is a quarter of ConnectionsMax.
	// Above the maximum, the server closes the connection whose handshake has taken longest.
	ArrivingMax int
	// FrameBytesMax is the maximum size of the body of a response, and of the body of a request before and after
	// decompression. Both the default and the maximum value are 256 MiB.
	FrameBytesMax int
	// ConnectionInFlightMax is the maximum number of asynchronous requests of a connection. The default is 4096. At
	// the limit, the server stops reading from the connection. A client that has requested THROW_ON_OVERLOAD receives
	// OVERLOADED instead.
	ConnectionInFlightMax int
	// InFlightMax is the maximum number of asynchronous requests of all connections. The default is 65536. Requests
	// above the maximum receive OVERLOADED.
	InFlightMax int
	// InFlightBytesMax is the maximum memory that all connections use for requests in flight and for requests larger
	// than a read buffer. The default is 1 GiB. Requests above the maximum receive OVERLOADED.
	InFlightBytesMax int64
	// OutputBytesMax is the maximum output of a connection, in bytes, that the client has not read. The default is 4
	// MiB. Above this limit, the server stops reading from the connection. A client that is registered for events and
	// does not read is disconnected.
	OutputBytesMax int
	// BacklogMax is the maximum output of all connections, in bytes, that the clients have not read. The default is 1
	// GiB. Above this limit, requests wait while clients that do not read are disconnected. If no client can be
	// disconnected, requests receive OVERLOADED.
	BacklogMax int64
	// Workers is the number of goroutines for requests that may take a long time. The default is the larger of 16
	// and 4 per CPU. WorkQueueMax is the maximum number of requests that wait for a worker. The default is 4096.
	// Requests above the maximum receive OVERLOADED.
	Workers, WorkQueueMax int

	// WaitMax is the average queue delay above which requests are rejected. The limit keeps the response times of
	// admitted requests short. The default is 20 ms. A negative value disables the check.
	WaitMax time.Duration
	// LowPriority reports whether a role's requests are rejected first. If it is nil, no role has low priority.
	LowPriority func(role string) bool

	// CertificateRole returns the role of a client's verified certificate. If the role is empty and an Authenticator
	// is set, the client must authenticate with a password. If CertificateRole is nil, certificates are ignored.
	CertificateRole func(from netip.Addr, c *x509.Certificate) (access.Login, error)
	// HandshakeTimeout is the time limit of the handshake. The default is 30 s.
	HandshakeTimeout time.Duration
	// IdleTimeout is the time after which a connection without requests is closed. The default is one hour. The actual
	// time may be up to a quarter shorter. Connections that are registered for events stay open.
	IdleTimeout time.Duration
	// WriteTimeout is the time within which a client must read the output. The default is 30 s. The actual time may be
	// up to a quarter shorter.
	WriteTimeout time.Duration

	// Closed, if not nil, is called when a connection has closed. reason is nil if the client closed the connection.
	// Closed must not block.
	Closed func(remote netip.AddrPort, reason error)
}

func (o Options) withDefaults() Options {
	setDefault(&o.CQLVersion, "3.4.5")
	setDefault(&o.ConnectionsMax, 20_000)
	setDefault(&o.AddressConnectionsMax, max(1, o.ConnectionsMax/2))
	setDefault(&o.ArrivingMax, max(1, o.ConnectionsMax/4))
	setDefault(&o.FrameBytesMax, cqlwire.FrameSizeMax)
	o.FrameBytesMax = min(o.FrameBytesMax, cqlwire.FrameSizeMax)
	setDefault(&o.ConnectionInFlightMax, 4096)
	setDefault(&o.InFlightMax, 65_536)
	setDefault(&o.InFlightBytesMax, 1<<30)
	setDefault(&o.OutputBytesMax, 4<<20)
	setDefault(&o.BacklogMax, 1<<30)
	setDefault(&o.Workers, max(16, 4*runtime.GOMAXPROCS(0)))
	setDefault(&o.WorkQueueMax, 4096)
	setDefault(&o.WaitMax, 20*time.Millisecond)
	setDefault(&o.HandshakeTimeout, 30*time.Second)
	setDefault(&o.IdleTimeout, time.Hour)
	setDefault(&o.WriteTimeout, 30*time.Second)
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
