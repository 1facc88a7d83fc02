// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"strconv"

	"github.com/ilion-db/ilion/internal/query/container"
)

// feed is a page of resources of a kind as JSON, and the number of them in the headers.
func (x *exchange) feed(rid, kind string, page [][]byte) *answer {
	size := len(rid) + len(kind) + 64
	for _, r := range page {
		size += len(r) + 1
	}
	body := append(make([]byte, 0, size), `{"_rid":`...)
	body = strconv.AppendQuote(body, rid)
	body = append(append(append(body, `,"`...), kind...), `":[`...)
	for i, r := range page {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r...)
	}
	body = append(body, `],"_count":`...)
	body = append(strconv.AppendInt(body, int64(len(page)), 10), '}')
	x.set(aItemCount, strconv.Itoa(len(page)))
	return &answer{http.StatusOK, body}
}

// page cuts a page out of a list: its continuation is how many are before it.
func (x *exchange) page(all [][]byte) ([][]byte, error) {
	size, refusal := pageSize(x.header)
	if refusal != nil {
		return nil, refusal
	}
	from := 0
	if text := x.header.Get(hContinuation); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, badRequest("x-ms-continuation is none that this list has given.")
		}
		from = min(n, len(all))
	}
	to := min(from+size, len(all))
	if to < len(all) {
		x.set(aContinuation, strconv.Itoa(to))
	}
	return all[from:to], nil
}

// list answers with a page of a list.
func (x *exchange) list(rid, kind string, all [][]byte) (*answer, error) {
	page, err := x.page(all)
	if err != nil {
		return nil, err
	}
	return x.feed(rid, kind, page), nil
}

// queryList answers with a page of what a query says of a list.
func (x *exchange) queryList(ctx context.Context, rid, kind string, all [][]byte) (*answer, error) {
	q, err := x.query()
	if err != nil {
		return nil, err
	}
	if all, err = x.selectFrom(ctx, q, all); err != nil {
		return nil, err
	}
	return x.list(rid, kind, all)
}

func (x *exchange) databases() [][]byte {
	var out [][]byte
	for _, d := range x.server.engine.Databases() {
		out = append(out, d.Resource())
	}
	return out
}

func (x *exchange) listDatabases(context.Context) (*answer, error) {
	return x.list("", "Databases", x.databases())
}

func (x *exchange) queryDatabases(ctx context.Context) (*answer, error) {
	return x.queryList(ctx, "", "Databases", x.databases())
}

func (x *exchange) containers(d *container.Database) [][]byte {
	var out [][]byte
	for _, c := range x.server.engine.Containers(d) {
		out = append(out, c.Resource())
	}
	return out
}

func (x *exchange) listContainers(context.Context) (*answer, error) {
	d, err := x.database()
	if err != nil {
		return nil, missing(err, true)
	}
	x.setOwner(d, nil)
	return x.list(d.RID, "DocumentCollections", x.containers(d))
}

func (x *exchange) queryContainers(ctx context.Context) (*answer, error) {
	d, err := x.database()
	if err != nil {
		return nil, missing(err, true)
	}
	x.setOwner(d, nil)
	return x.queryList(ctx, d.RID, "DocumentCollections", x.containers(d))
}

// listConflicts answers that there are none: writes are decided by one leader.
func (x *exchange) listConflicts(context.Context) (*answer, error) {
	c, err := x.container(true)
	if err != nil {
		return nil, err
	}
	return x.feed(c.RID, "Conflicts", nil), nil
}

func (x *exchange) noConflict(context.Context) (*answer, error) {
	if _, err := x.container(true); err != nil {
		return nil, err
	}
	return nil, notFound("There are no conflicts: writes are decided by one leader.")
}
