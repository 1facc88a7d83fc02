// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"io"
	"net/http"
)

// archiveOrders lists the requests of the backup and restore tools. Package archive defines the bodies and responses of
// these requests.
var archiveOrders = []string{"backup/begin", "backup/mark", "backup/entries", "backup/page", "backup/drop",
	"restore/tables", "restore/rows", "restore/batches", "restore/end"}

// archiveBodyMax is the maximum size, in bytes, of the body of a request in archiveOrders. The body is a file or the
// metadata of a cluster.
const archiveBodyMax = 128 << 20

// archiveOrder serves one of the requests in archiveOrders.
func (h *handler) archiveOrder(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, archiveBodyMax))
		var answer []byte
		if err == nil {
			answer, err = h.Archive.Execute(r.Context(), what, body)
		}
		if err != nil {
			write(w, "", err)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		// If the client has disconnected, it cannot receive an error.
		_, _ = w.Write(answer)
	}
}
