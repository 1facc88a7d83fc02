// SPDX-License-Identifier: Apache-2.0

package clusterquery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
)

// Handler responds to the question of another node.
type Handler func(ctx context.Context, question []byte) ([]byte, error)

// Handlers holds the handlers of this node by subject. Until Start is called, all queries fail. The zero value is ready
// to use.
type Handlers struct {
	started   atomic.Bool
	bySubject map[string]Handler
}

// Handle registers the handler of a subject. It must not be called after Start.
func (h *Handlers) Handle(subject string, handler Handler) {
	if h.bySubject == nil {
		h.bySubject = map[string]Handler{}
	}
	h.bySubject[subject] = handler
}

// HandleJSON registers a handler that returns its response as a value for JSON (see All).
func HandleJSON[T any](h *Handlers, subject string, handler func(ctx context.Context, question []byte) (T, error)) {
	h.Handle(subject, func(ctx context.Context, question []byte) ([]byte, error) {
		response, err := handler(ctx, question)
		if err != nil {
			return nil, err
		}
		return json.Marshal(response)
	})
}

// Start makes Serve call the handlers.
func (h *Handlers) Start() { h.started.Store(true) }

// Serve responds to a query of another node.
func (h *Handlers) Serve(ctx context.Context, subject string, question []byte) ([]byte, error) {
	if !h.started.Load() {
		return nil, errors.New("the node is starting")
	}
	if handler := h.bySubject[subject]; handler != nil {
		return handler(ctx, question)
	}
	return nil, fmt.Errorf("unknown query subject %q", subject)
}
