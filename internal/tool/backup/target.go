// SPDX-License-Identifier: Apache-2.0

package backup

import "context"

// Target is where backups are kept: files that are written once, by names with slashes. Its methods may be called
// concurrently.
type Target interface {
	// Put stores a file as a whole or not at all, durably. One of the name is replaced.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns a file; an error that is fs.ErrNotExist if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Has reports whether there is one.
	Has(ctx context.Context, name string) (bool, error)
	// List returns the names that begin with a prefix, which ends with a slash, in ascending order.
	List(ctx context.Context, prefix string) ([]string, error)
	// Remove removes a file; nothing happens if there is none.
	Remove(ctx context.Context, name string) error
}

// fileName is where a file of a digest is.
func fileName(digest string) string { return "files/" + digest[:2] + "/" + digest }

// manifestName is where the manifest of a backup is.
func manifestName(id string) string { return "backups/" + id + "/manifest" }
