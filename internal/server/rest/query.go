// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// queryHandler serves queries over items, and feeds of items and their changes.
type queryHandler struct {
	engine   records
	compiler compiler
	scripts  Scripts
	sessions sessions
}

// query parses the body of a query.
func (x *exchange) query() (*container.QueryRequest, error) {
	var sent struct {
		Query      string `json:"query"`
		Parameters []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(x.body, &sent); err != nil {
		return nil, badRequest(`The body of a query must have the form {"query": "..", "parameters": [..]}: ` + err.Error())
	}
	if sent.Query == "" {
		return nil, badRequest("The query is empty.")
	}
	q := &container.QueryRequest{Text: sent.Query, Parameters: make([]container.Parameter, len(sent.Parameters))}
	for i := range sent.Parameters {
		p := &sent.Parameters[i]
		q.Parameters[i] = container.Parameter{Name: p.Name, Value: p.Value}
	}
	return q, nil
}

// scope returns the scope of a query or feed from the headers.
func (x *exchange) scope(c *container.Container) (s container.Scope, err error) {
	if s.Key, err = x.key(c); err != nil {
		return s, err
	}
	s.Range = x.header.Get(hRangeID)
	if i := strings.LastIndexByte(s.Range, ','); i >= 0 {
		s.Range = s.Range[i+1:] // the part after the resource ID of the container
	}
	s.MinEPK, s.MaxEPK = x.header.Get(hStartEPK), x.header.Get(hEndEPK)
	return s, nil
}

// look returns the scope and the page size of a query or feed from the headers. It also processes the session token.
func (h *queryHandler) look(x *exchange, c *container.Container) (s container.Scope, size int, err error) {
	if s, err = x.scope(c); err != nil {
		return s, 0, err
	}
	size, refusal := pageSize(x.header)
	if refusal != nil {
		return s, 0, refusal
	}
	h.sessions.accept(x)
	return s, size, nil
}

func (h *queryHandler) query(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	q, err := x.query()
	if err != nil {
		return nil, err
	}
	size := 0
	if q.Scope, size, err = h.look(x, c); err != nil {
		return nil, err
	}
	q.Functions = h.scripts.Functions(c)
	q.CrossPartition = flag(x.header, hCrossPartition) || q.Range != "" || q.MinEPK != "" || q.MaxEPK != ""
	q.Continuation, q.MaxItems, q.RequestOptions = x.header.Get(hContinuation), size, x.asked()
	page, err := h.engine.Query(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return h.page(x, c, page), nil
}

func (h *queryHandler) list(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	s, size, err := h.look(x, c)
	if err != nil {
		return nil, err
	}
	page, err := h.engine.Feed(ctx, c, s, x.header.Get(hContinuation), size, x.asked())
	if err != nil {
		return nil, err
	}
	return h.page(x, c, page), nil
}

// page returns the response of a query or feed.
func (h *queryHandler) page(x *exchange, c *container.Container, page *container.Page) *answer {
	x.where(page.Where)
	if page.Range == "" {
		h.sessions.report(x, c)
	}
	if page.Continuation != "" {
		x.set(aContinuation, page.Continuation)
	}
	if flag(x.header, hQueryMetrics) {
		x.set(aMetrics, metricsText(&page.Metrics))
	}
	x.indexMetrics(&page.Index)
	return x.feed(c.RID, "Documents", page.Documents)
}

// metricsText returns the query metrics in the client's format. Times that are not measured have the value 0.
func metricsText(m *container.QueryMetrics) string {
	const times = "totalExecutionTimeInMs=0.00;queryCompileTimeInMs=0.00;queryLogicalPlanBuildTimeInMs=0.00;" +
		"queryPhysicalPlanBuildTimeInMs=0.00;queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs=0.00;" +
		"indexLookupTimeInMs=0.00;instructionCount=0;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;" +
		"userFunctionExecuteTimeInMs=0.00;"
	hit := 0.0
	if m.RetrievedCount > 0 {
		hit = min(1, float64(m.OutputCount)/float64(m.RetrievedCount))
	}
	return times + fmt.Sprintf("retrievedDocumentCount=%d;retrievedDocumentSize=%d;outputDocumentCount=%d;"+
		"outputDocumentSize=%d;writeOutputTimeInMs=0.00;indexUtilizationRatio=%s", m.RetrievedCount, m.RetrievedBytes,
		m.OutputCount, m.OutputBytes, strconv.FormatFloat(hit, 'f', 2, 64))
}

// plan returns the query plan for a client that merges the results of a query.
func (h *queryHandler) plan(_ context.Context, x *exchange, c *container.Container) (*answer, error) {
	q, err := x.query()
	if err != nil {
		return nil, err
	}
	key, err := x.key(c)
	if err != nil {
		return nil, err
	}
	release, err := h.compiler.Compiling(q.Text)
	if err != nil {
		return nil, err
	}
	defer release()
	compiled, err := compile(q, c.Definition.Schema)
	if err != nil {
		return nil, err
	}
	var ranges []sql.PlanRange
	if key != nil {
		at := c.Definition.Hash.Hex(key)
		r := sql.PlanRange{Min: at, Max: at, IsMinInclusive: true, IsMaxInclusive: true}
		if len(key) < len(c.Definition.Paths) {
			r.Max, r.IsMaxInclusive = at+epk.End, false // the range includes all keys with the prefix
		}
		ranges = append(ranges, r)
	}
	return &answer{http.StatusOK, sql.Plan(compiled, ranges)}, nil
}
