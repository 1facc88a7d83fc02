// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"strconv"
)

// verifyRowsMax is the maximum number of rows that one request verifies.
const verifyRowsMax = 1000

// VerifyOrder describes the comparison of a page of a view or an index with its table.
type VerifyOrder struct {
	// Kind is view or index, and Name the name with the keyspace.
	Kind, Name string
	// From is the VerifyPage.Next of the previous page, or empty for the first page. Rows is the approximate number of
	// rows to check, up to 1000.
	From string
	Rows int
	// Repair repairs differences.
	Repair bool
}

// VerifyPage is the result of a comparison.
type VerifyPage struct {
	// Rows is the number of checked rows. Busy is the number of rows that changed during every attempt to check them.
	Rows int `json:"rows"`
	Busy int `json:"busy"`
	// View is set if the rows are rows of the view that were compared with its table.
	View        bool               `json:"view"`
	Differences []VerifyDifference `json:"differences"`
	// Next is the start of the next page, or empty after the last one.
	Next string `json:"next"`
}

// VerifyDifference is a row that differs.
type VerifyDifference struct {
	Row      string `json:"row"`
	What     string `json:"what"`
	Repaired bool   `json:"repaired"`
}

// verifyOrder decodes a request.
func verifyOrder(r *http.Request) (o VerifyOrder, err error) {
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
func verifyPage(o *Options) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked, err := verifyOrder(r)
		var page *VerifyPage
		if err == nil {
			page, err = o.Verify(r.Context(), asked)
		}
		if err != nil {
			write(w, "", err)
			return
		}
		writeJSON(w, page)
	}
}
