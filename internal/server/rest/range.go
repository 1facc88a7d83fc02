// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ilion-db/ilion/internal/query/container"
)

// rangeResource is a physical partition in the client's format.
type rangeResource struct {
	RID      string   `json:"_rid"`
	ID       string   `json:"id"`
	ETag     string   `json:"_etag"`
	Min      string   `json:"minInclusive"`
	Max      string   `json:"maxExclusive"`
	Prefix   int      `json:"ridPrefix"`
	Self     string   `json:"_self"`
	Fraction float64  `json:"throughputFraction"`
	Status   string   `json:"status"`
	Parents  []string `json:"parents"`
	TS       int64    `json:"_ts"`
}

// listRanges lists the physical partitions of a container. Clients repeat the request with the etag until the response
// is 304.
func (x *exchange) listRanges(context.Context) (*answer, error) {
	c, err := x.container(true)
	if err != nil {
		return nil, err
	}
	ranges, etag := x.server.engine.Ranges(c)
	x.set(aETag, etag)
	if matchesETag(x.header.Get(hIfNoneMatch), etag) {
		return &answer{status: http.StatusNotModified}, nil
	}
	live := map[string]bool{}
	for i := range ranges {
		live[ranges[i].ID] = true
	}
	all := make([][]byte, len(ranges))
	for i := range ranges {
		r := &ranges[i]
		// Clients forget a range that is a parent of another range. A range that still exists with a part of its keys
		// must not be reported as a parent.
		parents := []string{}
		for _, p := range r.Parents {
			if !live[p] {
				parents = append(parents, p)
			}
		}
		all[i], err = json.Marshal(rangeResource{RID: c.RID, ID: r.ID, ETag: etag, Min: r.Min, Max: r.Max,
			Self: c.Self() + "pkranges/" + r.ID + "/", Fraction: 1 / float64(len(ranges)), Status: "online",
			Parents: parents, TS: c.TS})
		if err != nil {
			return nil, err
		}
	}
	return x.feed(c.RID, "PartitionKeyRanges", all), nil
}

// session processes the session tokens of a request, so that responses do not report older progress.
func (x *exchange) session() {
	for token := range strings.SplitSeq(x.header.Get(hSession), ",") {
		if id, lsn, ok := parseSession(token); ok {
			x.server.engine.Seen(id, lsn)
		}
	}
}

// sessionOf sets the session token of a whole container.
func (x *exchange) sessionOf(c *container.Container) {
	ranges, _ := x.server.engine.Ranges(c)
	var text []byte
	for i := range ranges {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendSession(text, ranges[i].ID, x.server.engine.LSN(ranges[i].ID))
	}
	if len(text) > 0 && len(text) < sessionMax {
		x.set(aSession, string(text))
	}
}
