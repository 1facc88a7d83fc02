// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// keyBytes is how long a key is.
const keyBytes = 32

// Key encrypts a place, and is needed to read it. All else is derived from it, so a place whose other objects are there
// can be read with the key alone.
type Key struct {
	// names and mask encrypt the names of files, contents what is in them, proof tells the key from others.
	names, mask, contents, proof []byte
}

// NewKey derives what a place needs of 32 bytes that nobody can guess.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != keyBytes {
		return nil, fmt.Errorf("a key has %d bytes, not %d", keyBytes, len(secret))
	}
	k := new(Key)
	for purpose, to := range map[string]*[]byte{"names": &k.names, "mask": &k.mask, "contents": &k.contents,
		"proof": &k.proof} {
		var err error
		if *to, err = hkdf.Key(sha256.New, secret, nil, "ilion backup 1 "+purpose, keyBytes); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Fingerprint tells keys apart, and says nothing else of them.
func (k *Key) Fingerprint() string { return hex.EncodeToString(k.proof[:8]) }

// ReadKey reads a key from a file: 64 hexadecimal digits, as MakeKey and openssl rand -hex 32 write them, or 32 bytes.
func ReadKey(path string) (*Key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of the backups: %w", err)
	}
	secret := text
	if len(text) != keyBytes {
		if secret, err = hex.DecodeString(strings.TrimSpace(string(text))); err != nil || len(secret) != keyBytes {
			return nil, fmt.Errorf("%s holds no key: one is %d hexadecimal digits, as ilion backup key FILE makes them",
				path, 2*keyBytes)
		}
	}
	return NewKey(secret)
}

// MakeKey makes a key in a new file that only its owner may read.
func MakeKey(path string) (*Key, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // it may be the only key that reads old backups
		return nil, fmt.Errorf("%s exists already, and a key is never overwritten: give another file", path)
	}
	if err != nil {
		return nil, err
	}
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // never fails
	_, err = fmt.Fprintf(f, "%x\n", secret)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return NewKey(secret)
}
