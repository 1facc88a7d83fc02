// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/tool/bucket"
)

// Place describes a repository and how to access it.
type Place struct {
	// Name is a directory, or s3://BUCKET/PREFIX.
	Name string
	// Bucket configures access to a bucket.
	Bucket bucket.Options
	// Key encrypts the files, if it is not nil.
	Key *Key
}

// kinds lists the top-level names of a repository.
var kinds = []string{"files", "backups", "pending", sealedName}

// listed is a Target that can list its top-level names.
type listed interface {
	Target
	top(ctx context.Context) ([]string, error)
}

// Open returns the target of a repository. If create is set, it initializes an empty repository; an encrypted one
// receives a marker file.
func (p *Place) Open(ctx context.Context, create bool) (Target, error) {
	t, err := p.open(create)
	if err != nil {
		return nil, err
	}
	top, err := t.top(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there are no backups in %s: no such directory", p.Name)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range top {
		if !slices.Contains(kinds, name) {
			return nil, fmt.Errorf("%s has %q in it, which is not part of a backup: give a place of its own", p.Name, name)
		}
	}
	encrypted := slices.Contains(top, sealedName)
	switch {
	case p.Key == nil && encrypted:
		return nil, fmt.Errorf("the backups in %s are encrypted: give the key, by --key-file FILE", p.Name)
	case p.Key == nil:
		return t, nil
	case !encrypted && len(top) > 0:
		return nil, fmt.Errorf("the backups in %s are not encrypted: leave out the key, or give an empty place", p.Name)
	}
	sealed := p.Key.seal(t)
	if !encrypted && create {
		return sealed, sealed.begin(ctx)
	}
	if encrypted {
		return sealed, sealed.check(ctx, p.Name)
	}
	return sealed, nil
}

func (p *Place) open(create bool) (listed, error) {
	if p.Name == "" {
		return nil, errors.New("a backup needs a place: give a directory, or s3://BUCKET/PREFIX")
	}
	scheme, rest, ok := strings.Cut(p.Name, "://")
	switch {
	case ok && scheme == "s3":
		return openBucket(rest, p.Bucket)
	case ok:
		return nil, fmt.Errorf("%s is no place for backups: give a directory or s3://BUCKET/PREFIX, %s:// is not spoken",
			p.Name, scheme)
	}
	d := directory(filepath.Clean(p.Name))
	if create {
		if err := d.begin(time.Now()); err != nil {
			return nil, err
		}
	}
	return d, nil
}
