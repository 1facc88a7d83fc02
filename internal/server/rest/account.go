// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"net/http"
)

// location is a region of the account.
type location struct {
	Name     string `json:"name"`
	Endpoint string `json:"databaseAccountEndpoint"`
}

// accountHandler describes the account.
type accountHandler struct{ opts *Options }

// read returns the account. The account contains the endpoint that the client has used.
func (h accountHandler) read(_ context.Context, x *exchange) (*answer, error) {
	scheme := "http://"
	if h.opts.TLS != nil {
		scheme = "https://"
	}
	here := []location{{h.opts.Region, scheme + x.request.Host + "/"}}
	replicas := map[string]any{"minReplicaSetSize": 3, "maxReplicasetSize": 4, "asyncReplication": false}
	body, err := json.Marshal(map[string]any{
		"_self": "", "id": "ilion", "_rid": "ilion", "media": "//media/", "addresses": "//addresses/", "_dbs": "//dbs/",
		"writableLocations": here, "readableLocations": here, "enableMultipleWriteLocations": false,
		"enablePerPartitionFailoverBehavior": false,
		"userReplicationPolicy":              replicas, "systemReplicationPolicy": replicas,
		"userConsistencyPolicy":    map[string]any{"defaultConsistencyLevel": "Session"},
		"readPolicy":               map[string]any{"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
		"queryEngineConfiguration": queryBounds,
	})
	if err != nil {
		return nil, err
	}
	return &answer{http.StatusOK, body}, nil
}

// queryBounds contains the query limits in the format of Cosmos DB, which other SDKs read.
const queryBounds = `{"maxSqlQueryInputLength":524288,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,` +
	`"maxLogicalOrPerSqlQuery":2000,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,` +
	`"queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,` +
	`"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,` +
	`"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,` +
	`"sqlDisableOptimizationFlags":0,"enableSpatialIndexing":false}`
