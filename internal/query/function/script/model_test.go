// SPDX-License-Identifier: Apache-2.0

package script

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// modelRow matches a table row of the object model in docs/compatibility-cosmos.md. A row contains the name of a
// member, optionally an option of a collection function, and the support status.
var modelRow = regexp.MustCompile("(?m)^\\| `(\\w+)\\.(\\w+)(?: \\{(\\w+)\\})?` \\| (works|differs|absent) \\|")

// inventory is a script that lists the members of all available objects in the form object.member.
const inventory = `function () {
	var c = getContext().getCollection(), all = [];
	var objects = {context: getContext(), collection: c, request: __.request, response: __.response, console: console};
	for (var name in objects) {
		for (var member of Object.getOwnPropertyNames(objects[name])) all.push(name + '.' + member);
	}
	for (var member of Object.getOwnPropertyNames(Object.getPrototypeOf(__.chain()))) {
		if (member != 'constructor') all.push('chain.' + member);
	}
	for (var member of Object.getOwnPropertyNames(__)) all.push('__.' + member);
	c.readDocument(c.getAltLink() + '/docs/none', function (err) {
		for (var member of Object.getOwnPropertyNames(err)) if (member != 'stack') all.push('error.' + member);
		__.response.setBody(all.sort());
	});
}`

// TestObjectModel checks that docs/compatibility-cosmos.md has a row for each member that is available to scripts. If
// the page states that a member is absent, the member must not exist. All other members must exist.
func TestObjectModel(t *testing.T) {
	rows := modelRows(t)
	got, err := call(t, slowEngine(), nil, inventory)
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	if err := json.Unmarshal([]byte(got), &members); err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if state := rows[m]; state == "" || state == "absent" && !strings.Contains(m, "ttachment") {
			t.Errorf("%s is there, and the page says %q", m, state)
		}
	}
	for name, state := range rows {
		if !strings.Contains(name, " ") && state != "absent" && !slices.Contains(members, name) {
			t.Errorf("%s is said to be there: %s", name, state)
		}
	}
}

func modelRows(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/compatibility-cosmos.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range modelRow.FindAllStringSubmatch(string(page), -1) {
		name := m[1] + "." + m[2]
		if m[3] != "" {
			name += " " + m[3]
		}
		rows[name] = m[4]
	}
	return rows
}

// TestOptions checks that the collection functions read exactly the options that docs/compatibility-cosmos.md lists.
// Accessors record which options are read.
func TestOptions(t *testing.T) {
	rows := modelRows(t)
	names := map[string]bool{}
	for name := range rows {
		if _, option, ok := strings.Cut(name, " "); ok {
			names[option] = true
		}
	}
	if len(names) < 5 {
		t.Fatalf("the page has the options %v", names)
	}
	for f, own := range map[string]string{
		"createDocument": `link, {}`, "upsertDocument": `link, {}`, "replaceDocument": `doc, {id: 'a'}`,
		"readDocument": `doc`, "deleteDocument": `doc`, "queryDocuments": `link, 'SELECT 1'`, "readDocuments": `link`,
		"filter": `function () { return true }`, "map": `function (x) { return x }`, "pluck": `'id'`, "flatten": ``,
		"sortBy": ``, "sortByDescending": ``, "unwind": `function () { return [] }`,
	} {
		var accessors []string
		for name := range names {
			accessors = append(accessors, "get "+name+"() { seen["+`"`+name+`"`+"] = 1; return undefined }")
		}
		slices.Sort(accessors)
		call := own
		if call != "" {
			call += ", "
		}
		if f == "sortBy" || f == "sortByDescending" {
			call = "function (x) { return x }, "
		}
		body := `function () { var seen = {}, link = __.getAltLink(), doc = link + '/docs/a'; __.` + f + `(` + call + `{` +
			strings.Join(accessors, ", ") + `}, function () {}); __.response.setBody(Object.keys(seen).sort()); }`
		got, err := callWith(t, slowEngine(), newFake(`{"id":"a"}`), body)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		var want []string
		for name, state := range rows {
			if of, option, ok := strings.Cut(name, " "); ok && of == "collection."+f && state != "absent" {
				want = append(want, option)
			}
		}
		slices.Sort(want)
		var looked []string
		if err := json.Unmarshal(got.Body, &looked); err != nil || !slices.Equal(looked, want) {
			t.Errorf("%s looks at the options %v, the page says %v: %v", f, looked, want, err)
		}
	}
}

// TestStates checks the documented rules for members whose use depends on the kind of script. The rules cover the
// availability of members in procedures, triggers, and functions, assignments, and errors.
func TestStates(t *testing.T) {
	e := slowEngine()
	const tries = `function () {
		var told = [], tries = {
			collection: () => getContext().getCollection(), request: () => getContext().getRequest(),
			response: () => getContext().getResponse(), operation: () => __.request.getOperationType(),
			setRequest: () => __.request.setBody({id: 'x'}), setResponse: () => __.response.setBody('y'),
			setValue: () => __.request.setValue('Body', {id: 'v'}), other: () => __.request.setValue('etag', 'x'),
			quota: () => __.response.getMaxResourceQuota(), attachment: () => __.createAttachment('x', {}) };
		for (var name in tries) {
			try { var v = tries[name](); told.push(name + (typeof v == 'string' ? '=' + v : '')) }
			catch (e) { told.push(name + ' ' + e.number) }
		}
		console.log(told.join(', '));
	}`
	p, err := e.Program(t.Context(), "tries", tries)
	if err != nil {
		t.Fatal(err)
	}
	item := document.View([]byte(`{"id":"a"}`))
	c := func(operation string) *Call {
		c := &Call{Program: p, Items: newFake(), SelfLink: self, AltLink: alt, Operation: operation, Log: true}
		if operation != "" {
			c.Request, c.Response = item, item
		}
		return c
	}
	for _, test := range []struct {
		run  func() (*Outcome, error)
		want string
	}{
		{func() (*Outcome, error) { return e.Procedure(t.Context(), c("")) },
			"collection, request, response, operation, setRequest 403, setResponse, setValue 403, other 403, " +
				"quota=documentsSize=10485760;, attachment 400\n"},
		{func() (*Outcome, error) { return e.Before(t.Context(), c("Create")) },
			"collection, request, response 400, operation=Create, setRequest, setResponse 400, setValue, other 403, " +
				"quota 400, attachment 400\n"},
		{func() (*Outcome, error) { return e.After(t.Context(), c("Delete")) },
			"collection, request, response, operation=Delete, setRequest 403, setResponse, setValue 403, other 403, " +
				"quota=documentsSize=10485760;, attachment 400\n"},
	} {
		if got, err := test.run(); err != nil || got.Log != test.want {
			t.Errorf("%v\n got %swant %s", err, got.Log, test.want)
		}
	}
}
