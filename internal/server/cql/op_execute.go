// SPDX-License-Identifier: Apache-2.0

package cql

import "github.com/ilion-db/ilion/internal/query/cql/session"

// EXECUTE: a prepared statement by its ID, with values. This is the path that is optimized for speed.

func (r *request) parseExecute(body []byte) error {
	if err := r.execute.Decode(body, r.c.version); err != nil {
		return err
	}
	r.setParams(&r.execute.Params)
	r.metadataID = r.execute.ResultMetadataID
	return setID(&r.Request.ID, r.execute.ID)
}

func (r *request) runExecute() session.Status { return r.c.sess.Execute(r.c.ctx, &r.Call) }
