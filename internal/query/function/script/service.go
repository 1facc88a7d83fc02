// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// Service executes the scripts of containers for clients. It runs each script on the leader of the logical partition as
// one transaction. Service is safe for concurrent use.
type Service struct {
	engine     *Engine
	containers *container.Engine
}

// NewService returns a service that executes scripts in an engine. It also registers the service as the runner of c, so
// that the service executes requests from other nodes.
func NewService(c *container.Engine, e *Engine) *Service {
	s := &Service{e, c}
	c.SetRunner(s)
	return s
}

// Executed is the result of a script, or of an operation with triggers.
type Executed struct {
	// Body is the JSON of the response, or nil.
	Body []byte
	// Log is the console log if the client requested the log.
	Log string
	// Status is the status of an operation with triggers. Etag is the etag of the written item. After a Delete, Etag is
	// empty.
	Status int
	Etag   string
}

// Execute executes a stored procedure. args is a JSON array or empty. Errors are of type *container.Error.
func (s *Service) Execute(ctx context.Context, c *container.Container, key epk.Key, id string, args []byte, log bool,
	o container.RequestOptions) (*Executed, container.Where, error) {
	if _, err := c.Script(container.StoredProcedure, id); err != nil {
		return nil, container.Where{}, err
	}
	if len(args) > 0 {
		v, err := document.Parse(args, document.Limits{})
		if err != nil || v.Kind() != document.Array {
			return nil, container.Where{}, container.Errorf(400, 0,
				"The arguments of a stored procedure must be a JSON array.")
		}
	}
	return s.run(ctx, c, key, &order{id: id, args: args, log: log}, o)
}

// Do executes an operation on an item with the named pre- and post-triggers. Errors are of type *container.Error. The
// error of a trigger has the status 400.
func (s *Service) Do(ctx context.Context, c *container.Container, key epk.Key, op *container.Operation, before,
	after []string, log bool, o container.RequestOptions) (*Executed, container.Where, error) {
	return s.run(ctx, c, key, &order{op: *op, before: before, after: after, log: log}, o)
}

func (s *Service) run(ctx context.Context, c *container.Container, key epk.Key, q *order, o container.RequestOptions) (
	*Executed, container.Where, error) {
	result, where, err := s.containers.Run(ctx, c, key, q.append(nil), o)
	if err != nil {
		return nil, where, err
	}
	out, err := decodeExecuted(result)
	return out, where, err
}

// Functions returns the user-defined functions of a container for use in queries.
func (s *Service) Functions(c *container.Container) sql.Functions { return functions{s.engine, c} }

type functions struct {
	engine *Engine
	c      *container.Container
}

// Call implements sql.Functions. If the function does not exist, the query is a bad request.
func (f functions) Call(ctx context.Context, name string, args []document.Value) (document.Value, error) {
	p, err := program(ctx, f.engine, f.c, container.UserFunction, name)
	if container.StatusOf(err) == http.StatusNotFound {
		return document.Value{}, container.Errorf(http.StatusBadRequest, 0, "The query calls udf.%s, but the "+
			"container has no user-defined function of this name. Create the function or correct the name.", name)
	}
	if err != nil {
		return document.Value{}, err
	}
	v, err := f.engine.Function(ctx, p.Program, args)
	return v, clientError(err)
}

// stored is a compiled script of a container.
type stored struct {
	*Program
	definition document.Value
}

// program finds a script of a container and compiles it if necessary.
func program(ctx context.Context, e *Engine, c *container.Container, kind container.ScriptKind, id string) (*stored,
	error) {
	found, err := c.Script(kind, id)
	if err != nil {
		return nil, err
	}
	p, err := e.Program(ctx, id, found.Body)
	return &stored{p, document.View(found.JSON)}, clientError(err)
}

// clientError converts an error to a client error.
func clientError(err error) error {
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		return err
	}
	e := container.Errorf(f.Status, f.SubStatus, "%s", f.Message)
	if f.Status == 429 {
		e.RetryAfter = container.BusyPause
	}
	return e
}

// leastTime is a divisor of a script's time limit. A script starts only if the quotient plus the grace period remains
// before the deadline.
const leastTime = 4

// RunProgram implements container.Runner.
func (s *Service) RunProgram(ctx context.Context, t *container.Transaction, program []byte) ([]byte, error) {
	q, err := decodeOrder(program)
	if err != nil {
		return nil, err
	}
	if d, ok := ctx.Deadline(); ok && time.Until(d) < s.engine.bounds.Time/leastTime+s.engine.bounds.Grace {
		return nil, clientError(&Failure{Status: 429, Fatal: true, Message: "The request waited too long for its " +
			"partition key. Its script was not executed. Retry"})
	}
	c := t.Container()
	l := &leader{service: s, t: t, order: q, ids: map[string]string{},
		writesMax: changesMax / (1 + len(c.Definition.UniqueKeys)),
		call:      Call{SelfLink: c.Self(), AltLink: "dbs/" + c.Database.ID + "/colls/" + c.ID, Log: q.log}}
	l.call.Items = l
	if q.op.Kind == 0 {
		err = l.procedure(ctx)
	} else {
		err = l.operation(ctx)
	}
	if err != nil {
		return nil, clientError(err)
	}
	return l.out.append(nil), nil
}

// procedure executes a stored procedure.
func (l *leader) procedure(ctx context.Context) error {
	p, err := program(ctx, l.service.engine, l.t.Container(), container.StoredProcedure, l.order.id)
	if err != nil {
		return err
	}
	call := l.call
	call.Program, call.Arguments = p.Program, document.View(l.order.args)
	out, err := l.service.engine.Procedure(ctx, &call)
	l.out.Status, l.out.Body, l.out.Log = 200, out.Body, out.Log
	return err
}

// operation executes an operation with triggers.
func (l *leader) operation(ctx context.Context) error {
	op := l.order.op
	call := l.call
	call.Operation = operationNames[op.Kind]
	request := op.Body
	for _, id := range l.order.before {
		p, err := l.trigger(ctx, id, "pre", call.Operation)
		if err != nil {
			return err
		}
		call.Program, call.Request = p.Program, document.View(request)
		out, err := l.service.engine.Before(ctx, &call)
		if err != nil {
			return err
		}
		request, l.out.Log = out.Request, l.out.Log+out.Log
	}
	if op.Body != nil {
		v, bad := container.ParseItem(request)
		if bad != nil {
			return bad
		}
		op.Body = v.Append(nil)
	}
	there := false
	if op.Kind == container.Upsert {
		_, bad := l.t.Do(ctx, &container.Operation{Kind: container.Read, ID: document.View(op.Body).Get("id").Str()})
		there = bad == nil
	}
	current, bad := l.t.Do(ctx, &op)
	if bad != nil {
		return bad
	}
	switch {
	case op.Kind == container.Create, op.Kind == container.Upsert && !there:
		l.out.Status = 201
	case op.Kind == container.Delete:
		l.out.Status = 204
	default:
		l.out.Status = 200
	}
	if current != nil {
		item := current.Item()
		l.out.Body, l.out.Etag = item.Resource(), item.Etag
	}
	for _, id := range l.order.after {
		p, err := l.trigger(ctx, id, "post", call.Operation)
		if err != nil {
			return err
		}
		call.Program, call.Request, call.Response = p.Program, document.View(request), document.View(l.out.Body)
		out, err := l.service.engine.After(ctx, &call)
		if err != nil {
			return err
		}
		l.out.Body, l.out.Log = out.Body, l.out.Log+out.Log
	}
	return nil
}

// operationNames maps kinds of operations to the operations of triggers.
var operationNames = map[container.Kind]string{container.Create: "Create", container.Upsert: "Upsert",
	container.Replace: "Replace", container.Delete: "Delete"}

// trigger finds a trigger that applies to an operation. when is "pre" or "post".
func (l *leader) trigger(ctx context.Context, id, when, operation string) (*stored, error) {
	if operation == "" {
		return nil, container.Errorf(400, 0, "Triggers are supported only for create, upsert, replace and delete.")
	}
	p, err := program(ctx, l.service.engine, l.t.Container(), container.Trigger, id)
	if err != nil {
		return nil, err
	}
	if is := p.definition.Get("triggerType").Str(); !strings.EqualFold(is, when) {
		return nil, container.Errorf(400, 0, "The trigger %s is a %s-trigger, but the request specifies it as a %s-trigger.", id, is, when)
	}
	is := p.definition.Get("triggerOperation").Str()
	upserts := operation == "Upsert" && (strings.EqualFold(is, "Create") || strings.EqualFold(is, "Replace"))
	if !strings.EqualFold(is, "All") && !strings.EqualFold(is, operation) && !upserts &&
		!(operation == "Replace" && strings.EqualFold(is, "Update")) {
		return nil, container.Errorf(400, 0, "The trigger %s is for the operation %s, not for %s.", id, is, operation)
	}
	return p, nil
}
