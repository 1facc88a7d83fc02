// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"

	"github.com/dop251/goja"
	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/document"
)

// pending is an accepted operation that has not been executed. Operations are executed in sequence after the script has
// returned. After each operation, its callback is called. The callback may request further operations.
type pending struct {
	operation *Operation
	query     *Query
	callback  goja.Callable
}

// makeCollection creates the collection object. The prelude adds the query functions.
func (r *realm) makeCollection() {
	r.collection = r.vm.NewObject()
	r.method(r.collection, "getSelfLink", func(goja.FunctionCall) goja.Value {
		return r.vm.ToValue(r.run.call.SelfLink)
	})
	r.method(r.collection, "getAltLink", func(goja.FunctionCall) goja.Value {
		return r.vm.ToValue(r.run.call.AltLink)
	})
	r.operation("createDocument", 2, func(a *arguments) { a.write(Create) })
	r.operation("upsertDocument", 2, func(a *arguments) { a.write(Upsert) })
	r.operation("replaceDocument", 2, func(a *arguments) { a.write(Replace) })
	r.operation("readDocument", 1, func(a *arguments) { a.item(Read) })
	r.operation("deleteDocument", 1, func(a *arguments) { a.item(Delete) })
	r.operation("queryDocuments", 2, func(a *arguments) { a.query() })
	r.operation("readDocuments", 1, func(a *arguments) { a.feed() })
	for _, name := range []string{"createAttachment", "readAttachment", "readAttachments", "queryAttachments",
		"replaceAttachment", "upsertAttachment", "deleteAttachment"} {
		r.method(r.collection, name, func(goja.FunctionCall) goja.Value {
			panic(r.failed(refused("Attachments are not supported: cannot call %s.", name)))
		})
	}
}

// arguments holds the arguments of a collection function. The arguments are the function's own arguments, the options,
// and a callback.
type arguments struct {
	realm   *realm
	own     []goja.Value
	options *goja.Object
	pending pending
}

// operation adds a collection function that requests an operation. The function returns true if the operation was
// accepted.
func (r *realm) operation(name string, own int, read func(a *arguments)) {
	r.method(r.collection, name, func(c goja.FunctionCall) goja.Value {
		if len(c.Arguments) < own {
			panic(r.failed(refused("The function %q requires %d arguments, but received %d.", name, own,
				len(c.Arguments))))
		}
		a := &arguments{realm: r, own: c.Arguments[:own]}
		a.split(c.Arguments[own:])
		if r.run.role == function || r.run.role == cqlFunction {
			panic(r.failed(refused("A user-defined function cannot use items.")))
		}
		if !r.run.accepts() {
			return r.vm.ToValue(false)
		}
		read(a)
		r.run.operations++
		r.run.pending = append(r.run.pending, a.pending)
		return r.vm.ToValue(true)
	})
}

// accepts reports whether the limits allow another operation.
func (r *run) accepts() bool {
	if r.operations >= r.engine.bounds.Operations || r.stopped.Load() != nil || !r.now().Before(r.accept) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.abandoned && r.call.Items.Accepts()
}

// split finds the options and the callback. Both are optional.
func (a *arguments) split(rest []goja.Value) {
	for i, v := range rest {
		if f, ok := goja.AssertFunction(v); ok {
			a.pending.callback = f
			return
		}
		o, isObject := v.(*goja.Object)
		switch {
		case isObject && i == 0:
			a.options = o
		case !isObject && (goja.IsUndefined(v) || goja.IsNull(v)):
		case i == 0:
			panic(a.realm.failed(refused("The options must be an object, not %q.", v.String())))
		default:
			panic(a.realm.failed(refused("The callback must be a function.")))
		}
		if i == 1 {
			return
		}
	}
}

// option returns an option by its name, or undefined.
func (a *arguments) option(name string) goja.Value {
	if a.options == nil {
		return goja.Undefined()
	}
	if v := a.options.Get(name); v != nil && !goja.IsNull(v) {
		return v
	}
	return goja.Undefined()
}

func (a *arguments) text(option string) string {
	if v := a.option(option); !goja.IsUndefined(v) {
		return v.String()
	}
	return ""
}

// write creates an operation with a body. The operation applies to the collection or to the item of a link.
func (a *arguments) write(kind Kind) {
	op := &Operation{Kind: kind, IfMatch: a.text("etag")}
	if kind == Replace {
		a.link(op)
	} else {
		a.collectionLink()
	}
	body := a.document(a.own[1])
	if body.Kind() != document.Object {
		panic(a.realm.failed(refused("The document must be an object or the JSON of an object.")))
	}
	op.Body = body.JSON()
	if !body.Get("id").IsDefined() && kind != Replace && !a.option("disableAutomaticIdGeneration").ToBoolean() {
		op.Body = withID(body, uuid.NewString())
	}
	a.pending.operation = op
}

// document returns an item that the script has passed as an object or as JSON. The result does not contain system
// members.
func (a *arguments) document(given goja.Value) document.Value {
	var err error
	var v document.Value
	if goja.IsString(given) {
		v, err = document.Parse([]byte(given.String()), document.Limits{})
		v = document.WithoutSystem(v)
	} else {
		// The writer produces valid JSON, so the JSON is not checked again.
		text := a.realm.written(given, &writer{realm: a.realm, bytesMax: 2 * document.SizeMax,
			depthMax: document.DepthMax, bare: true})
		if v = document.View(text); len(text) > document.SizeMax {
			_, err = document.Parse(text, document.Limits{})
		}
	}
	if err == nil {
		return v
	}
	status := 400
	if _, tooLarge := err.(*document.SizeError); tooLarge { //nolint:errorlint // the parser does not wrap
		status = 413
	}
	panic(a.realm.failed(&Failure{Status: status, Message: err.Error()}))
}

// withID appends an ID to the JSON of an item.
func withID(v document.Value, id string) []byte {
	members := []document.Member{}
	for name, e := range v.Members() {
		members = append(members, document.Member{Name: name, Value: e})
	}
	members = append(members, document.Member{Name: "id", Value: document.StringValue(id)})
	return document.ObjectValue(members).Append(nil)
}

// item creates an operation on the item of a link.
func (a *arguments) item(kind Kind) {
	op := &Operation{Kind: kind}
	if kind == Read {
		op.IfNoneMatch = a.text("ifNoneMatch")
	} else {
		op.IfMatch = a.text("etag")
	}
	a.link(op)
	a.pending.operation = op
}

// link parses the link of an item. The link consists of resource IDs or names.
func (a *arguments) link(op *Operation) {
	link := strings.Trim(a.own[0].String(), "/")
	call := a.realm.run.call
	if rest, ok := strings.CutPrefix(link, strings.Trim(call.AltLink, "/")+"/docs/"); ok && rest != "" {
		op.ID = rest
		return
	}
	if rest, ok := strings.CutPrefix(link, strings.Trim(call.SelfLink, "/")+"/docs/"); ok && rest != "" {
		op.RID = rest
		return
	}
	panic(a.realm.failed(refused("%q is not the link of a document in this collection.", link)))
}

// collectionLink checks the link of the collection.
func (a *arguments) collectionLink() {
	link := strings.Trim(a.own[0].String(), "/")
	call := a.realm.run.call
	if link != strings.Trim(call.AltLink, "/") && link != strings.Trim(call.SelfLink, "/") {
		panic(a.realm.failed(refused("%q is not the link of this collection.", link)))
	}
}

func (a *arguments) feed() {
	a.collectionLink()
	a.pending.query = &Query{Continuation: a.text("continuation"), PageSize: int(a.option("pageSize").ToInteger())}
}

// query parses a query. The query is a text or an object with the properties query (or filterQuery) and parameters.
func (a *arguments) query() {
	a.feed()
	q := a.pending.query
	o, isObject := a.own[1].(*goja.Object)
	if !isObject {
		q.Text = a.own[1].String()
	} else {
		text := o.Get("query")
		if text == nil {
			text = o.Get("filterQuery")
		}
		if text == nil {
			panic(a.realm.failed(refused("The query must be a string, or an object with a query and parameters.")))
		}
		q.Text = text.String()
		if list, ok := o.Get("parameters").(*goja.Object); ok {
			for _, key := range list.Keys() {
				p, ok := list.Get(key).(*goja.Object)
				if !ok || p.Get("name") == nil || p.Get("value") == nil {
					panic(a.realm.failed(refused("A query parameter must be an object with a name and a value.")))
				}
				q.Parameters = append(q.Parameters, Parameter{p.Get("name").String(),
					a.realm.json(p.Get("value"), document.SizeMax, document.DepthMax)})
			}
		}
	}
	if strings.TrimSpace(q.Text) == "" {
		panic(a.realm.failed(refused("The query is empty.")))
	}
}

// carryOut executes the operation and calls its callback with the result. If the operation has no callback, an error
// ends the script.
func (p *pending) carryOut(r *run) error {
	vm := r.realm.vm
	var err, resource goja.Value = goja.Undefined(), goja.Undefined()
	info := vm.NewObject()
	failure := r.use(func(i Items) *Failure {
		if p.query != nil {
			page, failure := i.Query(r.ctx, p.query)
			if failure == nil {
				documents := make([]any, len(page.Documents))
				for i, d := range page.Documents {
					documents[i] = r.realm.part(document.View(d))
				}
				resource = vm.NewArray(documents...)
				if page.Continuation != "" {
					must(info.Set("continuation", page.Continuation))
				}
			}
			return failure
		}
		item, failure := i.Do(r.ctx, p.operation)
		if failure == nil && item != nil {
			resource = r.realm.item(item)
		} else if failure == nil && p.operation.Kind == Read {
			must(info.Set("notModified", true))
		}
		return failure
	})
	if failure != nil && failure.Fatal {
		r.stop(failure)
		return failure
	}
	if failure != nil {
		if p.callback == nil {
			failure := *failure
			failure.SubStatus, failure.Status = failure.Status, 400
			r.stop(&failure)
			return &failure
		}
		err = r.realm.failed(failure)
	}
	if p.callback == nil {
		return nil
	}
	_, thrown := p.callback(goja.Undefined(), err, resource, info)
	return thrown
}

// use calls f with the items unless the script has been abandoned.
func (r *run) use(f func(Items) *Failure) *Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.abandoned {
		return r.tooLong()
	}
	return f(r.call.Items)
}

// failed converts a failure to a JavaScript error. The property number of the error contains the status.
func (r *realm) failed(f *Failure) goja.Value {
	o := r.throwable("Error", f.Message).(*goja.Object)
	must(o.Set("number", f.Status))
	must(o.Set("body", f.Message))
	if f.SubStatus != 0 {
		must(o.Set("subStatus", f.SubStatus))
	}
	return o
}
