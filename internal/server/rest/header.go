// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// These are the names of request headers in the canonical form of package http.
const (
	hDate           = "X-Ms-Date"
	hPartitionKey   = "X-Ms-Documentdb-Partitionkey"
	hUpsert         = "X-Ms-Documentdb-Is-Upsert"
	hQuery          = "X-Ms-Documentdb-Isquery"
	hQueryGo        = "X-Ms-Documentdb-Query"
	hQueryPlan      = "X-Ms-Cosmos-Is-Query-Plan-Request"
	hBatch          = "X-Ms-Cosmos-Is-Batch-Request"
	hBatchAtomic    = "X-Ms-Cosmos-Batch-Atomic"
	hBatchContinue  = "X-Ms-Cosmos-Batch-Continue-On-Error"
	hMaxItems       = "X-Ms-Max-Item-Count"
	hContinuation   = "X-Ms-Continuation"
	hCrossPartition = "X-Ms-Documentdb-Query-Enablecrosspartition"
	hRangeID        = "X-Ms-Documentdb-Partitionkeyrangeid"
	hStartEPK       = "X-Ms-Start-Epk"
	hEndEPK         = "X-Ms-End-Epk"
	hSession        = "X-Ms-Session-Token"
	hIncremental    = "A-Im"
	hIntendedRID    = "X-Ms-Cosmos-Intended-Collection-Rid"
	hThroughput     = "X-Ms-Offer-Throughput"
	hAutopilot      = "X-Ms-Cosmos-Offer-Autopilot-Settings"
	hStatistics     = "X-Ms-Documentdb-Populatepartitionstatistics"
	hQuota          = "X-Ms-Documentdb-Populatequotainfo"
	hQueryMetrics   = "X-Ms-Documentdb-Populatequerymetrics"
	hIndexMetrics   = "X-Ms-Cosmos-Populateindexmetrics"
	hIndexMetricsV2 = "X-Ms-Cosmos-Populateindexmetrics-V2"
	hPreTriggers    = "X-Ms-Documentdb-Pre-Trigger-Include"
	hPostTriggers   = "X-Ms-Documentdb-Post-Trigger-Include"
	hScriptLogging  = "X-Ms-Documentdb-Script-Enable-Logging"
	hTokenExpiry    = "X-Ms-Documentdb-Expiry-Seconds"
	hPrefer         = "Prefer"
	hPriority       = "X-Ms-Cosmos-Priority-Level"
	hIfMatch        = "If-Match"
	hIfNoneMatch    = "If-None-Match"
	// hIfModifiedSince is the start time of a change feed.
	hIfModifiedSince = "If-Modified-Since"
	hContentType     = "Content-Type"
)

// These are the names of response headers in the form in which they are sent.
const (
	aCharge       = "x-ms-request-charge"
	aActivity     = "x-ms-activity-id"
	aSubStatus    = "x-ms-substatus"
	aRetryAfter   = "x-ms-retry-after-ms"
	aETag         = "etag"
	aSession      = "x-ms-session-token"
	aLSN          = "lsn"
	aContinuation = "x-ms-continuation"
	aItemCount    = "x-ms-item-count"
	aAltPath      = "x-ms-alt-content-path"
	aPath         = "x-ms-content-path"
	aQuota        = "x-ms-resource-quota"
	aUsage        = "x-ms-resource-usage"
	aRange        = "x-ms-documentdb-partitionkeyrangeid"
	aPhysical     = "x-ms-cosmos-physical-partition-id"
	aMetrics      = "x-ms-documentdb-query-metrics"
	aIndexMetrics = "x-ms-cosmos-index-utilization"
	aMinOffer     = "x-ms-cosmos-min-throughput"
	aOfferPending = "x-ms-offer-replace-pending"
	aVersion      = "x-ms-gatewayversion"
	aIndexing     = "x-ms-documentdb-collection-index-transformation-progress"
	aScriptLog    = "x-ms-documentdb-script-log-results"
)

// flag reports whether a header has the value true. The case of the value does not matter.
func flag(h httpwire.Fields, name string) bool { return strings.EqualFold(h.Get(name), "true") }

// minimal reports whether the client does not need the body of a written item.
func minimal(h httpwire.Fields) bool { return strings.EqualFold(h.Get(hPrefer), "return=minimal") }

const (
	// pageDefault is the default number of items in a page. pageFull is the number of items that the value -1 selects.
	pageDefault, pageFull = 100, 1000
	// pageMax is the maximum number of items in a page.
	pageMax = 10_000
)

// pageSize returns the maximum number of items in a page.
func pageSize(h httpwire.Fields) (int, *failure) {
	text := h.Get(hMaxItems)
	if text == "" {
		return pageDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n == 0 || n < -1 {
		return 0, badRequest("x-ms-max-item-count " + strconv.Quote(text) + " is not a positive number or -1.")
	}
	if n == -1 {
		return pageFull, nil
	}
	return min(n, pageMax), nil
}
