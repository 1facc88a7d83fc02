// SPDX-License-Identifier: Apache-2.0

package backup

import "context"

// Target stores backups. It holds files that are written once and whose names may contain slashes. Its methods must be
// safe for concurrent use.
type Target interface {
	// Put stores a file durably and atomically. If a file with the same name exists, Put replaces it.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns a file. If the file does not exist, the error matches fs.ErrNotExist.
	Get(ctx context.Context, name string) ([]byte, error)
	// Has reports whether a file exists.
	Has(ctx context.Context, name string) (bool, error)
	// List returns, in ascending order, the names that start with a prefix. The prefix ends with a slash.
	List(ctx context.Context, prefix string) ([]string, error)
	// Remove deletes a file. If the file does not exist, Remove also succeeds.
	Remove(ctx context.Context, name string) error
}

// fileName returns the name of the file with the given digest.
func fileName(digest string) string { return "files/" + digest[:2] + "/" + digest }

// manifestName returns the name of the manifest of a backup.
func manifestName(id string) string { return "backups/" + id + "/manifest" }
