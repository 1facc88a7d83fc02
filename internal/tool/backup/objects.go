// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/tool/bucket"
)

const (
	// fileBytesMax is the maximum stored size of a file of rows. It is archive.FileMax plus one row, without
	// compression.
	fileBytesMax = archive.FileMax + archive.RecordMax + 8<<20
	// objectBytesMax is the maximum size of other files, such as manifests.
	objectBytesMax = 1 << 30
)

// objects is a Target in a bucket.
type objects struct {
	bucket *bucket.Bucket
	// prefix is the prefix of all keys. It is empty or ends with a slash.
	prefix string
}

// openBucket returns the target for BUCKET/PREFIX.
func openBucket(name string, o bucket.Options) (*objects, error) {
	name, prefix, _ := strings.Cut(name, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		for _, part := range strings.Split(prefix, "/") {
			if part == "" || part == "." || part == ".." {
				return nil, fmt.Errorf("invalid prefix %q: no part may be empty, . or ..", prefix)
			}
		}
		if !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, unicode.IsControl) {
			return nil, fmt.Errorf("invalid prefix %q: it contains control characters", prefix)
		}
		prefix += "/"
	}
	b, err := bucket.Open(name, o)
	if err != nil {
		return nil, err
	}
	return &objects{b, prefix}, nil
}

// top implements listed.
func (o *objects) top(ctx context.Context) ([]string, error) {
	keys, err := o.bucket.List(ctx, o.prefix, "/")
	var out []string
	for _, key := range keys {
		// Some tools create an empty object to represent a folder.
		if name := strings.TrimSuffix(strings.TrimPrefix(key, o.prefix), "/"); name != "" {
			out = append(out, name)
		}
	}
	return out, err
}

// Put implements Target.
func (o *objects) Put(ctx context.Context, name string, data []byte) error {
	if most := bytesMax(name); int64(len(data)) > most {
		return fmt.Errorf("%s has %d bytes; the limit of a bucket is %d", name, len(data), most)
	}
	return o.bucket.Put(ctx, o.prefix+name, data)
}

func bytesMax(name string) int64 {
	if strings.HasPrefix(name, "files/") {
		return fileBytesMax
	}
	return objectBytesMax
}

// Get implements Target.
func (o *objects) Get(ctx context.Context, name string) ([]byte, error) {
	return o.bucket.Get(ctx, o.prefix+name, bytesMax(name))
}

// Has implements Target.
func (o *objects) Has(ctx context.Context, name string) (bool, error) {
	return o.bucket.Has(ctx, o.prefix+name)
}

// List implements Target.
func (o *objects) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := o.bucket.List(ctx, o.prefix+prefix, "")
	out := make([]string, 0, len(keys))
	for _, key := range keys {
		if !strings.HasSuffix(key, "/") { // see top for this case
			out = append(out, strings.TrimPrefix(key, o.prefix))
		}
	}
	return slices.Clip(out), err
}

// Remove implements Target.
func (o *objects) Remove(ctx context.Context, name string) error {
	return o.bucket.Remove(ctx, o.prefix+name)
}
