// SPDX-License-Identifier: Apache-2.0

// Package backup tests backups and restores of clusters of real processes. During the backups, clients write, and
// processes are killed.
package backup
