// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// stream is a connection after its handshake.
type stream struct {
	net.Conn
	// raw is the connection below TLS. Closing raw does not wait for the peer.
	raw  net.Conn
	peer Peer
}

// handshaker performs handshakes (TR1). It holds the identity of this process and the conditions under which it accepts
// a peer.
type handshaker struct {
	self        Self
	incarnation uint64
	levels      feature.Range
	admission   Admission
	timeout     time.Duration // time limit of an accepted handshake
	security    atomic.Pointer[security]
	present     processes
}

func (k *handshaker) init(self Self, o *Options, s *security) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	k.self, k.incarnation = self, binary.LittleEndian.Uint64(b[:])
	k.levels, k.admission, k.timeout = o.Levels, o.Admission, o.HandshakeTimeout
	k.security.Store(s)
	k.present.self, k.present.byNode = self.Node, map[NodeID]*peerProcess{}
}

func (k *handshaker) hello(c Class, to NodeID) hello {
	return hello{
		class: c, least: VersionMin, most: Version, cluster: k.self.Cluster, node: k.self.Node, to: to,
		levels: k.levels, incarnation: k.incarnation, address: k.self.Address, history: k.self.History,
	}
}

// checkHello validates the other side's hello. want is the dialed node, or zero for any node.
func (k *handshaker) checkHello(h hello, proof proven, want NodeID) (p Peer, err error) {
	refuse := func(reason error, format string, args ...any) (Peer, error) {
		return p, &Refused{Reason: reason, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case !overlap(h.least, h.most):
		return refuse(ErrVersion, "node %x supports versions %d to %d, but node %x supports %d to %d", k.self.Node,
			VersionMin, Version,
			h.node, h.least, h.most)
	case h.cluster != k.self.Cluster && k.admission.FormerCluster(h.cluster, h.node) != "":
		return refuse(ErrCopiedDirectory, "%s", k.admission.FormerCluster(h.cluster, h.node))
	case h.cluster != k.self.Cluster:
		return refuse(ErrCluster, "node %x belongs to cluster %x, but node %x belongs to cluster %x", k.self.Node,
			k.self.Cluster,
			h.node, h.cluster)
	case h.node == NodeID{}:
		return refuse(ErrHandshake, "the node ID is missing")
	case h.node == k.self.Node:
		return refuse(ErrSelf, "node %x", k.self.Node)
	case want != NodeID{} && h.node != want:
		return refuse(ErrOtherNode, "expected node %x, but node %x responded", want, h.node)
	case h.to != NodeID{} && h.to != k.self.Node:
		return refuse(ErrOtherNode, "expected node %x, but node %x responded", h.to, k.self.Node)
	}
	if err := proof.check(h.node); err != nil {
		return p, err
	}
	p = Peer{
		Node: h.node, Incarnation: h.incarnation, Address: h.address, History: h.history, Levels: h.levels,
		Version: min(Version, h.most),
	}
	if err := k.admission.Admit(p); err != nil {
		reason := ErrNotAdmitted
		switch {
		case errors.Is(err, ErrCopiedDirectory):
			return refuse(ErrCopiedDirectory, "%v", err)
		case errors.Is(err, ErrLevel):
			reason = ErrLevel
		}
		return refuse(reason, "node %x: %v", h.node, err)
	}
	return p, nil
}

// greet performs the dialing side of the handshake.
func (k *handshaker) greet(ctx context.Context, raw net.Conn, c Class, want NodeID) (*stream, error) {
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, proof, err := k.security.Load().dialled(ctx, raw, k.self.Node)
	if err != nil {
		return nil, err
	}
	s := &stream{Conn: conn, raw: raw}
	mine := k.hello(c, want)
	if _, err := s.Write(mine.append(nil)); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	theirs, err := readHello(s)
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if theirs.class == prove { // an unproven peer receives only the reason for the rejection
		return nil, &Refused{Reason: theirs.status.reason(), Text: theirs.text, ByPeer: true}
	}
	// The dialing side validates the hello first, because only it knows the dialed node. However, the verdict of a node
	// in another cluster may state that this node belonged to that cluster before.
	s.peer, err = k.checkHello(theirs, proof, want)
	if err != nil && !(errors.Is(err, ErrCluster) && theirs.status == statusCopy) {
		return nil, err
	}
	if theirs.status != statusOK {
		return nil, &Refused{Reason: theirs.status.reason(), Text: theirs.text, ByPeer: true}
	}
	return s, nil
}

// receive performs the accepting side of the handshake up to the verdict. The caller must then call reply. If receive
// returns an error, it has already sent the rejection.
func (k *handshaker) receive(ctx context.Context, raw net.Conn) (*stream, Class, error) {
	_ = raw.SetDeadline(time.Now().Add(k.timeout))
	conn, proof, err := k.security.Load().accepted(ctx, raw, k.self.Node)
	s := &stream{Conn: conn, raw: raw}
	if err != nil {
		if conn != nil && (errors.Is(err, ErrHandshake) || errors.Is(err, ErrSecret)) {
			k.reject(s, err)
		}
		return nil, 0, err
	}
	theirs, err := readHello(s)
	if err != nil {
		if errors.Is(err, ErrHandshake) {
			_ = k.reply(s, theirs.class, NodeID{}, &Refused{Reason: ErrHandshake, Text: err.Error()})
		}
		return nil, 0, fmt.Errorf("handshake: %w", err)
	}
	if theirs.class == classIdentify {
		return s, classIdentify, k.answerIdentify(s, theirs)
	}
	s.peer, err = k.checkHello(theirs, proof, NodeID{})
	if c := theirs.class; err == nil && c != Raft && c != Snapshot && c != Command {
		err = &Refused{Reason: ErrHandshake, Text: c.String()}
	}
	if err == nil {
		err = k.present.enter(s.peer, theirs.class)
	}
	if err != nil {
		_ = k.reply(s, theirs.class, theirs.node, err)
		return nil, 0, err
	}
	return s, theirs.class, nil
}

// reject sends the reason for the rejection to an unproven peer, without this node's identity.
func (k *handshaker) reject(s *stream, verdict error) {
	h := hello{class: prove, least: VersionMin, most: Version, status: statusOf(verdict),
		text: clip(verdict.Error(), textMax)}
	_, _ = s.Write(h.append(nil)) // the caller closes the connection
}

// reply sends this side's hello with the verdict.
func (k *handshaker) reply(s *stream, c Class, to NodeID, verdict error) error {
	mine := k.hello(c, to)
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
