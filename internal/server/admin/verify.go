// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"strconv"
)

// verifyRowsMax bounds the rows of a page that is verified.
const verifyRowsMax = 1000

// VerifyOrder is an order to compare a page of a view, or of an index, with its table.
type VerifyOrder struct {
	// Kind is view or index, Name its name with the keyspace.
	Kind, Name string
	// From is the VerifyPage.Next of the page before, empty for the first one. Rows is about how many rows are looked
	// at, 1000 at most.
	From string
	Rows int
	// Repair has what differs made good.
	Repair bool
}

// VerifyPage is what came of it.
type VerifyPage struct {
	// Rows were looked at; of them Busy were changed each time, and nothing is known of them.
	Rows int `json:"rows"`
	Busy int `json:"busy"`
	// View says that they are rows of the view, which were looked for in its table.
	View        bool               `json:"view"`
	Differences []VerifyDifference `json:"differences"`
	// Next is where the next page begins, empty after the last one.
	Next string `json:"next"`
}

// VerifyDifference is a row that differs.
type VerifyDifference struct {
	Row      string `json:"row"`
	What     string `json:"what"`
	Repaired bool   `json:"repaired"`
}

// verifyOrder reads an order off a request.
func verifyOrder(r *http.Request) (o VerifyOrder, err error) {
	q := r.URL.Query()
	o.Kind, o.Name, o.From, o.Repair = q.Get("kind"), q.Get("name"), q.Get("from"), q.Get("repair") == "true"
	if o.Rows, err = strconv.Atoi(q.Get("rows")); err != nil || o.Rows < 1 || o.Rows > verifyRowsMax {
		return o, fmt.Errorf("rows is %q: give a number from 1 to %d", q.Get("rows"), verifyRowsMax)
	}
	if o.Kind != "view" && o.Kind != "index" {
		return o, fmt.Errorf("kind is %q: what is verified is a view or an index", o.Kind)
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
