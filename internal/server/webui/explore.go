// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
)

const (
	// exploreMost is the maximum number of concurrent statements from all browsers. exploreFor is the time limit of a
	// statement.
	exploreMost = 8
	exploreFor  = 30 * time.Second
	// PageRows is the number of rows on a page of the explorer. cellMost is the maximum size of a displayed value, in
	// bytes.
	PageRows = 100
	cellMost = 2000
	// formMost is the maximum size of a submitted form, in bytes.
	formMost = 256 << 10
)

// Query is a statement that the user has entered.
type Query struct {
	Text     string
	Keyspace string
	// State is the paging state. It is empty for the first page.
	State []byte
}

// Answer is the result of a statement.
type Answer struct {
	Columns []string
	// Rows contains the values as text. The value nil represents null.
	Rows [][]*string
	// State is the paging state of the next page. It is empty after the last page.
	State []byte
	// Keyspace is the keyspace of a USE statement.
	Keyspace string
	// Done describes the effect of a statement without rows.
	Done     string
	Warnings []string
	Units    float64
}

// exploreBody is the form with the result of the statement.
type exploreBody struct {
	Statement, Keyspace string
	*Answer
	Asked bool
	Error string
	// Next is State in base64.
	Next string
	Took string
}

func (s *site) exploreForm(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.showExplore(w, r, http.StatusOK, &exploreBody{Statement: q.Get("statement"), Keyspace: q.Get("keyspace")})
}

// exploreRun executes the statement or returns its estimated cost.
func (s *site) exploreRun(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, formMost)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form is malformed or exceeds 256 KiB", http.StatusBadRequest)
		return
	}
	b := &exploreBody{Statement: r.PostForm.Get("statement"), Keyspace: strings.TrimSpace(r.PostForm.Get("keyspace"))}
	state, err := base64.StdEncoding.DecodeString(r.PostForm.Get("state"))
	if err != nil {
		http.Error(w, "invalid paging state: run the statement again", http.StatusBadRequest)
		return
	}
	select {
	case s.explore <- struct{}{}:
		defer func() { <-s.explore }()
	default:
		b.Error = "Too many statements are running. Retry when one of them has finished."
		s.showExplore(w, r, http.StatusServiceUnavailable, b)
		return
	}
	text := strings.TrimRight(strings.TrimSpace(b.Statement), "; \n\t\r")
	if r.PostForm.Get("do") == "explain" {
		text, state = "EXPLAIN "+text, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), exploreFor)
	defer cancel()
	began := s.o.Clock.Wall()
	query := Query{Text: text, Keyspace: b.Keyspace, State: state}
	b.Answer, err = s.o.Explorer.Explore(ctx, admin.Role(r.Context()), query)
	b.Took, b.Asked = millis(float64(s.o.Clock.Wall().Sub(began).Microseconds())/1000), true
	if err != nil {
		b.Error = err.Error()
		s.showExplore(w, r, http.StatusOK, b)
		return
	}
	for _, row := range b.Rows {
		for i, cell := range row {
			if cell != nil && len(*cell) > cellMost {
				cut := strings.ToValidUTF8((*cell)[:cellMost], "") + " …"
				row[i] = &cut
			}
		}
	}
	if b.Answer.Keyspace != "" {
		b.Keyspace = b.Answer.Keyspace
	}
	b.Next = base64.StdEncoding.EncodeToString(b.State)
	s.showExplore(w, r, http.StatusOK, b)
}

// showExplore shows the form. The form does not show the state of the cluster. Therefore, a role can use the explorer
// without the permission to see that state.
func (s *site) showExplore(w http.ResponseWriter, r *http.Request, code int, b *exploreBody) {
	s.show(w, r, code, &shell{View: "explore", Title: titles["explore"], Body: b})
}
