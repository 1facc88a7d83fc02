// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// KeyID is the random ID of a data key.
type KeyID uint64

// String returns the ID in hexadecimal.
func (id KeyID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// dataKey encrypts the contents of files. The ciphers are derived from secret.
type dataKey struct {
	id      KeyID
	created time.Time
	secret  []byte
	bits    int // size of the AES key for contents: 128 or 256

	contents cipher.Block // of files in AES-CTR
	headers  []byte       // HMAC key of file headers
	records  cipher.AEAD  // of sealed records
}

// newDataKey generates a key that encrypts contents with AES keys of a size.
func newDataKey(now time.Time, bits int) (*dataKey, error) {
	secret, id := make([]byte, keyBytes), make([]byte, 8)
	_, _ = rand.Read(secret) // does not fail
	for binary.LittleEndian.Uint64(id) == 0 {
		_, _ = rand.Read(id) // does not fail
	}
	return deriveDataKey(KeyID(binary.LittleEndian.Uint64(id)), now.UTC().Truncate(time.Second), secret, bits)
}

// deriveDataKey returns the key with a secret.
func deriveDataKey(id KeyID, created time.Time, secret []byte, bits int) (*dataKey, error) {
	if len(secret) != keyBytes || bits != 128 && bits != 256 {
		return nil, errRegistryDamaged
	}
	k := &dataKey{id: id, created: created, secret: secret, bits: bits}
	var err error
	if k.contents, err = newAES(secret, "ilion data key 1 contents", bits/8); err != nil {
		return nil, err
	}
	if k.headers, err = hkdf.Key(sha256.New, secret, nil, "ilion data key 1 headers", keyBytes); err != nil {
		return nil, err
	}
	k.records, err = newGCM(secret, "ilion data key 1 records")
	return k, err
}

// A file in AES-CTR starts with a header of headerSize bytes:
//
//	0  magic
//	8  version, 7 bytes that must be zero
//	16 ID of the data key
//	24 nonce, which is the initial counter block
//	40 HMAC-SHA256 of the bytes before it, truncated to 16 bytes
//	56 8 bytes that must be zero
const (
	headerSize    = 64
	headerMagic   = "ilionenc"
	headerVersion = 1
	nonceAt       = 24
	macAt         = 40
	macEnd        = 56
)

// newHeader returns a header with a new nonce.
func (k *dataKey) newHeader() []byte {
	h := make([]byte, headerSize)
	copy(h, headerMagic)
	h[len(headerMagic)] = headerVersion
	binary.LittleEndian.PutUint64(h[16:], uint64(k.id))
	_, _ = rand.Read(h[nonceAt:macAt]) // does not fail
	copy(h[macAt:macEnd], k.mac(h))
	return h
}

// mac returns the authentication code of a header.
func (k *dataKey) mac(h []byte) []byte {
	m := hmac.New(sha256.New, k.headers)
	m.Write(h[:macAt])
	return m.Sum(nil)[:macEnd-macAt]
}

// stream returns the keystream of a file from an offset in its contents.
func (k *dataKey) stream(nonce []byte, at int64) cipher.Stream {
	var counter [16]byte
	lo, hi := binary.BigEndian.Uint64(nonce[8:]), binary.BigEndian.Uint64(nonce)
	sum := lo + uint64(at)/16
	if sum < lo {
		hi++
	}
	binary.BigEndian.PutUint64(counter[8:], sum)
	binary.BigEndian.PutUint64(counter[:], hi)
	s := cipher.NewCTR(k.contents, counter[:])
	if skip := at % 16; skip > 0 {
		var unused [16]byte
		s.XORKeyStream(unused[:skip], unused[:skip])
	}
	return s
}

// headerKey returns the ID of the data key in a header.
func headerKey(h []byte) KeyID { return KeyID(binary.LittleEndian.Uint64(h[16:])) }
