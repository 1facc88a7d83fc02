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

// keyBytes is the length of a key in bytes.
const keyBytes = 32

// Key encrypts a repository. It is required to read the repository. All other secrets are derived from the key.
// Therefore, the files and the key suffice to read a repository.
type Key struct {
	// names and mask encrypt file names. contents encrypts files. proof identifies the key.
	names, mask, contents, proof []byte
}

// NewKey derives a key from 32 random bytes.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != keyBytes {
		return nil, fmt.Errorf("a key must have %d bytes, not %d", keyBytes, len(secret))
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

// Fingerprint returns a text that identifies the key without revealing it.
func (k *Key) Fingerprint() string { return hex.EncodeToString(k.proof[:8]) }

// ReadKey reads a key from a file. The file contains 32 bytes, or 64 hexadecimal digits as MakeKey or openssl rand
// -hex 32 writes them.
func ReadKey(path string) (*Key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the encryption key: %w", err)
	}
	secret := text
	if len(text) != keyBytes {
		if secret, err = hex.DecodeString(strings.TrimSpace(string(text))); err != nil || len(secret) != keyBytes {
			return nil, fmt.Errorf("invalid key in %s: expected %d hexadecimal digits. Create a key with ilion backup key FILE",
				path, 2*keyBytes)
		}
	}
	return NewKey(secret)
}

// MakeKey generates a key in a new file that only its owner can read.
func MakeKey(path string) (*Key, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // do not replace the file, because it may be the only key for old backups
		return nil, fmt.Errorf("cannot write the key: %s exists. Specify another file", path)
	}
	if err != nil {
		return nil, err
	}
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // does not fail
	_, err = fmt.Fprintf(f, "%x\n", secret)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return NewKey(secret)
}
