// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/function/script"
)

// scriptKinds maps path segments to kinds of scripts and to the names of their lists.
var scriptKinds = map[kind]struct {
	kind container.ScriptKind
	list string
}{
	procedures: {container.StoredProcedure, "StoredProcedures"},
	triggers:   {container.Trigger, "Triggers"},
	functions:  {container.UserFunction, "UserDefinedFunctions"},
}

// scriptHandler serves stored procedures, triggers, and user-defined functions.
type scriptHandler struct {
	engine   scripts
	scripts  Scripts
	sessions sessions
	lists    lists
}

// resourceOf returns a script in the client's format.
func (x *exchange) resourceOf(c *container.Container, s *container.Script) []byte {
	v := document.View(s.JSON)
	v = document.With(v, "_rid", document.StringValue(s.RID))
	v = document.With(v, "_self", document.StringValue(c.Self()+string(x.target.kind)+"/"+s.RID+"/"))
	v = document.With(v, "_etag", document.StringValue(s.Etag))
	return document.With(v, "_ts", document.NumberValue(float64(s.TS))).Append(nil)
}

func (x *exchange) allScripts(c *container.Container) (out []listed) {
	for _, s := range c.Scripts(scriptKinds[x.target.kind].kind) {
		out = append(out, listed{key: s.ID, body: x.resourceOf(c, s)})
	}
	return out
}

func (h *scriptHandler) list(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	return h.lists.serve(ctx, x, c.RID, scriptKinds[x.target.kind].list, x.allScripts(c))
}

// script finds the script of the path.
func (x *exchange) script(c *container.Container) (*container.Script, error) {
	kind := scriptKinds[x.target.kind].kind
	if !x.byRID {
		return c.Script(kind, x.target.id())
	}
	for _, s := range c.Scripts(kind) {
		if s.RID == x.target.id() {
			return s, nil
		}
	}
	return nil, notFound("The script does not exist in the container.")
}

func (h *scriptHandler) create(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	s, err := h.engine.CreateScript(ctx, c, scriptKinds[x.target.kind].kind, x.body)
	if err != nil {
		return nil, err
	}
	return x.found(http.StatusCreated, s.Etag, x.resourceOf(c, s)), nil
}

func (h *scriptHandler) read(_ context.Context, x *exchange, c *container.Container) (*answer, error) {
	s, err := x.script(c)
	if err != nil {
		return nil, err
	}
	return x.found(http.StatusOK, s.Etag, x.resourceOf(c, s)), nil
}

func (h *scriptHandler) replace(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	s, err := x.script(c)
	if err != nil {
		return nil, err
	}
	if s, err = h.engine.ReplaceScript(ctx, c, s, x.body, x.header.Get(hIfMatch)); err != nil {
		return nil, err
	}
	return x.found(http.StatusOK, s.Etag, x.resourceOf(c, s)), nil
}

func (h *scriptHandler) remove(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	s, err := x.script(c)
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusNoContent}, h.engine.DeleteScript(ctx, c, s, x.header.Get(hIfMatch))
}

func (h *scriptHandler) execute(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	s, err := x.script(c)
	if err != nil {
		return nil, err
	}
	key, err := x.wholeKey(c)
	if err != nil {
		return nil, err
	}
	h.sessions.accept(x)
	done, where, err := h.scripts.Execute(ctx, c, key, s.ID, x.body, flag(x.header, hScriptLogging), x.asked())
	if err != nil {
		return nil, err
	}
	return x.executed(where, done), nil
}

// executed returns the response for the result of a script.
func (o *output) executed(where container.Where, done *script.Executed) *answer {
	o.where(where)
	if done.Log != "" {
		o.set(aScriptLog, logHeader(done.Log))
	}
	return &answer{status: http.StatusOK, body: done.Body}
}

// logHeaderMax is the maximum size of the log header, in bytes. Some clients reject responses whose headers exceed 16
// KiB.
const logHeaderMax = 12 << 10

// logHeader returns the log of a script in the client's format. Entries are separated by line feeds, and are encoded
// in the same way as by JavaScript's encodeURIComponent. A log that is too long is truncated after a complete
// character.
func logHeader(log string) string {
	const digits = "0123456789ABCDEF"
	var out []byte
	for rest := strings.TrimSuffix(log, "\n"); rest != ""; {
		_, n := utf8.DecodeRuneInString(rest)
		before := len(out)
		for _, b := range []byte(rest[:n]) {
			if b < utf8.RuneSelf && (b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' ||
				strings.IndexByte("-_.!~*'()", b) >= 0) {
				out = append(out, b)
			} else {
				out = append(out, '%', digits[b>>4], digits[b&15])
			}
		}
		if len(out) > logHeaderMax {
			return string(out[:before])
		}
		rest = rest[n:]
	}
	return string(out)
}

// names returns the names in a header.
func names(list string) (out []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
