// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/server/audit"
)

// rotationCheck is the interval at which the node checks whether the data key is due for replacement.
const rotationCheck = 10 * time.Second

// openFiles returns the file system of the stores and the data directory in it. The files are encrypted if a store key
// is configured.
func (n *Node) openFiles(ctx context.Context) (fs vfs.FS, dir string, err error) {
	dir = n.opts.Data
	if dir == "" {
		return vfs.NewMem(), memoryDir, nil
	}
	auditFiles := n.opts.Audit.Dir
	if auditFiles == "" {
		auditFiles = filepath.Join(dir, auditDir)
	}
	e := &n.opts.Storage.Encryption
	n.keys, err = encryption.Open(ctx, vfs.Default, encryption.Options{Key: e.Key(), Old: e.OldKey(),
		Rotation: e.Rotation, Bits: e.DataKeyBits, Decrypt: e.Decrypt,
		Dirs: []string{dir, filepath.Join(dir, membership.LogDir), auditFiles}})
	if err != nil {
		return nil, "", fmt.Errorf("open data directory %s: %w", dir, err)
	}
	if n.keys == nil {
		return vfs.Default, dir, nil
	}
	return n.keys.FS(), dir, nil
}

// sealer returns the encryption of the audit log, or nil.
func (n *Node) sealer() audit.Sealer {
	if n.keys == nil {
		return nil
	}
	return n.keys
}

// maintainKeys removes temporary files of an earlier process, logs the state of the encryption, and replaces the data
// key when it is due. The stores must be open.
func (n *Node) maintainKeys(ctx context.Context) error {
	if n.keys == nil {
		return nil
	}
	if err := n.keys.RemoveRewrites(); err != nil {
		return err
	}
	s, err := n.keys.Status()
	if err != nil {
		return err
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "encryption at rest", slog.Bool("enabled", s.Enabled),
		slog.String("store_key", s.StoreKey), slog.String("source", s.Source), slog.String("data_key", s.DataKey),
		slog.Time("data_key_created", s.Created), slog.Int64("encrypted_bytes", s.Encrypted.Bytes),
		slog.Int64("outdated_bytes", s.Outdated.Bytes), slog.Int64("plain_bytes", s.Plain.Bytes))
	if forgotten, err := n.keys.Forget(); err != nil {
		return err
	} else if forgotten {
		n.log.LogAttrs(ctx, slog.LevelInfo, "the data directory is decrypted: remove storage.encryption from the configuration",
			slog.String("data", n.opts.Data))
	}
	n.life.Background(n.rotateKeys)
	return nil
}

// rotateKeys replaces the data key whenever it is due, until ctx ends.
func (n *Node) rotateKeys(ctx context.Context) {
	tick := time.NewTicker(rotationCheck)
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			switch id, rotated, err := n.keys.RotateIfDue(now); {
			case err != nil && !failed:
				failed = true
				n.log.LogAttrs(ctx, slog.LevelError, "cannot replace the data key", slog.String("error", err.Error()))
			case rotated:
				failed = false
				n.log.LogAttrs(ctx, slog.LevelInfo, "data key replaced", slog.String("data_key", id.String()))
			}
		}
	}
}
