// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"net/http"
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// slowStatements and slowRequests are the maximum numbers of listed statements and requests.
const slowStatements, slowRequests = 50, 100

// slowBody lists slow requests by statement. It also lists the most recent slow requests.
type slowBody struct {
	slowlog.Report
	// Off is true if the slow-query log is disabled.
	Off bool
}

func (s *site) slow(r *http.Request, _ *admin.Status) any {
	b := &slowBody{Report: s.o.Slow.SlowQueries(r.Context())}
	b.Off = b.ThresholdMillis == 0
	b.Statements = b.Statements[:min(len(b.Statements), slowStatements)]
	b.Requests = b.Requests[:min(len(b.Requests), slowRequests)]
	return b
}

// clock formats a time.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
