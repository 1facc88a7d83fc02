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

// Options bound and configure a Server. Zero values mean the defaults named with the fields.
type Options struct {
	// Authenticator makes clients log in; nil admits everybody.
	Authenticator Authenticator
	// TLS encrypts connections; nil leaves them in the clear.
	TLS *tls.Config
	// CQLVersion is what SUPPORTED tells, default 3.4.5.
	CQLVersion string
	// Tablets offers tablets-routing-v1: a client that asks for it is told where data is when it asked the wrong node;
	// the sessions do that for clients with session.Client.Tablets.
	Tablets bool
	// Supported are further entries of SUPPORTED.
	Supported []cqlwire.Option

	// ConnectionsMax is the number of connections, default 20000. A further one is told OVERLOADED and closed.
	ConnectionsMax int
	// AddressConnectionsMax is how many of them may come from one address, default half of them.
	AddressConnectionsMax int
	// ArrivingMax is how many of them may be in their handshake, default a quarter of them. Beyond it the one that
	// takes longest is closed.
	ArrivingMax int
	// FrameBytesMax bounds the body of a request, also after decompression, and of a response; default and maximum 256
	// MiB.
	FrameBytesMax int
	// ConnectionInFlightMax is the number of requests of a connection that may be executing besides the one in place,
	// default 4096. At the bound the connection is not read from; a client that asked for THROW_ON_OVERLOAD is told
	// OVERLOADED.
	ConnectionInFlightMax int
	// InFlightMax is the same for all connections together, default 65536. Beyond it requests are answered OVERLOADED.
	InFlightMax int
	// InFlightBytesMax bounds the memory for requests in flight and for requests larger than a read buffer, all
	// connections together; default 1 GiB. Beyond it requests are answered OVERLOADED.
	InFlightBytesMax int64
	// OutputBytesMax is what may wait for a client to read it, default 4 MiB. Beyond it the connection is not read
	// from, and a client that registered for events and does not read is cut off.
	OutputBytesMax int
	// BacklogMax bounds what waits for all clients together to read it, in bytes, default 1 GiB. Beyond it requests
	// wait, while clients that do not read are cut off; where none can be they are answered OVERLOADED.
	BacklogMax int64
	// Workers is the number of goroutines for work that may take long, default 4 per CPU and at least 16; WorkQueueMax
	// is how many requests may wait for one, default 4096. Beyond it requests are answered OVERLOADED.
	Workers, WorkQueueMax int

	// WaitMax is how long requests may wait on average before some are refused, so that those that are let in are
	// answered in time; see package gate. Default 20 ms; below 0 none is refused for that.
	WaitMax time.Duration
	// LowPriority says whether a role's requests are refused first; nil: no role's are.
	LowPriority func(role string) bool

	// CertificateRole returns the role that a client's certificate, which was verified, stands for; empty if for none:
	// then the client is asked for a password, if there is an Authenticator. nil: certificates stand for nobody.
	CertificateRole func(from netip.Addr, c *x509.Certificate) (access.Login, error)
	// HandshakeTimeout is the time a client has until it is ready to send requests, default 30 s.
	HandshakeTimeout time.Duration
	// IdleTimeout is the time after which a connection without requests is closed, default an hour; it may be up to a
	// quarter shorter. Connections that are registered for events are left open.
	IdleTimeout time.Duration
	// WriteTimeout is the time a client has to read what was written to it, default 30 s; it may be up to a quarter
	// shorter.
	WriteTimeout time.Duration

	// Events are told what happens.
	Events Events
}

// Events are functions to be called when something happens; each may be nil. They must be quick.
type Events struct {
	Opened func(remote netip.AddrPort)
	// Closed has the reason, nil if the client hung up.
	Closed func(remote netip.AddrPort, reason error)
	// Refused is called for a connection beyond ConnectionsMax.
	Refused func(remote netip.AddrPort)
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
	if o.Events.Opened == nil {
		o.Events.Opened = func(netip.AddrPort) {}
	}
	if o.Events.Closed == nil {
		o.Events.Closed = func(netip.AddrPort, error) {}
	}
	if o.Events.Refused == nil {
		o.Events.Refused = func(netip.AddrPort) {}
	}
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
