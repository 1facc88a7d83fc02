// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Server executes the calls of other nodes. It implements transport.CommandHandler. The zero value is ready for use.
// Handlers may be registered at any time.
type Server struct {
	numbered [256]atomic.Pointer[handler]
	named    sync.Map // maps the name to *handler
	// manual is the handler of calls with Spec.Manual.
	manual transport.CommandHandler
}

// handler executes one call.
type handler struct {
	requestMax int
	// serve executes a request without its prefix. It is nil if the call is manual.
	serve func(ctx context.Context, from topology.NodeID, body []byte, to transport.Responder)
}

// HandleManual registers the handler of all calls with Spec.Manual. These calls must have numbers. HandleManual must be
// called before the first request arrives.
func (s *Server) HandleManual(h transport.CommandHandler, calls ...Spec) {
	s.manual = h
	for i := range calls {
		s.register(&calls[i], nil)
	}
}

func (s *Server) register(c *Spec, serve func(context.Context, topology.NodeID, []byte, transport.Responder)) {
	h := &handler{c.RequestMax, serve}
	if c.Number != 0 {
		s.numbered[c.Number].Store(h)
	} else {
		s.named.Store(c.Name, h)
	}
}

// Handle registers the handler of a call. The handler receives the node that sent the request.
func Handle[Q, A any](s *Server, c *Call[Q, A],
	f func(ctx context.Context, from topology.NodeID, q Q) (A, error)) {
	s.register(&c.Spec, func(ctx context.Context, from topology.NodeID, body []byte, to transport.Responder) {
		var q Q
		if err := decodeValue(body, &q); err != nil {
			to.Fail(fmt.Errorf("malformed request of call %q: %w", c.Name, err))
			return
		}
		a, err := f(ctx, from, q)
		if err != nil {
			to.Fail(err)
			return
		}
		response, err := appendValue(nil, &a)
		if err == nil && len(response) > c.ResponseMax {
			err = fmt.Errorf("%w: call %q with a response of %d bytes", transport.ErrTooLong, c.Name, len(response))
		}
		if err != nil {
			to.Fail(err)
			return
		}
		_ = to.End(response) // the caller may have disconnected
	})
}

// Serve implements transport.CommandHandler.
func (s *Server) Serve(ctx context.Context, from topology.NodeID, request []byte, to transport.Responder) {
	h, body := s.find(request)
	switch {
	case h == nil:
		to.Fail(fmt.Errorf("%w: %q", transport.ErrUnknownCall, request[:min(len(request), 32)]))
	case len(request) > h.requestMax:
		to.Fail(fmt.Errorf("%w: request of %d bytes", transport.ErrTooLong, len(request)))
	case h.serve == nil:
		s.manual.Serve(ctx, from, request, to)
	default:
		h.serve(ctx, from, body, to)
	}
}

// find returns the handler of a request, or nil, and the request without its prefix.
func (s *Server) find(request []byte) (h *handler, body []byte) {
	switch {
	case len(request) == 0:
		return nil, nil
	case request[0] != named:
		return s.numbered[request[0]].Load(), request[1:]
	}
	name, body, _ := bytes.Cut(request[1:], []byte{0})
	if v, ok := s.named.Load(string(name)); ok {
		h = v.(*handler)
	}
	return h, body
}

// ServeInline implements transport.CommandHandler.
func (s *Server) ServeInline(request []byte, to transport.Responder) bool {
	return s.manual != nil && s.manual.ServeInline(request, to)
}
