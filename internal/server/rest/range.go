// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"net/http"

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

// rangeHandler serves the physical partitions of containers.
type rangeHandler struct{ progress }

// list lists the physical partitions of a container. Clients repeat the request with the etag until the response has
// the status 304.
func (h rangeHandler) list(_ context.Context, x *exchange, c *container.Container) (*answer, error) {
	ranges, etag := h.Ranges(c)
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
		// Clients remove a range if another range names it as a parent. A range that still exists with some of its
		// keys must therefore not be reported as a parent.
		parents := []string{}
		for _, p := range r.Parents {
			if !live[p] {
				parents = append(parents, p)
			}
		}
		text, err := json.Marshal(rangeResource{RID: c.RID, ID: r.ID, ETag: etag, Min: r.Min, Max: r.Max,
			Self: c.Self() + "pkranges/" + r.ID + "/", Fraction: 1 / float64(len(ranges)), Status: "online",
			Parents: parents, TS: c.TS})
		if err != nil {
			return nil, err
		}
		all[i] = text
	}
	return x.feed(c.RID, "PartitionKeyRanges", all), nil
}
