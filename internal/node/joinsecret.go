// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// joinSecretFile is where a node keeps the secret of its cluster, in the data directory.
const joinSecretFile = "join-secret"

// joinSecretPath is the file with the secret of the cluster; empty if there is no place for one.
func (n *Node) joinSecretPath() string {
	if path := n.opts.Cluster.JoinSecretFile; path != "" || n.opts.Data == "" {
		return path
	}
	return filepath.Join(n.opts.Data, joinSecretFile)
}

// needsJoinSecret reports whether nodes prove themselves by a secret: where no file is configured, certificates stand
// for it.
func (n *Node) needsJoinSecret() bool {
	c := &n.opts.Cluster
	return c.Internal != "" && (n.nodeTLS == nil || c.JoinSecretFile != "")
}

// readJoinSecret reads what the nodes of the cluster prove to each other with: from the file that is configured, or
// else from what the data directory keeps of an earlier start. A file that is missing is missed only when it is needed.
func (n *Node) readJoinSecret() error {
	path := n.joinSecretPath()
	if !n.needsJoinSecret() || path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("join secret: %w", err)
	}
	if n.secret = bytes.TrimSpace(text); len(n.secret) < transport.SecretMin {
		return fmt.Errorf("join secret: %s has %d characters, and fewer than %d can be guessed: "+
			"make one with openssl rand -hex 32", path, len(n.secret), transport.SecretMin)
	}
	return nil
}

// checkJoinSecret refuses to go on without the secret where one is needed.
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

// makeJoinSecret draws the secret of a cluster that is founded, if there is none yet, and keeps one that was configured
// in the data directory, so that later starts need no option.
func (n *Node) makeJoinSecret() error {
	kept := filepath.Join(n.opts.Data, joinSecretFile)
	was, err := os.ReadFile(kept)
	if n.opts.Data == "" || err != nil {
		was = nil
	}
	was = bytes.TrimSpace(was)
	path := n.joinSecretPath()
	if n.secret == nil && n.needsJoinSecret() && n.opts.Cluster.Bootstrap && path != "" {
		if n.secret = was; len(was) == 0 {
			n.secret = []byte(rand.Text() + rand.Text())
		}
		if err := writeSecret(path, n.secret); err != nil {
			return fmt.Errorf("join secret: %w", err)
		}
		n.log.LogAttrs(context.Background(), slog.LevelInfo,
			"join secret made: nodes that are to join need a copy of the file (--join-secret-file)",
			slog.String("file", path))
	}
	if n.secret == nil || n.opts.Data == "" || n.nodeTLS != nil || bytes.Equal(was, n.secret) {
		return n.checkJoinSecret()
	}
	return writeSecret(kept, n.secret)
}

// writeSecret writes a line to a file that only its owner can read, whole or not at all.
func writeSecret(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(bytes.Clone(text), '\n'))
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
