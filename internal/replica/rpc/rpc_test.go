// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/memnet"
)

type question struct {
	Text string `json:"text"`
}

// number is a request that is encoded in 8 bytes.
type number uint64

func (n number) AppendBinary(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint64(b, uint64(n)), nil
}

func (n *number) UnmarshalBinary(b []byte) error {
	if len(b) != 8 {
		return errors.New("not 8 bytes")
	}
	*n = number(binary.BigEndian.Uint64(b))
	return nil
}

var (
	lengthCall = Declare[question, number](Spec{Name: "test length", Number: 200, Since: 1, Timeout: time.Second,
		RequestMax: 100, ResponseMax: 100})
	repeatCall = Declare[number, question](Spec{Name: "test repeat", Since: 2, Timeout: time.Second,
		ResponseMax: 100})
	failCall = Declare[None, None](Spec{Name: "test fail", Since: 3, Timeout: 50 * time.Millisecond})
	lostCall = Declare[None, Bytes](Spec{Name: "test lost", Since: 9, Timeout: time.Second})
	rawCall  = Declare[question, number](Spec{Name: "test manual", Number: 201, Manual: true})
)

// manual responds to each request with the request itself.
type manual struct{}

func (manual) Serve(_ context.Context, _ topology.NodeID, request []byte, to transport.Responder) {
	_ = to.End(request)
}

func (manual) ServeInline(request []byte, to transport.Responder) bool {
	if len(request) > 1 && request[0] == rawCall.Number && request[1] == 'i' {
		_ = to.End([]byte("inline"))
		return true
	}
	return false
}

func node(i byte) topology.NodeID { return topology.NodeID{i} }

// connected starts two connected nodes. The first node executes the calls that register registers. connected returns a
// client on the second node.
func connected(t *testing.T, s *Server) *Client {
	t.Helper()
	net := memnet.New()
	var trs [2]*transport.Transport
	for i := range trs {
		at := fmt.Sprint("host", i+1)
		tr, err := transport.New(transport.Self{Cluster: transport.ClusterID{1}, Node: node(byte(i + 1)), Address: at},
			net.Dialler(at), transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen(at)
		if err == nil {
			err = tr.Start(l, nil, s)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tr.Close() })
		trs[i] = tr
	}
	trs[1].SetAddress(node(1), "host1")
	return &Client{Caller: trs[1]}
}

// TestCalls checks calls over connections. The test checks encodings, limits, deadlines, manual calls, and errors.
// Errors must keep their types if both nodes support these types.
func TestCalls(t *testing.T) {
	s := new(Server)
	s.HandleManual(manual{}, rawCall.Spec)
	Handle(s, lengthCall, func(_ context.Context, from topology.NodeID, q question) (number, error) {
		if from != node(2) {
			t.Errorf("the request is from %x", from)
		}
		return number(len(q.Text)), nil
	})
	Handle(s, repeatCall, func(_ context.Context, _ topology.NodeID, n number) (question, error) {
		return question{strings.Repeat("x", int(n))}, nil
	})
	var failure error
	Handle(s, failCall, func(context.Context, topology.NodeID, None) (None, error) {
		if failure == nil {
			<-t.Context().Done()
		}
		return None{}, failure
	})
	c, ctx := connected(t, s), t.Context()
	if n, err := lengthCall.Do(ctx, c, node(1), question{"four"}); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if q, err := repeatCall.Do(ctx, c, node(1), 3); q.Text != "xxx" || err != nil {
		t.Errorf("%q, %v", q.Text, err)
	}
	if _, err := lengthCall.Do(ctx, c, node(1), question{strings.Repeat("x", 100)}); !errors.Is(err,
		transport.ErrTooLong) {
		t.Errorf("a large request: %v", err)
	}
	remote := new(transport.RemoteError)
	if _, err := repeatCall.Do(ctx, c, node(1), 100); !errors.As(err, &remote) {
		t.Errorf("a large response: %v", err)
	}
	large := append([]byte{lengthCall.Number}, make([]byte, 100)...)
	if _, err := c.Caller.Call(ctx, node(1), large); !errors.As(err, &remote) {
		t.Errorf("a large request from a node without limits: %v", err)
	}
	if _, err := failCall.Do(ctx, c, node(1), None{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that takes too long: %v", err)
	}
	failure = dberr.Invalidf("no such thing")
	if _, err := failCall.Do(ctx, c, node(1), None{}); !errors.As(err, new(*dberr.Invalid)) ||
		err.Error() != failure.Error() {
		t.Errorf("a client error: %v", err)
	}
	failure = errors.New("another error")
	if _, err := failCall.Do(ctx, c, node(1), None{}); !errors.As(err, &remote) || remote.Text != failure.Error() {
		t.Errorf("another error: %v", err)
	}
	for request, want := range map[string]string{"\xc9a": "\xc9a", "\xc9i": "inline"} {
		if b, err := c.Caller.Call(ctx, node(1), []byte(request)); string(b) != want || err != nil {
			t.Errorf("manual call %q: %q, %v", request, b, err)
		}
	}
}

// older responds like a node with an older version of feature level 8.
type older struct{}

func (older) Call(context.Context, topology.NodeID, []byte) ([]byte, error) {
	return nil, &transport.RemoteError{Text: `unknown query subject "test lost"`}
}

// TestUnknownCalls checks that a call that the other node does not support fails with a typed error, and that a node
// rejects malformed requests.
func TestUnknownCalls(t *testing.T) {
	s := new(Server)
	Handle(s, lengthCall, func(context.Context, topology.NodeID, question) (number, error) { return 0, nil })
	c := connected(t, s)
	for _, client := range []*Client{c, {Caller: older{}}} {
		_, err := lostCall.Do(t.Context(), client, node(1), None{})
		if u, ok := errors.AsType[*UnknownCallError](err); !ok || u.Since != 9 || u.Node != node(1) {
			t.Errorf("%v", err)
		}
	}
	for _, request := range []string{"", "\x01", "\xc9", "I", "Itest lost", "Itest length\x00"} {
		if _, err := c.Caller.Call(t.Context(), node(1), []byte(request)); !errors.Is(err, transport.ErrUnknownCall) {
			t.Errorf("request %q: %v", request, err)
		}
	}
	if _, err := c.Caller.Call(t.Context(), node(1), []byte("\xc8{")); err == nil ||
		!strings.Contains(err.Error(), "malformed request") {
		t.Errorf("a malformed request: %v", err)
	}
}

// TestWire checks the bytes of requests, which must not change.
func TestWire(t *testing.T) {
	var sent []byte
	c := &Client{Caller: recorder{&sent}}
	_, _ = lengthCall.Do(t.Context(), c, node(1), question{"a"})
	if string(sent) != "\xc8"+`{"text":"a"}` {
		t.Errorf("a call with a number: %q", sent)
	}
	_, _ = repeatCall.Do(t.Context(), c, node(1), 'b')
	if string(sent) != "Itest repeat\x00\x00\x00\x00\x00\x00\x00\x00b" {
		t.Errorf("a call with a name: %q", sent)
	}
}

// recorder records the request and returns an error.
type recorder struct{ sent *[]byte }

func (r recorder) Call(_ context.Context, _ topology.NodeID, request []byte) ([]byte, error) {
	*r.sent = request
	return nil, transport.ErrUnreachable
}

// TestDeclarations checks the order of the registry, and that names and numbers are unique.
func TestDeclarations(t *testing.T) {
	var names []string
	for _, c := range Calls() {
		names = append(names, fmt.Sprint(c.Name, " ", c.Number, " ", c.Request))
	}
	if got, want := strings.Join(names, ", "), "test length 200 rpc.question, test manual 201 rpc.question, "+
		"test fail 0 rpc.None, test lost 0 rpc.None, test repeat 0 rpc.number"; got != want {
		t.Errorf("declared: %s", got)
	}
	for _, s := range []Spec{{Name: "test length"}, {Name: "test new", Number: 200},
		{Name: "test new", Number: named}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was declared", s)
				}
			}()
			Declare[None, None](s)
		}()
	}
}
