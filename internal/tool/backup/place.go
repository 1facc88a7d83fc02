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

// Place describes a repository and the access to the repository.
type Place struct {
	// Name is a directory or has the form s3://BUCKET/PREFIX.
	Name string
	// Bucket configures access to a bucket.
	Bucket bucket.Options
	// Key, if not nil, encrypts the files.
	Key *Key
}

// kinds lists the names at the top level of a repository.
var kinds = []string{"files", "backups", "pending", sealedName}

// listed is a Target that can list its names at the top level.
type listed interface {
	Target
	top(ctx context.Context) ([]string, error)
}

// Open returns the target of a repository. If create is set, Open initializes an empty repository. An encrypted
// repository contains a marker file.
func (p *Place) Open(ctx context.Context, create bool) (Target, error) {
	t, err := p.open(create)
	if err != nil {
		return nil, err
	}
	top, err := t.top(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot open repository %s: the directory does not exist", p.Name)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range top {
		if !slices.Contains(kinds, name) {
			return nil, fmt.Errorf("cannot use %s as a backup repository: it contains %q. Specify an empty directory", p.Name, name)
		}
	}
	encrypted := slices.Contains(top, sealedName)
	switch {
	case p.Key == nil && encrypted:
		return nil, fmt.Errorf("cannot open repository %s: it is encrypted. Specify the key with --key-file", p.Name)
	case p.Key == nil:
		return t, nil
	case !encrypted && len(top) > 0:
		return nil, fmt.Errorf("repository %s is not encrypted. Omit the key, or specify an empty repository", p.Name)
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
		return nil, errors.New("no repository: specify a directory or s3://BUCKET/PREFIX")
	}
	scheme, rest, ok := strings.Cut(p.Name, "://")
	switch {
	case ok && scheme == "s3":
		return openBucket(rest, p.Bucket)
	case ok:
		return nil, fmt.Errorf("invalid repository %s: %s:// is not supported. Specify a directory or s3://BUCKET/PREFIX",
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
