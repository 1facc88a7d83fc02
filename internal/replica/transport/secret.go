// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
)

// Before the hellos, two nodes with a configured secret prove to each other that they have the secret, without sending
// the secret:
//
//	dialer    "ilion", 'p', version u8, its node id 16, nonce 32
//	acceptor  "ilion", 'p', version u8, its node id 16, nonce 32, proof 32
//	dialer    proof 32
//
// A proof is HMAC-SHA256(secret, its side, version, ID of the dialer, ID of the acceptor, nonce of the dialer, nonce of
// the acceptor). Both sides contribute a nonce, so a recorded exchange is useless on another connection. The proof
// includes the side, so that an attacker cannot use a node to compute the proof that this node demands. The ID of a
// caller of Identify is zero. The following hello must contain the same IDs.
const (
	prove         Class = 'p'
	secretVersion       = 1
	nonceLen            = 32
	introLen            = len(magic) + 2 + 16 + nonceLen
)

// SecretMin is the minimum length of Options.Secret in bytes. The minimum is necessary because any client that can
// connect can test secrets offline against the acceptor's proof.
const SecretMin = 32

// introduction is the first message of each side.
type introduction struct {
	node  NodeID
	nonce [nonceLen]byte
}

func newIntroduction(node NodeID) introduction {
	i := introduction{node: node}
	_, _ = rand.Read(i.nonce[:]) // Read never fails
	return i
}

func (i *introduction) append(dst []byte) []byte {
	dst = append(append(dst, magic...), byte(prove), secretVersion)
	return append(append(dst, i.node[:]...), i.nonce[:]...)
}

// readIntroduction reads the first message of the other side. If the message is a hello, the other node has no secret,
// and the error is ErrSecret.
func readIntroduction(r io.Reader) (i introduction, err error) {
	var b [introLen]byte
	// A hello is at least as long as its head, and an introduction is longer than this head.
	if _, err := io.ReadFull(r, b[:helloHead]); err != nil {
		return i, err
	}
	switch {
	case string(b[:len(magic)]) != magic:
		return i, fmt.Errorf("%w: it begins with %q", ErrHandshake, b[:len(magic)])
	case Class(b[len(magic)]) != prove:
		return i, &Refused{Reason: ErrSecret, Text: "the peer did not prove it"}
	case b[len(magic)+1] != secretVersion:
		return i, &Refused{Reason: ErrVersion, Text: fmt.Sprintf("secret proof version %d",
			b[len(magic)+1])}
	}
	if _, err := io.ReadFull(r, b[helloHead:]); err != nil {
		return i, err
	}
	rest := b[len(magic)+2:]
	copy(i.node[:], rest)
	copy(i.nonce[:], rest[len(i.node):])
	return i, nil
}

// proof returns the proof of a side, which is the dialer or the acceptor.
func proof(secret []byte, side string, dialler, acceptor *introduction) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(h, side) // a hash accepts input of any length
	_, _ = h.Write([]byte{secretVersion})
	for _, part := range [][]byte{dialler.node[:], acceptor.node[:], dialler.nonce[:], acceptor.nonce[:]} {
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

const (
	diallerSide  = "ilion dialler"
	acceptorSide = "ilion acceptor"
)

// proveDialled performs the dialing side's part of the proofs. It returns the node ID of the other side.
func proveDialled(conn io.ReadWriter, secret []byte, self NodeID) (NodeID, error) {
	mine := newIntroduction(self)
	if _, err := conn.Write(mine.append(nil)); err != nil {
		return NodeID{}, err
	}
	theirs, err := readIntroduction(conn)
	if err != nil {
		return NodeID{}, err
	}
	var got [sha256.Size]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return NodeID{}, err
	}
	right := hmac.Equal(got[:], proof(secret, acceptorSide, &mine, &theirs))
	answer := make([]byte, sha256.Size) // a zero proof notifies the other side that the secrets differ
	if right {
		answer = proof(secret, diallerSide, &mine, &theirs)
	}
	if _, err := conn.Write(answer); err != nil {
		return NodeID{}, err
	}
	if !right {
		return NodeID{}, &Refused{Reason: ErrSecret, Text: fmt.Sprintf("node %x has a different secret", theirs.node)}
	}
	return theirs.node, nil
}

// proveAccepted performs the accepting side's part of the proofs. It returns the node ID of the other side.
func proveAccepted(conn io.ReadWriter, secret []byte, self NodeID) (NodeID, error) {
	theirs, err := readIntroduction(conn)
	if err != nil {
		return NodeID{}, err
	}
	mine := newIntroduction(self)
	if _, err := conn.Write(append(mine.append(nil), proof(secret, acceptorSide, &theirs, &mine)...)); err != nil {
		return NodeID{}, err
	}
	var got [sha256.Size]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return NodeID{}, err
	}
	if !hmac.Equal(got[:], proof(secret, diallerSide, &theirs, &mine)) {
		return NodeID{}, &Refused{Reason: ErrSecret, Text: fmt.Sprintf("node %x has a different secret", theirs.node)}
	}
	return theirs.node, nil
}
