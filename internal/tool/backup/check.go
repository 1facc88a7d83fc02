// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"path"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// Checker reads the files of backups and compares them with their manifests. If several backups share a file, it reads
// the file once.
type Checker struct {
	Target Target
	// Display shows the progress after each file. It may be nil.
	Display Display

	progress Progress
	// checked maps the files that have been read to their errors.
	checked map[string]error
}

// Check reads all files of a backup. It returns the first error. For example, a file may be missing or damaged.
func (c *Checker) Check(ctx context.Context, m *archive.Manifest) error {
	if c.checked == nil {
		c.checked = map[string]error{}
	}
	var fresh []archive.File
	var failure error
	seen := map[string]bool{}
	m.Files(func(f archive.File) {
		err, known := c.checked[f.Name]
		if failure == nil {
			failure = err
		}
		if !known && !seen[f.Name] {
			seen[f.Name] = true
			fresh = append(fresh, f)
			c.progress.All += f.Bytes
		}
	})
	for _, f := range fresh {
		err := checkFile(ctx, c.Target, f)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.checked[f.Name] = err; err != nil && failure == nil {
			failure = err
		}
		c.progress.Files++
		if c.progress.Done += f.Bytes; c.Display != nil {
			c.Display.Show(c.progress)
		}
	}
	return failure
}

func checkFile(ctx context.Context, t Target, f archive.File) error {
	plain, err := read(ctx, t, f)
	if err != nil {
		return err
	}
	records := 0
	if err := archive.EachRecord(plain, func(_, _ []byte) error { records++; return nil }); err != nil {
		return fmt.Errorf("file %s: %w", f.Name, err)
	}
	if records != f.Records || int64(len(plain)) != f.Bytes {
		return fmt.Errorf("file %s: %w: it contains %d records instead of %d", f.Name, archive.ErrDamaged, records,
			f.Records)
	}
	return nil
}

// complete returns an error if any file of the manifests is missing. It reads only names.
func complete(ctx context.Context, t Target, manifests map[string]*archive.Manifest) (err error) {
	names, err := t.List(ctx, "files/")
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[path.Base(name)] = true
	}
	for id, m := range manifests {
		m.Files(func(f archive.File) {
			if !there[f.Name] && err == nil {
				err = fmt.Errorf("backup %s is incomplete: file %s is missing", id, f.Name)
			}
		})
	}
	return err
}
