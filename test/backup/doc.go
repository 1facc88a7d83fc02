// SPDX-License-Identifier: Apache-2.0

// Package backup tests backups and restores of clusters of real processes, which write meanwhile and are killed.
package backup
