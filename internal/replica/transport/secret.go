// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
)

// Before the hellos, two nodes that were given a secret prove to each other that they have it, without saying it:
//
//	dialler   "ilion", 'p', version u8, its node id 16, nonce 32
//	acceptor  "ilion", 'p', version u8, its node id 16, nonce 32, proof 32
//	dialler   proof 32
//
// A proof is HMAC-SHA256(secret, its side, version, id of the dialler, id of the acceptor, nonce of the dialler, nonce
// of the acceptor). Both sides add a nonce of their own, so what was recorded is of no use on another connection, and
// the side is part of it, so that nobody can be made to prove what is asked of himself. An asker (see Ask) has no id
// yet: it is zero. The hello that follows must have the ids of the proofs.
const (
	prove         Class = 'p'
	secretVersion       = 1
	nonceLen            = 32
	introLen            = len(magic) + 2 + 16 + nonceLen
)

// SecretMin is the least length of Options.Secret, in bytes: whoever can connect can try out secrets at leisure on what
// the acceptor proves.
const SecretMin = 32

// intro is what each side says of itself.
type intro struct {
	node  NodeID
	nonce [nonceLen]byte
}

func newIntro(node NodeID) intro {
	i := intro{node: node}
	_, _ = rand.Read(i.nonce[:]) // never fails
	return i
}

func (i *intro) append(dst []byte) []byte {
	dst = append(append(dst, magic...), byte(prove), secretVersion)
	return append(append(dst, i.node[:]...), i.nonce[:]...)
}

// readIntro reads what the other side says of itself. Whatever begins like a hello of another class comes from a node
// without a secret: the error is ErrSecret then.
func readIntro(r io.Reader) (i intro, err error) {
	var b [introLen]byte
	// No hello is shorter than its head, and this is longer.
	if _, err := io.ReadFull(r, b[:helloHead]); err != nil {
		return i, err
	}
	switch {
	case string(b[:len(magic)]) != magic:
		return i, fmt.Errorf("%w: it begins with %q", ErrHandshake, b[:len(magic)])
	case Class(b[len(magic)]) != prove:
		return i, &Refused{Reason: ErrSecret, Text: "the other side proves none"}
	case b[len(magic)+1] != secretVersion:
		return i, &Refused{Reason: ErrVersion, Text: fmt.Sprintf("version %d of the proof of a secret",
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

// proof is what a side, dialler or acceptor, proves with.
func proof(secret []byte, side string, dialler, acceptor *intro) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(h, side) // a hash takes everything
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

// proveDialled is the dialler's half. It returns who the other side is.
func proveDialled(conn io.ReadWriter, secret []byte, self NodeID) (NodeID, error) {
	mine := newIntro(self)
	if _, err := conn.Write(mine.append(nil)); err != nil {
		return NodeID{}, err
	}
	theirs, err := readIntro(conn)
	if err != nil {
		return NodeID{}, err
	}
	var got [sha256.Size]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return NodeID{}, err
	}
	right := hmac.Equal(got[:], proof(secret, acceptorSide, &mine, &theirs))
	answer := make([]byte, sha256.Size) // which tells the other side that it has another secret
	if right {
		answer = proof(secret, diallerSide, &mine, &theirs)
	}
	if _, err := conn.Write(answer); err != nil {
		return NodeID{}, err
	}
	if !right {
		return NodeID{}, &Refused{Reason: ErrSecret, Text: fmt.Sprintf("node %x has another one", theirs.node)}
	}
	return theirs.node, nil
}

// proveAccepted is the acceptor's half.
func proveAccepted(conn io.ReadWriter, secret []byte, self NodeID) (NodeID, error) {
	theirs, err := readIntro(conn)
	if err != nil {
		return NodeID{}, err
	}
	mine := newIntro(self)
	if _, err := conn.Write(append(mine.append(nil), proof(secret, acceptorSide, &theirs, &mine)...)); err != nil {
		return NodeID{}, err
	}
	var got [sha256.Size]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return NodeID{}, err
	}
	if !hmac.Equal(got[:], proof(secret, diallerSide, &theirs, &mine)) {
		return NodeID{}, &Refused{Reason: ErrSecret, Text: fmt.Sprintf("node %x has another one", theirs.node)}
	}
	return theirs.node, nil
}
