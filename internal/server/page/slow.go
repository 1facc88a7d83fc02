// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"time"

	"github.com/ilion-db/ilion/internal/query/slowlog"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// slowStatements and slowRequests bound what is listed of what took long.
const slowStatements, slowRequests = 50, 100

// slowBody is what took long: by statement, and the newest requests.
type slowBody struct {
	slowlog.Report
	// Off says that nothing is kept.
	Off bool
}

func (s *site) slow(r *http.Request, _ *admin.Status) any {
	b := &slowBody{Report: s.o.Slow(r.Context())}
	b.Off = b.ThresholdMillis == 0
	b.Statements = b.Statements[:min(len(b.Statements), slowStatements)]
	b.Requests = b.Requests[:min(len(b.Requests), slowRequests)]
	return b
}

// clock shows an instant.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
