// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/ilion-db/ilion/internal/query/cql/view"
)

// verifyRowsMax is the maximum number of rows that one request verifies.
const verifyRowsMax = 1000

// verifyOrder decodes a request.
func verifyOrder(r *http.Request) (o view.VerifyRequest, err error) {
	q := r.URL.Query()
	o.Kind, o.Name, o.From, o.Repair = q.Get("kind"), q.Get("name"), q.Get("from"), q.Get("repair") == "true"
	if o.Rows, err = strconv.Atoi(q.Get("rows")); err != nil || o.Rows < 1 || o.Rows > verifyRowsMax {
		return o, fmt.Errorf("invalid rows %q: expected a number from 1 to %d", q.Get("rows"), verifyRowsMax)
	}
	if o.Kind != "view" && o.Kind != "index" {
		return o, fmt.Errorf("invalid kind %q: expected view or index", o.Kind)
	}
	return o, nil
}

// verifyPage serves POST /verify.
func (h *handler) verifyPage(w http.ResponseWriter, r *http.Request) {
	request, err := verifyOrder(r)
	var page *view.VerifyResponse
	if err == nil {
		page, err = h.Verifier.Verify(r.Context(), request)
	}
	if err != nil {
		write(w, "", err)
		return
	}
	writeJSON(w, page)
}
