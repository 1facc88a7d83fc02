// SPDX-License-Identifier: Apache-2.0

package cql

import "github.com/ilion-db/ilion/internal/query/cql/session"

// BATCH: several modifications, as text or prepared, each with values.

func (r *request) parseBatch(body []byte) error {
	if err := r.batch.Decode(body, r.c.version); err != nil {
		return err
	}
	r.setOptions(&r.batch.Options)
	r.Request.BatchKind = session.BatchKind(r.batch.Kind)
	r.statements = r.statements[:0]
	for i := range r.batch.Statements {
		from := &r.batch.Statements[i]
		s := session.BatchStatement{Text: from.Text, Prepared: from.ID != nil, Values: from.Values}
		if len(from.Unset) > 0 {
			s.Unset = from.Unset
		}
		if s.Prepared {
			if err := setID(&s.ID, from.ID); err != nil {
				return err
			}
		}
		r.statements = append(r.statements, s)
	}
	r.Request.Statements = r.statements
	return nil
}

func (r *request) runBatch() session.Status { return r.c.sess.Batch(r.c.ctx, &r.Call) }
