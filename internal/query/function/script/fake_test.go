// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
)

// fake holds the items of a logical partition in memory. Each transaction uses a copy of the items.
type fake struct {
	bodies map[string]string
	etags  map[string]int
	wrote  int
	// most is the maximum number of operations, or 0 for no limit.
	most, done int
	// where maps query texts to functions that select the items of the query.
	where map[string]func(document.Value, *Query) bool
}

func newFake(items ...string) *fake {
	f := &fake{bodies: map[string]string{}, etags: map[string]int{}}
	for _, body := range items {
		id := document.View([]byte(body)).Get("id").Str()
		f.bodies[id] = body
		f.etags[id] = 1
	}
	return f
}

func (f *fake) begin() *fake {
	c := *f
	c.bodies, c.etags = map[string]string{}, map[string]int{}
	for id := range f.bodies {
		c.bodies[id], c.etags[id] = f.bodies[id], f.etags[id]
	}
	c.done = 0
	return &c
}

const self, alt = "dbs/gAAKAA==/colls/gAAKAIxkAAA=/", "dbs/shop/colls/carts"

func (f *fake) system(id string) document.System {
	return document.System{RID: "r-" + id, Self: self + "docs/r-" + id + "/", ETag: f.etag(id), Timestamp: 7}
}

func (f *fake) resource(id string) []byte {
	system := f.system(id)
	return document.AppendItem(nil, []byte(f.bodies[id]), &system)
}

func (f *fake) etag(id string) string { return `"` + strconv.Itoa(f.etags[id]) + `"` }

func (f *fake) Accepts() bool { return f.most == 0 || f.done < f.most }

// fakeItem is an item of a fake.
type fakeItem struct {
	text   string
	system document.System
}

func (i *fakeItem) JSON() []byte            { return []byte(i.text) }
func (i *fakeItem) System() document.System { return i.system }

func (f *fake) item(id string) *fakeItem { return &fakeItem{f.bodies[id], f.system(id)} }

func (f *fake) Do(_ context.Context, op *Operation) (Item, *Failure) {
	f.done++
	id := op.ID
	if op.RID != "" {
		id = op.RID[2:]
	}
	if op.Body != nil && op.Kind != Replace {
		id = document.View(op.Body).Get("id").Str()
	}
	_, there := f.bodies[id]
	switch {
	case id == "":
		return nil, &Failure{Status: 400, Message: "An item needs an id"}
	case op.Kind == Create && there:
		return nil, &Failure{Status: 409, Message: "Resource with specified id already exists: " + id}
	case (op.Kind == Read || op.Kind == Replace || op.Kind == Delete) && !there:
		return nil, &Failure{Status: 404, Message: "Resource not found: " + id}
	case op.IfMatch != "" && op.IfMatch != f.etag(id):
		return nil, &Failure{Status: 412, Message: "The etag is another one"}
	case op.Kind == Read && op.IfNoneMatch == f.etag(id):
		return nil, nil
	case op.Kind == Read:
		return f.item(id), nil
	}
	f.wrote++
	if op.Kind == Delete {
		delete(f.bodies, id)
		return nil, nil
	}
	f.bodies[id] = string(op.Body)
	f.etags[id]++
	return f.item(id), nil
}

func (f *fake) Query(_ context.Context, q *Query) (*Page, *Failure) {
	f.done++
	var ids []string
	for id := range f.bodies {
		if id <= q.Continuation {
			continue
		}
		if q.Text != "" {
			where := f.where[q.Text]
			if where == nil {
				return nil, &Failure{Status: 400, Message: "Syntax error in " + q.Text}
			}
			if !where(document.View([]byte(f.bodies[id])), q) {
				continue
			}
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	p := &Page{}
	for i, id := range ids {
		if i == q.PageSize && i > 0 {
			p.Continuation = ids[i-1]
			break
		}
		p.Documents = append(p.Documents, f.resource(id))
	}
	return p, nil
}

// call executes a procedure on a fake. If the procedure succeeds, call keeps the changes.
func call(t testing.TB, e *Engine, f *fake, body string, args ...any) (string, error) {
	t.Helper()
	out, err := callWith(t, e, f, body, args...)
	return string(out.Body), err
}

func callWith(t testing.TB, e *Engine, f *fake, body string, args ...any) (*Outcome, error) {
	t.Helper()
	p, err := e.Program(t.Context(), "test", body)
	if err != nil {
		return &Outcome{}, err
	}
	if f == nil {
		f = newFake()
	}
	var list []document.Value
	for _, a := range args {
		list = append(list, document.View([]byte(fmt.Sprint(a))))
	}
	txn := f.begin()
	out, err := e.Procedure(t.Context(), &Call{Program: p, Items: txn, SelfLink: self, AltLink: alt, Log: true,
		Arguments: document.ArrayValue(list)})
	if err == nil {
		*f = *txn
	}
	return out, err
}

// slowEngine returns an engine whose time limits are long enough for a loaded machine.
func slowEngine() *Engine { return New(Bounds{Time: time.Minute, FunctionTime: time.Minute}) }
