// SPDX-License-Identifier: Apache-2.0

package container

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// ScriptKind is the kind of a container's script.
type ScriptKind uint8

// These are the kinds of scripts.
const (
	StoredProcedure ScriptKind = iota + 1
	Trigger
	UserFunction
)

// These are limits of a container's scripts. Scripts are part of the schema, which every node holds in memory.
const (
	scriptsMax      = 200
	scriptBytesMax  = 256 << 10
	scriptsBytesMax = 1 << 20
)

// Script is a stored procedure, a trigger, or a user-defined function.
type Script struct {
	Kind ScriptKind
	// ID is the name of the script. RID is its resource ID. Etag is quoted and changes whenever the script changes.
	ID, RID, Etag string
	TS            int64
	// JSON is the definition without system properties. Body is the program text in it.
	JSON []byte
	Body string
}

// script returns the client view of a stored script.
func (c *Container) script(s *schema.Script) *Script {
	return &Script{Kind: ScriptKind(s.Kind), ID: s.ID, RID: encodeRID(ridOfScript(c.rid, ScriptKind(s.Kind), s.Number)),
		Etag: etagOf(s.Revision), TS: s.At, JSON: s.Definition, Body: document.View(s.Definition).Get("body").Str()}
}

// scripts returns all scripts of this revision of the container. The scripts are cached, because each procedure call
// looks up its script and the texts may be long.
func (c *Container) scripts() []*Script {
	if all := c.Definition.scripts.Load(); all != nil {
		return *all
	}
	all := make([]*Script, len(c.table.Container.Scripts))
	for i := range all {
		all[i] = c.script(&c.table.Container.Scripts[i])
	}
	c.Definition.scripts.Store(&all)
	return all
}

// Scripts lists the scripts of a kind sorted by ID. The scripts are shared and must not be modified.
func (c *Container) Scripts(kind ScriptKind) (out []*Script) {
	for _, s := range c.scripts() {
		if s.Kind == kind {
			out = append(out, s)
		}
	}
	return out
}

// Script finds a script by its ID or its resource ID. Script returns 404 if none exists.
func (c *Container) Script(kind ScriptKind, id string) (*Script, error) {
	for _, s := range c.scripts() {
		if s.Kind == kind && (s.ID == id || s.RID == id) {
			return s, nil
		}
	}
	return nil, noScript(id)
}

func noScript(id string) *Error {
	return Errorf(404, 0, "Resource Not Found: the container has no script %s of this kind.", strconv.Quote(id))
}

// parseScript parses the body of a request that creates or replaces a script.
func parseScript(body []byte) (id string, json []byte, e *Error) {
	v, err := document.Parse(body, document.Limits{Size: scriptBytesMax})
	if err != nil {
		return "", nil, bodyError(err)
	}
	v = document.WithoutSystem(v)
	id = v.Get("id").Str()
	if e := checkName(id); e != nil {
		return "", nil, e
	}
	if v.Get("body").Kind() != document.String {
		return "", nil, Errorf(400, 0, "The script has no body. Specify its program text.")
	}
	return id, v.Append(nil), nil
}

// changeScripts changes the scripts of a container. change receives the index of the script of the given kind and ID,
// or the index at which it would be inserted.
func (f *definer) changeScripts(ctx context.Context, c *Container, kind ScriptKind, id string,
	change func(list []schema.Script, i int, there bool, in *schema.Replacing) ([]schema.Script, error)) error {
	return f.change(ctx, c, "", nil, func(t *schema.Container, in *schema.Replacing) error {
		i, there := slices.BinarySearchFunc(t.Scripts, id, func(s schema.Script, id string) int {
			return cmp.Or(cmp.Compare(s.Kind, uint8(kind)), cmp.Compare(s.ID, id))
		})
		list, err := change(t.Scripts, i, there, in)
		if err != nil {
			return err
		}
		t.Scripts = list
		size := 0
		for i := range list {
			size += len(list[i].Definition)
		}
		if len(list) > scriptsMax || size > scriptsBytesMax {
			return Errorf(400, 0, "A container is limited to %d scripts with a total of %d bytes.", scriptsMax, scriptsBytesMax)
		}
		return nil
	})
}

// CreateScript adds a script to a container. CreateScript returns 409 if a script of the same kind and ID exists.
func (f *definer) CreateScript(ctx context.Context, c *Container, kind ScriptKind, body []byte) (*Script, error) {
	id, json, bad := parseScript(body)
	if bad != nil {
		return nil, bad
	}
	err := f.changeScripts(ctx, c, kind, id, func(list []schema.Script, i int, there bool, in *schema.Replacing) (
		[]schema.Script, error) {
		if there {
			return nil, Errorf(409, 0, "Resource with specified id or name already exists: there is a script %s.",
				strconv.Quote(id))
		}
		return slices.Insert(list, i, schema.Script{Kind: uint8(kind), ID: id, Number: in.Number(),
			At: f.clock.Wall().Unix(), Definition: json, Revision: in.Revision}), nil
	})
	return f.scriptNow(c, kind, id, err)
}

// scriptNow returns a script after a change.
func (f *definer) scriptNow(c *Container, kind ScriptKind, id string, err error) (*Script, error) {
	if err == nil {
		c, err = f.again(c)
	}
	if err != nil {
		return nil, err
	}
	return c.Script(kind, id)
}

// ReplaceScript replaces a script. ifMatch works as in ReplaceContainer.
func (f *definer) ReplaceScript(ctx context.Context, c *Container, s *Script, body []byte, ifMatch string) (*Script,
	error) {
	id, json, bad := parseScript(body)
	if bad != nil {
		return nil, bad
	}
	if id != s.ID {
		return nil, Errorf(400, 0, "The id of a script cannot be changed from %s to %s.", strconv.Quote(s.ID),
			strconv.Quote(id))
	}
	err := f.changeScripts(ctx, c, s.Kind, id, func(list []schema.Script, i int, there bool, in *schema.Replacing) (
		[]schema.Script, error) {
		switch {
		case !there:
			return nil, noScript(id)
		case !matches(ifMatch, etagOf(list[i].Revision)):
			return nil, preconditionFailed()
		}
		list[i].Definition, list[i].At, list[i].Revision = json, f.clock.Wall().Unix(), in.Revision
		return list, nil
	})
	return f.scriptNow(c, s.Kind, id, err)
}

// DeleteScript removes a script. ifMatch works as in ReplaceContainer.
func (f *definer) DeleteScript(ctx context.Context, c *Container, s *Script, ifMatch string) error {
	return f.changeScripts(ctx, c, s.Kind, s.ID, func(list []schema.Script, i int, there bool, _ *schema.Replacing) (
		[]schema.Script, error) {
		switch {
		case !there:
			return nil, noScript(s.ID)
		case !matches(ifMatch, etagOf(list[i].Revision)):
			return nil, preconditionFailed()
		}
		return slices.Delete(list, i, i+1), nil
	})
}
