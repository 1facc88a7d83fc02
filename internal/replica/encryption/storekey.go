// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// keyBytes is the length of store keys and data keys.
	keyBytes = 32
	// sourceMax is the maximum number of bytes that are read from a key file or a key command.
	sourceMax = 4096
	// CommandTimeout is the maximum run time of a key command.
	CommandTimeout = 10 * time.Second
	// errorTextMax is the maximum length of a command's error output in a message.
	errorTextMax = 200
)

// StoreKey is the key of an operator, which encrypts the registry of data keys.
type StoreKey struct {
	registry    cipher.AEAD
	fingerprint string
}

// NewStoreKey derives a StoreKey from 32 random bytes.
func NewStoreKey(secret []byte) (*StoreKey, error) {
	if len(secret) != keyBytes {
		return nil, fmt.Errorf("a store key must have %d bytes, not %d", keyBytes, len(secret))
	}
	aead, err := newGCM(secret, "ilion store key 1 registry")
	if err != nil {
		return nil, err
	}
	proof, err := hkdf.Key(sha256.New, secret, nil, "ilion store key 1 fingerprint", 8)
	if err != nil {
		return nil, err
	}
	return &StoreKey{registry: aead, fingerprint: hex.EncodeToString(proof)}, nil
}

// newGCM returns AES-256-GCM with a key that is derived from secret for a purpose.
func newGCM(secret []byte, purpose string) (cipher.AEAD, error) {
	block, err := newAES(secret, purpose, keyBytes)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// newAES returns AES with a key of size bytes that is derived from secret for a purpose.
func newAES(secret []byte, purpose string, size int) (cipher.Block, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, size)
	if err != nil {
		return nil, err
	}
	return aes.NewCipher(key)
}

// Fingerprint identifies the key without revealing it.
func (k *StoreKey) Fingerprint() string { return k.fingerprint }

// KeySource is the source of a store key: a file, or the output of a command. At most one is set.
type KeySource struct {
	// File contains the key: 64 hexadecimal digits or 32 bytes.
	File string
	// Command is a program with its arguments, separated by spaces. No shell interprets it. The program must write the
	// key to its standard output as 64 hexadecimal digits within CommandTimeout.
	Command string
}

// Configured reports whether a file or a command is set.
func (s KeySource) Configured() bool { return s.File != "" || s.Command != "" }

// String returns the source for messages.
func (s KeySource) String() string {
	if words := strings.Fields(s.Command); len(words) > 0 {
		return "the command " + words[0] // its arguments may be secret
	}
	return s.File
}

// Read returns the key.
func (s KeySource) Read(ctx context.Context) (*StoreKey, error) {
	text, err := s.text(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the store key from %s: %w", s, err)
	}
	return s.decode(text)
}

// decode returns the key in the contents of the file or the output of the command.
func (s KeySource) decode(text []byte) (*StoreKey, error) {
	if s.Command == "" && len(text) == keyBytes {
		return NewStoreKey(text)
	}
	secret, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(secret) != keyBytes {
		return nil, fmt.Errorf("invalid store key from %s: expected %d hexadecimal digits. "+
			"Create a key with ilion encryption key FILE", s, 2*keyBytes)
	}
	return NewStoreKey(secret)
}

func (s KeySource) text(ctx context.Context) ([]byte, error) {
	if s.Command != "" {
		return s.run(ctx, CommandTimeout)
	}
	f, err := os.Open(s.File)
	if err != nil {
		return nil, unnamed(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, sourceMax))
	return b, unnamed(err)
}

// unnamed removes the operation and the path from an error, because the message around it names the file.
func unnamed(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// run runs the command and returns its output. It ends the command after timeout.
func (s KeySource) run(ctx context.Context, timeout time.Duration) ([]byte, error) {
	words := strings.Fields(s.Command)
	if len(words) == 0 {
		return nil, errors.New("the command is empty")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.WaitDelay = time.Second // a child of the command may keep its output open
	var out, said limitedBuffer
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("the command did not end within %s", timeout)
	}
	if err != nil {
		text := strings.Join(strings.Fields(string(said.kept)), " ")
		if len(text) > errorTextMax {
			text = text[:errorTextMax] + "..."
		}
		if text != "" {
			return nil, fmt.Errorf("%w (%q)", err, text)
		}
		return nil, err
	}
	return out.kept, nil
}

// limitedBuffer keeps the first sourceMax bytes and discards the rest, so that a command cannot fill the memory.
type limitedBuffer struct{ kept []byte }

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), sourceMax-len(b.kept))]...)
	return len(p), nil
}

// MakeKey generates a store key in a new file that only its owner can read.
func MakeKey(path string) (*StoreKey, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // do not replace the file, because it may be the only key of a data directory
		return nil, fmt.Errorf("cannot write the key: %s exists. Specify another file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write the key: %w", err)
	}
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // does not fail
	_, err = fmt.Fprintf(f, "%x\n", secret)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("cannot write the key: %w", err)
	}
	return NewStoreKey(secret)
}
