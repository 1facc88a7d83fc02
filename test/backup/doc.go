// SPDX-License-Identifier: Apache-2.0

// Package backup tests backups and restores of clusters of real processes. Clients write during the backup, and
// processes are killed.
package backup
