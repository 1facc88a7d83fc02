// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// List returns the IDs of the complete backups in a target. The oldest backup is first.
func List(ctx context.Context, t Target) (ids []string, err error) {
	names, err := t.List(ctx, "backups/")
	for _, name := range names {
		id, ok := strings.CutPrefix(path.Dir(name), "backups/")
		switch {
		case !ok || path.Base(name) != "manifest":
		case !archive.ValidID(id):
			return nil, fmt.Errorf("%.100q is not a backup ID. Remove this directory from the repository", id)
		default:
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Load reads the manifest of a backup.
func Load(ctx context.Context, t Target, id string) (*archive.Manifest, error) {
	if !archive.ValidID(id) {
		return nil, fmt.Errorf("%.100q is not a backup ID. Run ilion backup list to list the backups", id)
	}
	data, err := t.Get(ctx, manifestName(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("backup %s does not exist. Run ilion backup list", id)
	}
	if err != nil {
		return nil, err
	}
	m, err := archive.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", id, err)
	}
	if m.ID != id {
		return nil, fmt.Errorf("backup %s: %w: its manifest belongs to backup %s", id, archive.ErrDamaged, m.ID)
	}
	return m, nil
}

// Newest returns the manifest with the given ID. If the ID is empty, Newest returns the manifest of the newest backup
// of the cluster to which the repository belongs.
func Newest(ctx context.Context, t Target, id string) (*archive.Manifest, error) {
	if id != "" {
		return Load(ctx, t, id)
	}
	owner, err := Owner(ctx, t)
	if err != nil {
		return nil, err
	}
	ids, err := List(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Backward(ids) {
		if m, err := Load(ctx, t, id); err != nil || m.Cluster == owner {
			return m, err
		}
	}
	return nil, errors.New("cannot find a backup: the repository contains no complete backup. Check the path, or " +
		"create a backup")
}

// read returns the decompressed contents of a file.
func read(ctx context.Context, t Target, f archive.File) ([]byte, error) {
	if !archive.ValidName(f.Name) {
		return nil, fmt.Errorf("%w: the file name %.100q is not a digest", archive.ErrDamaged, f.Name)
	}
	data, err := t.Get(ctx, fileName(f.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("backup file %s is missing", f.Name)
	}
	if err != nil {
		return nil, err
	}
	return archive.Unpack(f.Name, data)
}
