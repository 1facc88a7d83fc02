// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container"
)

// batchOperation is an operation of a batch in the client's format.
type batchOperation struct {
	Type         string          `json:"operationType"`
	ID           string          `json:"id"`
	Body         json.RawMessage `json:"resourceBody"`
	IfMatch      string          `json:"ifMatch"`
	IfNoneMatch  string          `json:"ifNoneMatch"`
	PartitionKey string          `json:"partitionKey"`
}

var kindsOfBatch = map[string]container.Kind{
	"Create": container.Create, "Upsert": container.Upsert, "Replace": container.Replace, "Delete": container.Delete,
	"Patch": container.Patch, "Read": container.Read,
}

// batchOperations parses the body of a batch. silent reports whether the client does not need bodies. If the batch
// contains reads, the response contains all bodies.
func (x *exchange) batchOperations() (keys []string, ops []container.Operation, silent bool, err error) {
	var sent []batchOperation
	if err := json.Unmarshal(x.body, &sent); err != nil {
		return nil, nil, false, badRequest("The body of a batch must be a JSON array of operations: " + err.Error())
	}
	switch {
	case x.header.Get(hPreTriggers) != "" || x.header.Get(hPostTriggers) != "":
		return nil, nil, false, badRequest("Triggers are supported only for single operations, not for batches and bulk requests.")
	case len(sent) == 0:
		return nil, nil, false, badRequest("Batch request has no operations.")
	case len(sent) > container.OperationsMax:
		return nil, nil, false, badRequest("Batch request has more operations than what is supported.")
	}
	silent = minimal(x.header)
	ops, keys = make([]container.Operation, len(sent)), make([]string, len(sent))
	for i := range sent {
		s := &sent[i]
		kind, ok := kindsOfBatch[s.Type]
		if !ok {
			return nil, nil, false, badRequest("Operation " + strconv.Itoa(i) + " of the batch has the unknown type " +
				strconv.Quote(s.Type) + ".")
		}
		silent = silent && kind != container.Read
		ops[i] = container.Operation{Kind: kind, ID: s.ID, Body: s.Body, IfMatch: s.IfMatch, IfNoneMatch: s.IfNoneMatch}
		keys[i] = s.PartitionKey
	}
	return keys, ops, silent, nil
}

// batch executes the operations of a batch atomically.
func (h *itemHandler) batch(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	key, err := x.wholeKey(c)
	if err != nil {
		return nil, err
	}
	_, ops, silent, err := x.batchOperations()
	if err != nil {
		return nil, err
	}
	h.sessions.accept(x)
	results, err := h.engine.Do(ctx, c, key, ops, container.RequestOptions{NoBodies: silent,
		Claimant: x.claimant()})
	if err != nil {
		return nil, err
	}
	x.where(results.Where)
	status := http.StatusOK
	if results.Failed >= 0 {
		status = http.StatusMultiStatus
	}
	return &answer{status, appendResults(nil, results.Of, silent)}, nil
}

// bulkMax is the maximum number of logical partitions that a bulk request processes concurrently.
const bulkMax = 8

// bulk executes operations on the logical partitions that they specify. Operations on one logical partition are
// executed in order, and logical partitions are processed concurrently. If the client requests a stop after an error,
// all operations are executed in order until an operation fails.
func (h *itemHandler) bulk(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	keys, ops, silent, err := x.batchOperations()
	if err != nil {
		return nil, err
	}
	ordered := strings.EqualFold(x.header.Get(hBatchContinue), "false")
	results, wheres := make([]container.Result, len(ops)), make([]container.Where, len(ops))
	turns := make(chan struct{}, bulkMax)
	var wg sync.WaitGroup
	for _, lane := range x.lanes(c, keys, ordered) {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			failed := false
			for _, i := range lane {
				if failed && ordered {
					results[i] = container.Result{Status: http.StatusFailedDependency, Err: &container.Error{
						Status: http.StatusFailedDependency, Code: codes[http.StatusFailedDependency]}}
					continue
				}
				results[i], wheres[i] = h.doOfBulk(ctx, x, c, keys[i], ops[i], silent)
				failed = failed || results[i].Err != nil && results[i].Status != http.StatusNotModified
			}
		})
	}
	wg.Wait()
	status := http.StatusOK
	var sum container.Where
	for i := range results {
		charge := sum.Charge + wheres[i].Charge
		if wheres[i].Range != "" {
			sum = wheres[i]
		}
		sum.Charge = charge
		if results[i].Err != nil {
			status = http.StatusMultiStatus
		}
	}
	x.where(sum)
	return &answer{status, appendResults(nil, results, silent)}, nil
}

// lanes returns lists of operations that must be executed in sequence. Each operation is represented by its index. A
// list contains the operations of one partition key, or all operations. Operations with an invalid key share a list.
func (x *exchange) lanes(c *container.Container, keys []string, ordered bool) (out [][]int) {
	of := map[string]int{}
	for i := range keys {
		name := ""
		if !ordered {
			if key, err := c.ParseKey(cmp.Or(keys[i], x.header.Get(hPartitionKey))); err == nil {
				name = string(epk.AppendKey(nil, key))
			}
		}
		n, there := of[name]
		if !there {
			n, of[name] = len(out), len(out)
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

// doOfBulk executes one operation of a bulk request.
func (h *itemHandler) doOfBulk(ctx context.Context, x *exchange, c *container.Container, keyText string,
	op container.Operation, silent bool) (result container.Result, _ container.Where) {
	defer func() {
		if panicked := recover(); panicked != nil {
			f := x.recovered(panicked)
			result = container.Result{Status: f.status, Err: &container.Error{Status: f.status, Code: codes[f.status],
				Message: f.message}}
		}
	}()
	if keyText == "" {
		keyText = x.header.Get(hPartitionKey)
	}
	key, err := c.ParseKey(keyText)
	var done *container.Results
	if err == nil {
		done, err = h.engine.Do(ctx, c, key, []container.Operation{op},
			container.RequestOptions{NoBodies: silent, Claimant: x.claimant()})
	}
	if err != nil {
		f := failureOf(err)
		return container.Result{Status: f.status, Charge: f.charge, Err: &container.Error{Status: f.status,
			SubStatus: f.sub, Code: codes[f.status], Message: f.message, RetryAfter: f.retryAfter}}, container.Where{}
	}
	return done.Of[0], done.Where
}

// appendResults appends the results of operations as JSON.
func appendResults(dst []byte, results []container.Result, silent bool) []byte {
	dst = append(dst, '[')
	for i := range results {
		r := &results[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"statusCode":`...)
		dst = strconv.AppendInt(dst, int64(r.Status), 10)
		dst = append(dst, `,"requestCharge":`...)
		dst = appendCharge(dst, r.Charge)
		if e := r.Err; e != nil {
			if e.SubStatus != 0 {
				dst = append(dst, `,"subStatusCode":`...)
				dst = strconv.AppendInt(dst, int64(e.SubStatus), 10)
			}
			if e.RetryAfter > 0 {
				dst = append(dst, `,"retryAfterMilliseconds":`...)
				dst = strconv.AppendInt(dst, max(1, e.RetryAfter.Milliseconds()), 10)
			}
			if e.Status != http.StatusFailedDependency {
				dst = append(dst, `,"message":`...)
				dst = document.AppendString(dst, e.Message)
			}
		}
		if r.Item != nil {
			dst = append(dst, `,"eTag":`...)
			dst = document.AppendString(dst, r.Item.Etag)
			if !silent && r.Status != http.StatusNotModified {
				dst = append(dst, `,"resourceBody":`...)
				dst = r.Item.AppendResource(dst)
			}
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
