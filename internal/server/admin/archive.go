// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"io"
	"net/http"
)

// archiveOrders are those of backups and restores. What they take and answer is said in package archive; it is for
// tools.
var archiveOrders = []string{"backup/begin", "backup/mark", "backup/entries", "backup/page", "backup/drop",
	"restore/tables", "restore/rows", "restore/batches", "restore/end"}

// archiveBodyMax bounds what such an order comes with, in bytes: a file, or what a cluster knows of itself.
const archiveBodyMax = 128 << 20

// archiveOrder serves one of them.
func archiveOrder(o *Options, what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, archiveBodyMax))
		var answer []byte
		if err == nil {
			answer, err = o.Archive(r.Context(), what, body)
		}
		if err != nil {
			write(w, "", err)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		// A client that went away in the middle of its answer is nobody to report to.
		_, _ = w.Write(answer)
	}
}
