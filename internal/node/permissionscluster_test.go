// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"fmt"
	"testing"
)

// TestTokensInCluster checks that every node accepts a token as soon as its permission has been created on another
// node. All nodes must reject the token as soon as the permission has been deleted.
func TestTokensInCluster(t *testing.T) {
	t.Parallel()
	o := restOptions()
	first := clusterNode(t, nil, o)
	second := clusterNode(t, first, o)
	a, b := accountOf(t, first), accountOf(t, second)
	a.fill()
	for i := range 20 {
		id := fmt.Sprint("p", i)
		token := a.permit(id, "Read", "dbs/d/colls/c", fmt.Sprintf(`["a%d"]`, i))
		request := read("c", token)
		request.Key = fmt.Sprintf(`["a%d"]`, i)
		b.want(404, request)
		b.want(204, demand{Method: "DELETE", Path: permissionsPath + "/" + id})
		a.want(401, request)
		b.want(401, request)
	}
}
