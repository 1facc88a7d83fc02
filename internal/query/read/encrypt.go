// SPDX-License-Identifier: Apache-2.0

package read

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// seal appends text encrypted and authenticated with a secret of 32 bytes: AES-256-GCM with a random nonce, which comes
// first.
func encrypt(dst, text, secret []byte) ([]byte, error) {
	g, err := newAEAD(secret)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, g.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, dberr.Serverf("no random numbers: %v", err)
	}
	return g.Seal(append(dst, nonce...), nonce, text, nil), nil
}

// unseal is the text that was sealed; the error says that the bytes are not what seal made with the secret.
func decrypt(b, secret []byte) ([]byte, error) {
	g, err := newAEAD(secret)
	if err != nil {
		return nil, err
	}
	if len(b) < g.NonceSize() {
		return nil, errState
	}
	return g.Open(nil, b[:g.NonceSize()], b[g.NonceSize():], nil)
}

func newAEAD(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, dberr.Serverf("the secret of a table with masked keys: %v", err)
	}
	return cipher.NewGCM(block)
}
