// SPDX-License-Identifier: Apache-2.0

package script

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2/v2"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fairshare"
)

// patternTime is how long one match of a regular expression may take that backtracks: longer than a script may run, as
// the engine takes a match that was ended for none. The engine has its default alone to set it by, and nothing else in
// the process uses it.
const patternTime = time.Second

var boundPatterns = sync.OnceFunc(func() { regexp2.DefaultMatchTimeout = patternTime })

// Engine runs scripts. One serves a process; it is safe for concurrent use.
type Engine struct {
	bounds Bounds
	// places has room for the scripts that run.
	places *fairshare.Slots
	// abandoned counts the scripts that were given up on.
	abandoned atomic.Int64

	mu     sync.Mutex
	realms []*realm

	programs programs

	// collecting guards collection, the time of the last garbage collection by collected.
	collecting sync.Mutex
	collection time.Time
}

// realmUsesMax is how many runs a realm serves.
const realmUsesMax = 10_000

// New makes an engine.
func New(b Bounds) *Engine {
	boundPatterns()
	b = b.withDefaults()
	began := time.Now()
	places := fairshare.NewSlots(b.Scripts, func() time.Duration { return time.Since(began) })
	return &Engine{bounds: b, places: places,
		programs: programs{of: map[string]*list.Element{}, compiling: make(chan struct{}, 1)}}
}

// Call is what a script is called with.
type Call struct {
	Program *Program
	// Items are what it may reach; nil for a user-defined function.
	Items Items
	// SelfLink and AltLink are the links of the container by resource ids and by names.
	SelfLink, AltLink string
	// Arguments are the arguments of a procedure or function: an array, or undefined for none.
	Arguments document.Value
	// Operation is what the item of a trigger is used for: Create, Replace, Upsert, Delete.
	Operation string
	// Request is the body of the request of a trigger, Response that of its response, for one that runs after.
	Request, Response document.Value
	// Headers are what getValue finds besides, by their names in lower case.
	Headers map[string]string
	// Log keeps what the script writes to the console.
	Log bool
	// Who asks for a place: claimants share the places evenly. The zero value stands for all clients of containers.
	Who fairshare.Principal

	// cql is the function of CQL that is called with wire values, nil for scripts of containers.
	cql  *Body
	wire [][]byte
}

// Outcome is what a script returned.
type Outcome struct {
	// Body is the JSON of the response, nil if the script has set none. Request is that of the request after a trigger
	// that ran before its operation.
	Body, Request []byte
	// Log is what it logged; also where it failed.
	Log string
}

// Procedure runs a stored procedure. Errors are *Failure; the outcome then has the log alone. If there is an error,
// nothing that the script did by its Items may stay.
func (e *Engine) Procedure(ctx context.Context, c *Call) (*Outcome, error) {
	return e.outcome(ctx, procedure, c)
}

// Before runs a trigger before its operation, whose body it may change.
func (e *Engine) Before(ctx context.Context, c *Call) (*Outcome, error) {
	return e.outcome(ctx, preTrigger, c)
}

// After runs a trigger after its operation, whose response it may change.
func (e *Engine) After(ctx context.Context, c *Call) (*Outcome, error) {
	return e.outcome(ctx, postTrigger, c)
}

// Function calls a user-defined function. What it returns is undefined where JSON has no word for it.
func (e *Engine) Function(ctx context.Context, p *Program, args []document.Value) (document.Value, error) {
	out, err := e.outcome(ctx, function, &Call{Program: p, Arguments: document.ArrayValue(args)})
	if err != nil || out.Body == nil {
		return document.Value{}, err
	}
	return document.View(out.Body), nil
}

func (e *Engine) outcome(ctx context.Context, role role, c *Call) (*Outcome, error) {
	out, err := e.do(ctx, role, c)
	if err != nil {
		return &Outcome{}, err
	}
	if out.failure != nil {
		return &Outcome{Log: out.log}, out.failure
	}
	return &Outcome{Body: out.body, Request: out.requestBody, Log: out.log}, nil
}

// Abandoned counts the scripts that were given up on in the life of the engine, because they were within one call of a
// built-in when their time was over.
func (e *Engine) Abandoned() int64 { return e.abandoned.Load() }

// inner is the key by which the context of a script that has a place has the *sync.WaitGroup of what runs at its place:
// a function that is called by a query of it runs while it waits, and needs none of its own. If each took one, as many
// procedures as there are places would wait for each other.
type inner struct{}

// placeOf is what runs at the place of the script that has called, nil if none has.
func placeOf(ctx context.Context) *sync.WaitGroup {
	w, _ := ctx.Value(inner{}).(*sync.WaitGroup)
	return w
}

// enter waits for a place among the scripts that run, which goes to the claimant that has had least. of is whose place
// it is, for leave.
func (e *Engine) enter(ctx context.Context, who fairshare.Principal) (of *sync.WaitGroup, err error) {
	if of = placeOf(ctx); of != nil {
		of.Add(1)
		return of, nil
	}
	if e.places.TryEnter() {
		return nil, nil
	}
	if e.places.Enter(ctx, who, e.bounds.Time) == nil {
		return nil, nil
	}
	if err := ctx.Err(); err != nil && who != (fairshare.Principal{}) {
		return nil, err
	}
	return nil, &Failure{Status: 429, Fatal: true, Message: fmt.Sprintf(
		"%d scripts run on this node, as many as may run at once. Nothing was done: try again", e.bounds.Scripts)}
}

// leave is the inverse of enter. It asks no context: the request may have ended, and its context be another one's.
func (e *Engine) leave(of *sync.WaitGroup, who fairshare.Principal, held time.Duration) {
	if of != nil {
		of.Done()
		return
	}
	e.places.Leave(who, held)
}

// take takes a realm from the pool, or makes one.
func (e *Engine) take() *realm {
	if r := e.pooled(); r != nil {
		return r
	}
	return newRealm(e.bounds.Depth)
}

func (e *Engine) pooled() *realm {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.realms)
	if n == 0 {
		return nil
	}
	r := e.realms[n-1]
	e.realms = e.realms[:n-1]
	return r
}

// give puts a realm back into the pool, which is as large as scripts may run at once.
func (e *Engine) give(r *realm) {
	r.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.realms) < e.bounds.Scripts {
		e.realms = append(e.realms, r)
	}
}
