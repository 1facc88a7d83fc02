// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container"
)

// scriptKinds are the kinds of scripts by the paths, and by the names of their lists.
var scriptKinds = map[kind]struct {
	kind container.ScriptKind
	list string
}{
	procedures: {container.StoredProcedure, "StoredProcedures"},
	triggers:   {container.Trigger, "Triggers"},
	functions:  {container.UserFunction, "UserDefinedFunctions"},
}

// resourceOf is a script as clients see it.
func (x *exchange) resourceOf(c *container.Container, s *container.Script) []byte {
	v := document.View(s.JSON)
	v = document.With(v, "_rid", document.StringValue(s.RID))
	v = document.With(v, "_self", document.StringValue(c.Self()+string(x.target.kind)+"/"+s.RID+"/"))
	v = document.With(v, "_etag", document.StringValue(s.Etag))
	return document.With(v, "_ts", document.NumberValue(float64(s.TS))).Append(nil)
}

func (x *exchange) allScripts(c *container.Container) [][]byte {
	var out [][]byte
	for _, s := range c.Scripts(scriptKinds[x.target.kind].kind) {
		out = append(out, x.resourceOf(c, s))
	}
	return out
}

func (x *exchange) listScripts(context.Context) (*answer, error) {
	c, err := x.container(true)
	if err != nil {
		return nil, err
	}
	return x.list(c.RID, scriptKinds[x.target.kind].list, x.allScripts(c))
}

func (x *exchange) queryScripts(ctx context.Context) (*answer, error) {
	c, err := x.container(true)
	if err != nil {
		return nil, err
	}
	return x.queryList(ctx, c.RID, scriptKinds[x.target.kind].list, x.allScripts(c))
}

// script finds the script of the path.
func (x *exchange) script() (*container.Container, *container.Script, error) {
	c, err := x.container(true)
	if err != nil {
		return nil, nil, err
	}
	s, err := c.Script(scriptKinds[x.target.kind].kind, x.target.id())
	return c, s, err
}

func (x *exchange) createScript(ctx context.Context) (*answer, error) {
	c, err := x.container(true)
	if err != nil {
		return nil, err
	}
	s, err := x.server.engine.CreateScript(ctx, c, scriptKinds[x.target.kind].kind, x.body)
	if err != nil {
		return nil, err
	}
	return x.found(http.StatusCreated, s.Etag, x.resourceOf(c, s)), nil
}

func (x *exchange) readScript(context.Context) (*answer, error) {
	c, s, err := x.script()
	if err != nil {
		return nil, err
	}
	return x.found(http.StatusOK, s.Etag, x.resourceOf(c, s)), nil
}

func (x *exchange) replaceScript(ctx context.Context) (*answer, error) {
	c, s, err := x.script()
	if err != nil {
		return nil, err
	}
	if s, err = x.server.engine.ReplaceScript(ctx, c, s, x.body, x.header.Get(hIfMatch)); err != nil {
		return nil, err
	}
	return x.found(http.StatusOK, s.Etag, x.resourceOf(c, s)), nil
}

func (x *exchange) deleteScript(ctx context.Context) (*answer, error) {
	c, s, err := x.script()
	if err != nil {
		return nil, err
	}
	if err := x.checkMatch(s.Etag); err != nil {
		return nil, err
	}
	return &answer{status: http.StatusNoContent}, x.server.engine.DeleteScript(ctx, c, s)
}

// executeProcedure says that there are none yet.
func (x *exchange) executeProcedure(context.Context) (*answer, error) {
	return nil, badRequest("Stored procedures are kept and not executed by this build.")
}
