// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// feed returns a page of resources of one kind as JSON. It sets the header with the number of resources.
func (o *output) feed(rid, kind string, page [][]byte) *answer {
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
	o.set(aItemCount, strconv.Itoa(len(page)))
	return &answer{http.StatusOK, body}
}

// listed is a resource of a list. The key of a resource is stable and unique in the list.
type listed struct {
	key  string
	body []byte
	// later, if not nil, returns the body. It is called only for the resources that a page needs.
	later func() []byte
}

// text returns the body.
func (r *listed) text() []byte {
	if r.later != nil {
		return r.later()
	}
	return r.body
}

// sorted sorts a list by the keys of its resources. Continuations contain these keys.
func sorted(all []listed) []listed {
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(a.key, b.key) })
	return all
}

// page returns a page of a list. The continuation is the key of the last resource in the page. This resource may be
// deleted before the next page is requested.
func (x *exchange) page(all []listed) ([][]byte, error) {
	size, refusal := pageSize(x.header)
	if refusal != nil {
		return nil, refusal
	}
	all = sorted(all)
	if text := x.header.Get(hContinuation); text != "" {
		last, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, listMark))
		if err != nil || !strings.HasPrefix(text, listMark) {
			return nil, badContinuation()
		}
		i, found := slices.BinarySearchFunc(all, string(last), func(r listed, key string) int {
			return cmp.Compare(r.key, key)
		})
		if found {
			i++
		}
		all = all[i:]
	}
	if len(all) > size {
		all = all[:size]
		x.set(aContinuation, listMark+base64.RawURLEncoding.EncodeToString([]byte(all[size-1].key)))
	}
	out := make([][]byte, len(all))
	for i := range all {
		out[i] = all[i].text()
	}
	return out, nil
}

// listMark is the start of every continuation of a list. Continuations from earlier builds consist of the number of
// returned resources, so they skip resources after deletions.
const listMark = "."

func badContinuation() error {
	return badRequest("x-ms-continuation is not a valid continuation of this list.")
}

// lists serves lists of resources and queries over them.
type lists struct {
	compiler
	opts *Options
}

// serve returns a page of a list. If the request has a query, it returns a page of the query over the list.
func (l lists) serve(ctx context.Context, x *exchange, rid, kind string, all []listed) (*answer, error) {
	if x.request.Method != post {
		page, err := x.page(all)
		if err != nil {
			return nil, err
		}
		return x.feed(rid, kind, page), nil
	}
	q, err := x.query()
	if err != nil {
		return nil, err
	}
	size, refusal := pageSize(x.header)
	if refusal != nil {
		return nil, refusal
	}
	q.MaxItems, q.Continuation = size, x.header.Get(hContinuation)
	page, next, err := l.selectFrom(ctx, x.claimant(), q, sorted(all))
	if err != nil {
		return nil, err
	}
	if next != "" {
		x.set(aContinuation, next)
	}
	return x.feed(rid, kind, page), nil
}
