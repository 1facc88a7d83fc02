// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"
)

// classIdentify is the class of a hello that requests the identity of the other side. The hello contains neither a
// cluster nor a node, because the caller does not belong to a cluster yet. The other side sends its identity and closes
// the connection. A version that does not support this class rejects the hello.
const classIdentify Class = 'a'

// IdentifyTimeout is the time limit of Identify if its context has no deadline.
const IdentifyTimeout = 5 * time.Second

// Identify returns the node ID and the cluster ID of the node at an address. A node that joins a cluster uses it. If
// config is not nil, both sides present certificates of one authority, and the certificate of the other side must
// contain its node ID. If secret is not nil, both sides must prove that they have the secret. The error is a *Refused
// or an error of dial.
func Identify(ctx context.Context, dial Dial, config *tls.Config, secret []byte, address string) (ClusterID, Peer,
	error) {
	s, err := newSecurity(config, secret)
	if err != nil {
		return ClusterID{}, Peer{}, err
	}
	cluster, peer, err := s.identify(ctx, dial, address)
	if err != nil {
		return ClusterID{}, Peer{}, fmt.Errorf("identify %s: %w", address, err)
	}
	return cluster, peer, nil
}

func (s *security) identify(ctx context.Context, dial Dial, address string) (cluster ClusterID, peer Peer, err error) {
	ctx, cancel := context.WithTimeout(ctx, IdentifyTimeout)
	defer cancel()
	raw, err := dial(ctx, address)
	if err != nil {
		return cluster, peer, err
	}
	defer func() { _ = raw.Close() }()
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, proof, err := s.dialled(ctx, raw, NodeID{})
	if err != nil {
		return cluster, peer, err
	}
	mine := hello{class: classIdentify, least: VersionMin, most: Version}
	if _, err := conn.Write(mine.append(nil)); err != nil {
		return cluster, peer, fmt.Errorf("handshake: %w", err)
	}
	h, err := readHello(conn)
	switch {
	case err != nil:
		return cluster, peer, fmt.Errorf("handshake: %w", err)
	case !overlap(h.least, h.most):
		return cluster, peer,
			&Refused{Reason: ErrVersion, Text: fmt.Sprintf("this node supports versions %d to %d, but node %x "+
				"supports %d to %d",
				VersionMin, Version, h.node, h.least, h.most)}
	case h.status != statusOK:
		return cluster, peer, &Refused{Reason: h.status.reason(), Text: h.text, ByPeer: true}
	case h.node == NodeID{}:
		return cluster, peer, &Refused{Reason: ErrHandshake, Text: "the node ID is missing"}
	case h.cluster == ClusterID{}:
		return cluster, peer, &Refused{Reason: ErrCluster, Text: fmt.Sprintf("node %x does not belong to a cluster yet",
			h.node)}
	}
	if err := proof.check(h.node); err != nil {
		return cluster, peer, err
	}
	return h.cluster, Peer{
		Node: h.node, Incarnation: h.incarnation, Address: h.address, Levels: h.levels, Version: min(Version, h.most),
	}, nil
}

// answerIdentify sends this node's identity to the caller of Identify.
func (k *handshaker) answerIdentify(s *stream, h hello) error {
	if !overlap(h.least, h.most) {
		err := &Refused{Reason: ErrVersion, Text: fmt.Sprintf("node %x supports versions %d to %d, but the caller "+
			"supports %d to %d",
			k.self.Node, VersionMin, Version, h.least, h.most)}
		_ = k.reply(s, classIdentify, h.node, err)
		return err
	}
	return k.reply(s, classIdentify, h.node, nil)
}
