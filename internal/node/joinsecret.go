// SPDX-License-Identifier: Apache-2.0

package node

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

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// joinSecretFile is the file in the data directory that holds the cluster's join secret.
const joinSecretFile = "join-secret"

// joinSecretPath returns the path of the join secret, or an empty string for an in-memory node.
func (n *Node) joinSecretPath() string {
	if path := n.opts.Cluster.JoinSecretFile; path != "" || n.opts.Data == "" {
		return path
	}
	return filepath.Join(n.opts.Data, joinSecretFile)
}

// needsJoinSecret reports whether nodes authenticate with a secret. Without a configured file, certificates replace the
// secret.
func (n *Node) needsJoinSecret() bool {
	c := &n.opts.Cluster
	return c.Internal != "" && (n.nodeTLS == nil || c.JoinSecretFile != "")
}

// readJoinSecret reads the join secret from the configured file, or else from the data directory, where an earlier
// start has saved it. A missing file is an error only if the secret is needed.
func (n *Node) readJoinSecret() (err error) {
	if path := n.joinSecretPath(); n.needsJoinSecret() && path != "" {
		n.secret, err = readSecret(path)
	}
	return err
}

// checkJoinSecret returns an error if a required join secret is missing.
func (n *Node) checkJoinSecret() error {
	if n.secret != nil || !n.needsJoinSecret() {
		return nil
	}
	path := n.joinSecretPath()
	if path == "" {
		return errors.New("a cluster needs a join secret, and a node in memory has no directory for it: " +
			"give --join-secret-file")
	}
	return fmt.Errorf("the join secret is missing (%s): copy the file %s from the data directory of a node of the cluster "+
		"and give it with --join-secret-file, or use certificates (cluster.tls)", path, joinSecretFile)
}

// makeJoinSecret creates the secret of a new cluster unless one exists. It saves a configured secret in the data
// directory, so that later starts need no option.
func (n *Node) makeJoinSecret() error {
	path, kept := n.joinSecretPath(), filepath.Join(n.opts.Data, joinSecretFile)
	var was []byte
	var damage error
	if n.opts.Data != "" && n.needsJoinSecret() {
		was, damage = readSecret(kept)
	}
	if n.secret == nil && n.needsJoinSecret() && n.opts.Cluster.Bootstrap && path != "" {
		if damage != nil {
			return damage
		}
		if n.secret = was; was == nil {
			n.secret = []byte(rand.Text() + rand.Text())
		}
		if err := writeSecret(path, n.secret); err != nil {
			return fmt.Errorf("join secret: %w", err)
		}
		n.log.LogAttrs(context.Background(), slog.LevelInfo,
			"join secret made: nodes that are to join need a copy of the file (--join-secret-file)",
			slog.String("file", path))
	}
	if n.secret == nil || n.opts.Data == "" || n.nodeTLS != nil {
		return n.checkJoinSecret()
	}
	if damage != nil || was != nil && !bytes.Equal(was, n.secret) {
		n.log.LogAttrs(context.Background(), slog.LevelWarn, "the join secret is not the one of the last start",
			slog.String("file", path), slog.String("kept", kept))
	}
	return keepSecret(kept, n.secret)
}

// Ilion writes a secret between two markers with its checksum: ilion:SECRET:CHECKSUM:ilion. A file that begins or ends
// with a marker must be intact, so a flipped bit cannot produce another secret. Any other file is used as a secret
// written by an operator.
const secretHead, secretTail = "ilion:", ":ilion"

// formatSecret returns the file content for a secret.
func formatSecret(secret []byte) string {
	text := secretHead + string(secret)
	return fmt.Sprintf("%s:%08x%s\n", text, crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)), secretTail)
}

// readSecret reads a secret from a file, whether written by Ilion or an operator. It returns nil if the file does not
// exist.
func readSecret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("join secret: %w", err)
	}
	secret, err := parseSecret(string(text))
	if err != nil {
		return nil, fmt.Errorf("join secret: %s %w", path, err)
	}
	return secret, nil
}

// parseSecret returns the secret in a file's content. Its errors continue a message that begins with the file name.
func parseSecret(text string) ([]byte, error) {
	secret := strings.TrimSpace(text)
	if strings.HasPrefix(secret, secretHead) || strings.HasSuffix(secret, secretTail) {
		written := strings.TrimSuffix(strings.TrimPrefix(secret, secretHead), secretTail)
		at := max(0, strings.LastIndexByte(written, ':'))
		if secret+"\n" != formatSecret([]byte(written[:at])) {
			return nil, errors.New("is damaged, its checksum does not fit: copy it again from the data directory of " +
				"another node of the cluster")
		}
		secret = written[:at]
	}
	const advice = "make one with openssl rand -hex 32"
	if len(secret) < transport.SecretMin {
		return nil, fmt.Errorf("has %d characters, and fewer than %d can be guessed: %s", len(secret),
			transport.SecretMin, advice)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("is not one line of printable ASCII characters: " + advice)
	}
	return []byte(secret), nil
}

// keepSecret writes a secret to a file unless the file already contains it.
func keepSecret(path string, secret []byte) error {
	if text, err := os.ReadFile(path); err == nil && string(text) == formatSecret(secret) {
		return nil
	}
	if err := writeSecret(path, secret); err != nil {
		return fmt.Errorf("join secret: %w", err)
	}
	return nil
}

// writeSecret atomically writes a secret to a file that only its owner can read.
func writeSecret(path string, secret []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(formatSecret(secret))
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
