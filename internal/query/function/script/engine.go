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

// patternTime is the maximum duration of a backtracking regular expression match. It must exceed the maximum duration
// of a script, because an interrupted match is treated as no match. The regular expression engine supports only a
// global setting, which no other code in the process uses.
const patternTime = time.Second

var boundPatterns = sync.OnceFunc(func() { regexp2.DefaultMatchTimeout = patternTime })

// Engine executes scripts. A process has one Engine. An Engine is safe for concurrent use.
type Engine struct {
	bounds Bounds
	// slots limits the number of concurrent scripts.
	slots     *fairshare.Slots
	abandoned atomic.Int64

	mu     sync.Mutex
	realms []*realm

	programs programs

	// collecting guards collection. collection is the time of the last garbage collection that the method collected has
	// started.
	collecting sync.Mutex
	collection time.Time
}

// realmUsesMax is the maximum number of runs in a realm.
const realmUsesMax = 10_000

// New returns an engine.
func New(b Bounds) *Engine {
	boundPatterns()
	b = b.withDefaults()
	began := time.Now()
	slots := fairshare.NewSlots(b.Scripts, func() time.Duration { return time.Since(began) })
	return &Engine{bounds: b, slots: slots,
		programs: programs{of: map[string]*list.Element{}, compiling: make(chan struct{}, 1)}}
}

// Call holds the input of a script.
type Call struct {
	Program *Program
	// Items provides access to items. For a user-defined function, Items is nil.
	Items Items
	// SelfLink is the container's link that consists of resource IDs. AltLink is the container's link that consists of
	// names.
	SelfLink, AltLink string
	// Arguments is the array of a procedure's or function's arguments, or undefined if the call has no arguments.
	Arguments document.Value
	// Operation is the operation of a trigger: Create, Replace, Upsert, or Delete.
	Operation string
	// Request is the request body of a trigger. Response is the response body of a post-trigger.
	Request, Response document.Value
	// Headers maps lower-case names to additional values for getValue.
	Headers map[string]string
	// Log enables the console log.
	Log bool
	// Who identifies the claimant. Claimants share the script slots evenly. The zero value represents all clients of
	// containers.
	Who fairshare.Principal

	// cql is the CQL function that is called with wire values. For container scripts, cql is nil.
	cql  *Body
	wire [][]byte
}

// Outcome is the result of a script.
type Outcome struct {
	// Body is the JSON of the response, or nil if the script has not set a response. Request is the request body after
	// a pre-trigger.
	Body, Request []byte
	// Log is the console log. It is also set after a failure.
	Log string
}

// Procedure executes a stored procedure. Errors are of type *Failure. After an error, the outcome contains only the
// log, and the caller must roll back all changes that the script has made.
func (e *Engine) Procedure(ctx context.Context, c *Call) (*Outcome, error) {
	return e.outcome(ctx, procedure, c)
}

// Before executes a pre-trigger. The pre-trigger may change the request body of the operation.
func (e *Engine) Before(ctx context.Context, c *Call) (*Outcome, error) {
	return e.outcome(ctx, preTrigger, c)
}

// After executes a post-trigger. The post-trigger may change the response body of the operation.
func (e *Engine) After(ctx context.Context, c *Call) (*Outcome, error) {
	return e.outcome(ctx, postTrigger, c)
}

// Function calls a user-defined function. If JSON cannot represent the result, Function returns undefined.
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

// Abandoned returns the number of abandoned scripts. A script is abandoned if it is executing a built-in when its time
// limit expires.
func (e *Engine) Abandoned() int64 { return e.abandoned.Load() }

// inner is the context key for the *sync.WaitGroup of a script's slot. If a query of the script calls a function, the
// function runs in the slot of the waiting script. If each function required a separate slot, procedures that occupy
// all slots would deadlock.
type inner struct{}

// slotOf returns the wait group of the calling script's slot, or nil.
func slotOf(ctx context.Context) *sync.WaitGroup {
	w, _ := ctx.Value(inner{}).(*sync.WaitGroup)
	return w
}

// enter waits for a script slot. The slot is assigned to the claimant with the lowest usage. The caller must pass the
// returned wait group to leave.
func (e *Engine) enter(ctx context.Context, who fairshare.Principal) (of *sync.WaitGroup, err error) {
	if of = slotOf(ctx); of != nil {
		of.Add(1)
		return of, nil
	}
	if e.slots.TryEnter() {
		return nil, nil
	}
	if e.slots.Enter(ctx, who, e.bounds.Time) == nil {
		return nil, nil
	}
	if err := ctx.Err(); err != nil && who != (fairshare.Principal{}) {
		return nil, err
	}
	return nil, &Failure{Status: 429, Fatal: true, Message: fmt.Sprintf(
		"The limit of %d concurrent scripts on this node is reached. The script was not executed. Retry", e.bounds.Scripts)}
}

// leave releases the slot that enter has acquired. It does not use the request's context, because the context may have
// been reused after the end of the request.
func (e *Engine) leave(of *sync.WaitGroup, who fairshare.Principal, held time.Duration) {
	if of != nil {
		of.Done()
		return
	}
	e.slots.Leave(who, held)
}

// take returns a realm from the pool or creates one.
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

// give returns a realm to the pool. The maximum size of the pool is the number of slots.
func (e *Engine) give(r *realm) {
	r.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.realms) < e.bounds.Scripts {
		e.realms = append(e.realms, r)
	}
}
