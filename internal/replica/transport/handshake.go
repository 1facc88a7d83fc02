// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// stream is a connection after its handshake.
type stream struct {
	net.Conn
	// raw is the connection below TLS. Closing it does not wait for the peer.
	raw  net.Conn
	peer Peer
}

func (t *Transport) hello(c Class, to NodeID) hello {
	return hello{
		class: c, least: VersionMin, most: Version, cluster: t.self.Cluster, node: t.self.Node, to: to,
		levels: t.opts.Levels, incarnation: t.incarnation, address: t.self.Address, history: t.self.History,
	}
}

// checkHello validates the other side's hello. Both sides call it. want is the node that was dialed, or zero for any
// node.
func (t *Transport) checkHello(h hello, proof proven, want NodeID) (p Peer, err error) {
	refuse := func(reason error, format string, args ...any) (Peer, error) {
		return p, &Refused{Reason: reason, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case !overlap(h.least, h.most):
		return refuse(ErrVersion, "node %x supports versions %d to %d, but node %x supports %d to %d", t.self.Node,
			VersionMin, Version,
			h.node, h.least, h.most)
	case h.cluster != t.self.Cluster && t.former(h) != "":
		return refuse(ErrCopiedDirectory, "%s", t.former(h))
	case h.cluster != t.self.Cluster:
		return refuse(ErrCluster, "node %x belongs to cluster %x, but node %x belongs to cluster %x", t.self.Node,
			t.self.Cluster,
			h.node, h.cluster)
	case h.node == NodeID{}:
		return refuse(ErrHandshake, "the node ID is missing")
	case h.node == t.self.Node:
		return refuse(ErrSelf, "node %x", t.self.Node)
	case want != NodeID{} && h.node != want:
		return refuse(ErrOtherNode, "expected node %x, but node %x responded", want, h.node)
	case h.to != NodeID{} && h.to != t.self.Node:
		return refuse(ErrOtherNode, "expected node %x, but node %x responded", h.to, t.self.Node)
	}
	if err := proof.check(h.node); err != nil {
		return p, err
	}
	p = Peer{
		Node: h.node, Incarnation: h.incarnation, Address: h.address, History: h.history, Levels: h.levels,
		Version: min(Version, h.most),
	}
	if t.opts.Admit != nil {
		if err := t.opts.Admit(p); err != nil {
			reason := ErrNotAdmitted
			switch {
			case errors.Is(err, ErrCopiedDirectory):
				return refuse(ErrCopiedDirectory, "%v", err)
			case errors.Is(err, ErrLevel):
				reason = ErrLevel
			}
			return refuse(reason, "node %x: %v", h.node, err)
		}
	}
	return p, nil
}

// former returns the text for a node of the cluster to which this node belonged before, or an empty string.
func (t *Transport) former(h hello) string {
	if t.opts.Former == nil {
		return ""
	}
	return t.opts.Former(h.cluster, h.node)
}

// connect dials and performs the handshake. The connection is tracked. The caller must end it with t.release.
func (t *Transport) connect(ctx context.Context, address string, c Class, want NodeID) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.DialTimeout)
	defer cancel()
	raw, err := t.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if !t.track(raw) {
		return nil, ErrClosed
	}
	s, err := t.greet(ctx, raw, c, want)
	if err != nil {
		t.release(raw)
		return nil, err
	}
	s.peer.Address = address
	return s, nil
}

// greet performs the handshake of the dialing side.
func (t *Transport) greet(ctx context.Context, raw net.Conn, c Class, want NodeID) (*stream, error) {
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, proof, err := t.security.Load().dialled(ctx, raw, t.self.Node)
	if err != nil {
		return nil, err
	}
	s := &stream{Conn: conn, raw: raw}
	mine := t.hello(c, want)
	if _, err := s.Write(mine.append(nil)); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	theirs, err := readHello(s)
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if theirs.class == prove { // an unproven peer only receives the reason for its rejection
		return nil, &Refused{Reason: theirs.status.reason(), Text: theirs.text, ByPeer: true}
	}
	// This side validates the hello first, because it knows which node was wanted. However, a node of another cluster
	// may know this node from its earlier membership.
	s.peer, err = t.checkHello(theirs, proof, want)
	if err != nil && !(errors.Is(err, ErrCluster) && theirs.status == statusCopy) {
		return nil, err
	}
	if theirs.status != statusOK {
		return nil, &Refused{Reason: theirs.status.reason(), Text: theirs.text, ByPeer: true}
	}
	return s, nil
}

// receive performs the accepting side of the handshake up to the verdict. reply sends the verdict. If receive returns
// an error, the rejection has been sent.
func (t *Transport) receive(ctx context.Context, raw net.Conn) (*stream, Class, error) {
	_ = raw.SetDeadline(time.Now().Add(t.opts.HandshakeTimeout))
	conn, proof, err := t.security.Load().accepted(ctx, raw, t.self.Node)
	s := &stream{Conn: conn, raw: raw}
	if err != nil {
		if conn != nil && (errors.Is(err, ErrHandshake) || errors.Is(err, ErrSecret)) {
			t.reject(s, err)
		}
		return nil, 0, err
	}
	theirs, err := readHello(s)
	if err != nil {
		if errors.Is(err, ErrHandshake) {
			_ = t.reply(s, theirs.class, NodeID{}, &Refused{Reason: ErrHandshake, Text: err.Error()})
		}
		return nil, 0, fmt.Errorf("handshake: %w", err)
	}
	if theirs.class == classIdentify {
		return s, classIdentify, t.answerIdentify(s, theirs)
	}
	s.peer, err = t.checkHello(theirs, proof, NodeID{})
	if c := theirs.class; err == nil && c != Raft && c != Snapshot && c != Command {
		err = &Refused{Reason: ErrHandshake, Text: c.String()}
	}
	if err == nil {
		err = t.enter(s.peer, theirs.class)
	}
	if err != nil {
		_ = t.reply(s, theirs.class, theirs.node, err)
		return nil, 0, err
	}
	return s, theirs.class, nil
}

// reject sends a peer that has proven nothing only the reason for its rejection.
func (t *Transport) reject(s *stream, verdict error) {
	h := hello{class: prove, least: VersionMin, most: Version, status: statusOf(verdict),
		text: clip(verdict.Error(), textMax)}
	_, _ = s.Write(h.append(nil)) // the connection is closed in any case
}

// reply sends this side's hello with the verdict.
func (t *Transport) reply(s *stream, c Class, to NodeID, verdict error) error {
	mine := t.hello(c, to)
	if verdict != nil {
		mine.status, mine.text = statusOf(verdict), verdict.Error()
		if r := (*Refused)(nil); errors.As(verdict, &r) {
			mine.text = r.Text
		}
		mine.text = clip(mine.text, textMax)
	}
	_, err := s.Write(mine.append(nil))
	return err
}

// Discover performs a handshake with any node at an address, adds it to the address book, and returns it.
func (t *Transport) Discover(ctx context.Context, address string) (Peer, error) {
	s, err := t.connect(ctx, address, Command, NodeID{})
	if err != nil {
		return Peer{}, fmt.Errorf("discover %s: %w", address, err)
	}
	t.release(s.raw)
	t.SetAddress(s.peer.Node, address)
	return s.peer, nil
}
