// SPDX-License-Identifier: Apache-2.0

package cql

import "github.com/ilion-db/ilion/internal/query/cql/session"

// PREPARE: a statement as text, for later execution by its ID.

func (r *request) parsePrepare(body []byte) error {
	if err := r.prepare.Decode(body, r.c.version); err != nil {
		return err
	}
	r.Request.Text = r.prepare.Text
	r.Request.Keyspace = r.prepare.Keyspace
	return nil
}

func (r *request) runPrepare() session.Status { return r.c.sess.Prepare(r.c.ctx, &r.Call) }
