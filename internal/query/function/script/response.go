// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"
	"time"

	"github.com/dop251/goja"
)

// makeObjects creates the globals getContext, __, and console. These globals refer to the current run of the realm.
// Like all built-ins, the globals are frozen.
func (r *realm) makeObjects() {
	r.context, r.request, r.response = r.vm.NewObject(), r.vm.NewObject(), r.vm.NewObject()
	r.makeCollection()
	r.underscore = r.vm.CreateObject(r.collection)
	getter := func(what string, o *goja.Object, there func(role) bool) func(goja.FunctionCall) goja.Value {
		return func(goja.FunctionCall) goja.Value {
			if !there(r.run.role) {
				panic(r.failed(refused("The %s is not available here.", what)))
			}
			return o
		}
	}
	items := func(at role) bool { return at != function }
	getCollection := getter("collection", r.collection, items)
	getRequest := getter("request", r.request, items)
	getResponse := getter("response", r.response, func(at role) bool { return at == procedure || at == postTrigger })
	r.method(r.context, "getCollection", getCollection)
	r.method(r.context, "getRequest", getRequest)
	r.method(r.context, "getResponse", getResponse)
	accessors := map[string]func(goja.FunctionCall) goja.Value{"request": getRequest, "response": getResponse}
	for name, get := range accessors {
		must(r.underscore.DefineAccessorProperty(name, r.vm.ToValue(get), nil, goja.FLAG_FALSE, goja.FLAG_TRUE))
	}
	r.method(r.base, "getContext", func(goja.FunctionCall) goja.Value { return r.context })
	must(r.base.Set("__", r.underscore))
	r.makeRequest()
	r.makeResponse()
	console := r.vm.NewObject()
	for _, name := range []string{"log", "info", "warn", "error", "debug"} {
		r.method(console, name, r.consoleLog)
	}
	must(r.base.Set("console", console))
}

// makeRequest creates the request object. The body of the request contains the arguments of a procedure or the item of
// a trigger. A pre-trigger may change the body.
func (r *realm) makeRequest() {
	get := func() goja.Value {
		if r.run.role == procedure {
			return r.value(r.run.call.Arguments)
		}
		return r.run.requestBody
	}
	set := func(v goja.Value) {
		if r.run.role != preTrigger {
			panic(r.failed(&Failure{Status: 403, Message: "The body of the request can be set only by a pre-trigger."}))
		}
		r.run.requestBody = v
	}
	operation := func(goja.FunctionCall) goja.Value {
		if r.run.call.Operation == "" {
			return goja.Undefined()
		}
		return r.vm.ToValue(r.run.call.Operation)
	}
	r.method(r.request, "getOperationType", operation)
	r.body(r.request, get, set, map[string]func(goja.FunctionCall) goja.Value{"operationtype": operation})
}

// makeResponse creates the response object.
func (r *realm) makeResponse() {
	quota := func(goja.FunctionCall) goja.Value { return r.vm.ToValue("documentsSize=10485760;") }
	usage := func(goja.FunctionCall) goja.Value { return r.vm.ToValue("documentsSize=0;") }
	r.method(r.response, "getMaxResourceQuota", quota)
	r.method(r.response, "getResourceQuotaCurrentUsage", usage)
	r.body(r.response, func() goja.Value { return r.run.body }, func(v goja.Value) { r.run.body = v },
		map[string]func(goja.FunctionCall) goja.Value{"maxresourcequota": quota, "resourcequotacurrentusage": usage})
}

// body adds the methods getBody, setBody, appendBody, getValue, setValue, and appendValue to an object. getValue,
// setValue, and appendValue access the body under the name "Body", the values in more, and the headers of the request.
func (r *realm) body(o *goja.Object, get func() goja.Value, set func(goja.Value),
	more map[string]func(goja.FunctionCall) goja.Value) {
	isBody := func(v goja.Value) bool { return strings.EqualFold(v.String(), "body") }
	refuse := func(name goja.Value) {
		if !isBody(name) {
			panic(r.failed(&Failure{Status: 403, Message: "Not a writable property: " + name.String()}))
		}
	}
	add := func(v goja.Value) {
		switch old := get(); {
		case goja.IsUndefined(old) || goja.IsNull(old):
			set(v)
		default:
			s := old.String() + v.String()
			if len(s) > stringMax {
				panic(r.failed(&Failure{Status: 413, Message: "The body is too large."}))
			}
			set(r.vm.ToValue(s))
		}
	}
	nothing := goja.Undefined()
	r.method(o, "getBody", func(goja.FunctionCall) goja.Value { return get() })
	r.method(o, "setBody", func(c goja.FunctionCall) goja.Value { set(c.Argument(0)); return nothing })
	r.method(o, "appendBody", func(c goja.FunctionCall) goja.Value { add(c.Argument(0)); return nothing })
	r.method(o, "getValue", func(c goja.FunctionCall) goja.Value {
		name := strings.ToLower(c.Argument(0).String())
		if name == "body" {
			return get()
		}
		if f := more[name]; f != nil {
			return f(c)
		}
		if v, ok := r.run.call.Headers[name]; ok {
			return r.vm.ToValue(v)
		}
		return nothing
	})
	r.method(o, "setValue", func(c goja.FunctionCall) goja.Value {
		refuse(c.Argument(0))
		set(c.Argument(1))
		return nothing
	})
	r.method(o, "appendValue", func(c goja.FunctionCall) goja.Value {
		refuse(c.Argument(0))
		add(c.Argument(1))
		return nothing
	})
}

// now returns the time that determines whether operations are accepted.
func (r *run) now() time.Time { return time.Now() }
