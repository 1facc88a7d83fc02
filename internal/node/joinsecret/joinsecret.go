// SPDX-License-Identifier: Apache-2.0

// Package joinsecret keeps the secret with which nodes authenticate in a cluster without certificates. Start reading
// at Secret.
package joinsecret

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// FileName is the name of the file in the data directory that holds the join secret.
const FileName = "join-secret"

// Secret is the join secret of a node. Its methods must not be called concurrently.
type Secret struct {
	// path is the file from which the secret is read. It is empty if an in-memory node has no configured file. saved
	// is the file in the data directory, or empty for an in-memory node.
	path, saved string
	// needed is set if nodes authenticate with the secret. tls is set if they authenticate with certificates.
	needed, tls bool
	log         *slog.Logger
	value       []byte
}

// Read reads the join secret from the configured file. Without a configured file, it reads the file in the data
// directory that an earlier start has saved. tls reports whether nodes have certificates. In that case, a secret is
// required only if a file is configured. A missing file is not an error (see Check).
func Read(o *options.Options, tls bool, log *slog.Logger) (*Secret, error) {
	c := &o.Cluster
	s := &Secret{path: c.JoinSecretFile, tls: tls, log: log,
		needed: c.Internal != "" && (!tls || c.JoinSecretFile != "")}
	if o.Data != "" {
		s.saved = filepath.Join(o.Data, FileName)
		if s.path == "" {
			s.path = s.saved
		}
	}
	var err error
	if s.needed && s.path != "" {
		s.value, err = readFile(s.path)
	}
	return s, err
}

// Value returns the secret, or nil if the node has none.
func (s *Secret) Value() []byte { return s.value }

// Check returns an error if a required secret is missing.
func (s *Secret) Check() error {
	if s.value != nil || !s.needed {
		return nil
	}
	if s.path == "" {
		return errors.New("a cluster requires a join secret, and an in-memory node has no directory to store it: " +
			"specify --join-secret-file")
	}
	return fmt.Errorf("the join secret is missing (%s): copy the file %s from the data directory of another node "+
		"and specify it with --join-secret-file, or use certificates (cluster.tls)", s.path, FileName)
}

// Save creates the secret of a new cluster unless a secret exists. bootstrap reports whether this node creates the
// cluster. It saves a configured secret in the data directory, so later starts need no option.
func (s *Secret) Save(bootstrap bool) error {
	var was []byte
	var damage error
	if s.saved != "" && s.needed {
		was, damage = readFile(s.saved)
	}
	if s.value == nil && s.needed && bootstrap && s.path != "" {
		if damage != nil {
			return damage
		}
		if s.value = was; was == nil {
			s.value = []byte(rand.Text() + rand.Text())
		}
		if err := writeFile(s.path, s.value); err != nil {
			return fmt.Errorf("join secret: %w", err)
		}
		s.log.LogAttrs(context.Background(), slog.LevelInfo,
			"created a join secret: other nodes need a copy of the file to join (--join-secret-file)",
			slog.String("file", s.path))
	}
	if s.value == nil || s.saved == "" || s.tls {
		return s.Check()
	}
	if damage != nil || was != nil && !bytes.Equal(was, s.value) {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "the join secret differs from the secret of the previous start",
			slog.String("file", s.path), slog.String("kept", s.saved))
	}
	return keepFile(s.saved, s.value)
}

// Ilion writes a secret and its checksum between two markers, in the form ilion:SECRET:CHECKSUM:ilion. A file that
// begins or ends with a marker must be intact. A flipped bit therefore cannot result in another secret. Any other file
// is treated as a secret that an operator wrote.
const secretHead, secretTail = "ilion:", ":ilion"

// format returns the file content for a secret.
func format(secret []byte) string {
	text := secretHead + string(secret)
	return fmt.Sprintf("%s:%08x%s\n", text, crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)), secretTail)
}

// readFile reads a secret from a file that Ilion or an operator wrote. It returns nil if the file does not exist.
func readFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("join secret: %w", err)
	}
	secret, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("join secret: %s %w", path, err)
	}
	return secret, nil
}

// parse returns the secret in a file's content. Its error texts are continuations of a message that begins with the
// file name.
func parse(text string) ([]byte, error) {
	secret := strings.TrimSpace(text)
	if strings.HasPrefix(secret, secretHead) || strings.HasSuffix(secret, secretTail) {
		written := strings.TrimSuffix(strings.TrimPrefix(secret, secretHead), secretTail)
		at := max(0, strings.LastIndexByte(written, ':'))
		if secret+"\n" != format([]byte(written[:at])) {
			return nil, errors.New("is damaged (checksum mismatch): copy it again from the data directory of " +
				"another node of the cluster")
		}
		secret = written[:at]
	}
	const advice = "create one with openssl rand -hex 32"
	if len(secret) < transport.SecretMin {
		return nil, fmt.Errorf("has only %d characters; at least %d are required: %s", len(secret),
			transport.SecretMin, advice)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("must be one line of printable ASCII characters: " + advice)
	}
	return []byte(secret), nil
}

// keepFile writes a secret to a file unless the file already contains it.
func keepFile(path string, secret []byte) error {
	if text, err := os.ReadFile(path); err == nil && string(text) == format(secret) {
		return nil
	}
	if err := writeFile(path, secret); err != nil {
		return fmt.Errorf("join secret: %w", err)
	}
	return nil
}

// writeFile atomically writes a secret to a file that only its owner can read.
func writeFile(path string, secret []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // the file has mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(format(secret))
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
