// SPDX-License-Identifier: Apache-2.0

package cql

import "github.com/ilion-db/ilion/internal/query/cql/session"

// QUERY: a statement as text, with values.

func (r *request) parseQuery(body []byte) error {
	if err := r.query.Decode(body, r.c.version); err != nil {
		return err
	}
	r.Request.Text = r.query.Text
	r.setParams(&r.query.Params)
	return nil
}

func (r *request) runQuery() session.Status { return r.c.sess.Query(r.c.ctx, &r.Call) }
