// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/query/container"
)

// These are the modes of a change feed. The names are the names that clients use.
const (
	latestVersions = "incremental feed"
	allVersions    = "full-fidelity feed"
)

// changes returns a page of the change feed. The etag of the response is the continuation. If no more changes exist,
// the response contains only the etag.
func (h *queryHandler) changes(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	r := &container.ChangesRequest{RequestOptions: x.asked()}
	var err error
	if r.Scope, r.MaxItems, err = h.look(x, c); err != nil {
		return nil, err
	}
	switch mode := x.header.Get(hIncremental); strings.ToLower(mode) {
	case latestVersions:
	case allVersions:
		r.AllVersions = true
	default:
		return nil, badRequest("A-IM must be Incremental Feed or Full-Fidelity Feed, not " + strconv.Quote(mode) + ".")
	}
	if refusal := x.feedFrom(r); refusal != nil {
		return nil, refusal
	}
	page, err := h.engine.Changes(ctx, c, r)
	if err != nil {
		return nil, err
	}
	etag := `"` + page.Continuation + `"`
	page.Continuation = ""
	a := h.page(x, c, &page.Page)
	x.set(aETag, etag)
	if page.Ended && len(page.Documents) == 0 {
		return &answer{status: http.StatusNotModified}, nil
	}
	return a, nil
}

// feedFrom determines where a change feed begins. If a client sends both a continuation and a time, the continuation
// has precedence.
func (x *exchange) feedFrom(r *container.ChangesRequest) *failure {
	switch etag := x.header.Get(hIfNoneMatch); etag {
	case "":
	case "*", `"*"`:
		r.Now = true
		return nil
	default:
		r.Continuation = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
		return nil
	}
	text := x.header.Get(hIfModifiedSince)
	if text == "" {
		return nil
	}
	for _, layout := range []string{http.TimeFormat, time.RFC1123, time.RFC3339} {
		if since, err := time.Parse(layout, text); err == nil {
			r.Since = since
			return nil
		}
	}
	return badRequest("If-Modified-Since " + strconv.Quote(text) + " is not a valid time such as Mon, 02 Jan 2006 15:04:05 GMT.")
}
