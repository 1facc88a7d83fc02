// SPDX-License-Identifier: Apache-2.0

// Package backup tests backups and restores of clusters of real processes, which write during the backup and are
// killed.
package backup
