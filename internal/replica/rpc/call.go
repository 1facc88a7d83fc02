// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

const (
	// MaxBytes is the default size limit, in bytes, of requests and responses. It equals the default of
	// transport.Options.FrameBytes.
	MaxBytes = 64 << 20
	// SmallBytes is the size limit of requests and responses that contain no lists.
	SmallBytes = 64 << 10
	// noneBytes is the size limit of a None. It is not 0 because other versions may have added fields.
	noneBytes = 1 << 10
)

// named is the first byte of a request that contains the name of the call.
const named = 73

// Spec describes a call.
type Spec struct {
	// Name identifies the call. It must not contain a zero byte. Number is the first byte of a request, or 0 if the
	// call has no number. Neither Name nor Number may be reused for another call.
	Name   string
	Number byte
	// Since is the lowest feature level at which all builds support the call.
	Since feature.Level
	// Timeout is the maximum duration of a call. For a manual call, Timeout applies only if the context has no
	// deadline.
	Timeout time.Duration
	// RequestMax and ResponseMax are the maximum sizes, in bytes, of an encoded request and response. The default is
	// MaxBytes, or 1 KiB for a None.
	RequestMax, ResponseMax int
	// Idempotent reports whether a repeated request has no further effect.
	Idempotent bool
	// Manual reports whether the package that declares the call encodes it.
	Manual bool
}

// Call is a declared call with a request of type Q and a response of type A.
type Call[Q, A any] struct {
	Spec
	// prefix is the beginning of every request of the call.
	prefix []byte
}

// Info describes a call for documentation.
type Info struct {
	Spec
	// Request and Response are the names of the Go types.
	Request, Response string
}

// declared holds all calls of the program.
var declared []Info

// Calls returns all declared calls, sorted by number, followed by the calls without a number, sorted by name.
func Calls() []Info {
	out := slices.Clone(declared)
	slices.SortFunc(out, func(a, b Info) int {
		// 0 - 1 wraps around, so calls without a number are last.
		return cmp.Or(cmp.Compare(a.Number-1, b.Number-1), strings.Compare(a.Name, b.Name))
	})
	return out
}

// Declare adds a call to the registry. It must be called during initialization of the program. It panics if the name or
// the number is already used.
func Declare[Q, A any](s Spec) *Call[Q, A] {
	if s.Number == named || slices.ContainsFunc(declared, func(i Info) bool {
		return i.Name == s.Name || s.Number != 0 && i.Number == s.Number
	}) {
		panic(fmt.Sprintf("rpc: name or number of call %q is taken", s.Name))
	}
	s.RequestMax, s.ResponseMax = cmp.Or(s.RequestMax, defaultMax[Q]()), cmp.Or(s.ResponseMax, defaultMax[A]())
	declared = append(declared, Info{s, reflect.TypeFor[Q]().String(), reflect.TypeFor[A]().String()})
	c := &Call[Q, A]{Spec: s, prefix: []byte{s.Number}}
	if s.Number == 0 {
		c.prefix = append(append([]byte{named}, s.Name...), 0)
	}
	return c
}

// defaultMax returns the default size limit of an encoded request or response.
func defaultMax[T any]() int {
	if _, ok := any(*new(T)).(None); ok {
		return noneBytes
	}
	return MaxBytes
}

// Caller sends a request to another node and returns its response. *transport.Transport implements it.
type Caller interface {
	Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error)
}

// Client sends calls. Its fields must be set before use.
type Client struct {
	Caller Caller
	// Sched provides deadlines. It is nil outside simulations.
	Sched *sched.Scheduler
}

// UnknownCallError means that the other node does not support a call. The call was not executed.
type UnknownCallError struct {
	Node  topology.NodeID
	Name  string
	Since feature.Level
}

func (e *UnknownCallError) Error() string {
	return fmt.Sprintf("node %s does not serve the call %q: it is starting, or its version is older than feature level %d",
		e.Node.Short(), e.Name, e.Since)
}

// Do sends a request to a node and returns the response. The error is an error of transport.Transport.Call or an
// *UnknownCallError.
func (c *Call[Q, A]) Do(ctx context.Context, client *Client, to topology.NodeID, q Q) (a A, err error) {
	request, err := appendValue(slices.Clip(c.prefix), &q)
	if err != nil {
		return a, err
	}
	if len(request) > c.RequestMax {
		return a, fmt.Errorf("%w: call %q with a request of %d bytes", transport.ErrTooLong, c.Name, len(request))
	}
	ctx, cancel := client.Sched.WithTimeout(ctx, c.Timeout)
	defer cancel()
	b, err := client.Caller.Call(ctx, to, request)
	// Older builds of feature level 8 report an unknown call only as an error text.
	r, ok := errors.AsType[*transport.RemoteError](err)
	if errors.Is(err, transport.ErrUnknownCall) || ok && strings.HasPrefix(r.Text, "unknown query subject") {
		err = &UnknownCallError{to, c.Name, c.Since}
	}
	if err != nil {
		return a, err
	}
	if len(b) > c.ResponseMax {
		return a, fmt.Errorf("%w: call %q with a response of %d bytes", transport.ErrTooLong, c.Name, len(b))
	}
	if err := decodeValue(b, &a); err != nil {
		return *new(A), fmt.Errorf("malformed response to call %q: %w", c.Name, err)
	}
	return a, nil
}
