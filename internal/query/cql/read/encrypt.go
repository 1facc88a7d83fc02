// SPDX-License-Identifier: Apache-2.0

package read

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// encrypt appends a random nonce and the AES-256-GCM ciphertext of text. The secret must have 32 bytes.
func encrypt(dst, text, secret []byte) ([]byte, error) {
	g, err := newAEAD(secret)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, g.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, dberr.Serverf("cannot read random numbers: %v", err)
	}
	return g.Seal(append(dst, nonce...), nonce, text, nil), nil
}

// decrypt returns the plaintext of b. It returns an error if b was not encrypted with the secret.
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
		return nil, dberr.Serverf("invalid secret of a table with masked keys: %v", err)
	}
	return cipher.NewGCM(block)
}
