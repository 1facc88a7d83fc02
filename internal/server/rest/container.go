// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ilion-db/ilion/internal/query/container"
)

// containerHandler serves containers.
type containerHandler struct {
	engine   resources
	sessions sessions
	lists    lists
}

func (h *containerHandler) all(d *container.Database) (out []listed) {
	for _, c := range h.engine.Containers(d) {
		out = append(out, listed{key: c.ID, body: c.Resource()})
	}
	return out
}

func (h *containerHandler) list(ctx context.Context, x *exchange, d *container.Database) (*answer, error) {
	x.setOwner(d, nil)
	return h.lists.serve(ctx, x, d.RID, "DocumentCollections", h.all(d))
}

func (h *containerHandler) create(ctx context.Context, x *exchange, d *container.Database) (*answer, error) {
	t, err := throughput(x.header)
	if err != nil {
		return nil, err
	}
	c, err := h.engine.CreateContainer(ctx, d, x.body, t)
	if err != nil {
		return nil, err
	}
	x.setOwner(d, nil)
	h.setHeaders(x, c)
	return x.found(http.StatusCreated, c.Etag, c.Resource()), nil
}

func (h *containerHandler) read(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	h.setHeaders(x, c)
	return x.found(http.StatusOK, c.Etag, h.withStatistics(ctx, x, c, c.Resource())), nil
}

// setHeaders sets the headers of responses about a container.
func (h *containerHandler) setHeaders(x *exchange, c *container.Container) {
	x.set(aIndexing, strconv.Itoa(h.engine.IndexProgress(c)))
	x.set(aQuota, quotaText)
	x.set(aUsage, usageText)
	h.sessions.report(x, c)
}

// withStatistics adds statistics of the physical partitions to a container if the client requests them. It adds the
// statistics of all partitions to the headers.
func (h *containerHandler) withStatistics(ctx context.Context, x *exchange, c *container.Container,
	resource []byte) []byte {
	each := flag(x.header, hStatistics)
	if !each && !flag(x.header, hQuota) || len(resource) == 0 || resource[len(resource)-1] != '}' {
		return resource
	}
	sizes, total := h.engine.Sizes(ctx, c), uint64(0)
	for _, s := range sizes {
		total += s.DiskBytes >> 10
	}
	x.set(aUsage, fmt.Sprintf("documentSize=%d;documentsSize=%d;documentsCount=-1;collectionSize=%d;", total>>10, total,
		total))
	if !each {
		return resource
	}
	out := append(resource[:len(resource)-1:len(resource)-1], `,"statistics":[`...)
	ranges, _ := h.sessions.Ranges(c)
	for i := range ranges {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"id":`...)
		out = strconv.AppendQuote(out, ranges[i].ID)
		if i < len(sizes) {
			out = strconv.AppendUint(append(out, `,"sizeInKB":`...), sizes[i].DiskBytes>>10, 10)
			out = strconv.AppendUint(append(out, `,"sampledDistinctPartitionKeyCount":`...), sizes[i].Keys, 10)
		}
		out = append(out, `,"partitionKeys":[]}`...)
	}
	return append(out, "]}"...)
}

func (h *containerHandler) replace(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	c, err := h.engine.ReplaceContainer(ctx, c, x.body, x.header.Get(hIfMatch))
	if err != nil {
		return nil, err
	}
	h.setHeaders(x, c)
	return x.found(http.StatusOK, c.Etag, c.Resource()), nil
}

func (h *containerHandler) remove(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	return &answer{status: http.StatusNoContent}, h.engine.DeleteContainer(ctx, c, x.header.Get(hIfMatch))
}

// listConflicts returns an empty list, because a single leader orders all writes and conflicts cannot occur.
func listConflicts(_ context.Context, x *exchange, c *container.Container) (*answer, error) {
	return x.feed(c.RID, "Conflicts", nil), nil
}

func noConflict(context.Context, *exchange, *container.Container) (*answer, error) {
	return nil, notFound("Conflicts do not exist: one leader orders all writes of a partition.")
}
