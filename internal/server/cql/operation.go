// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// operation describes an opcode that a session executes: the function that decodes its body into a request, and the
// method of the session. parse must not retain the body: a request is parsed again when a worker executes it.
type operation struct {
	parse func(r *request, body []byte) error
	run   func(r *request) session.Status
}

var operations [cqlwire.OpBatch + 1]operation

func init() {
	operations[cqlwire.OpQuery] = operation{(*request).parseQuery, (*request).runQuery}
	operations[cqlwire.OpPrepare] = operation{(*request).parsePrepare, (*request).runPrepare}
	operations[cqlwire.OpExecute] = operation{(*request).parseExecute, (*request).runExecute}
	operations[cqlwire.OpBatch] = operation{(*request).parseBatch, (*request).runBatch}
}

// QUERY: a statement as text, with values.

func (r *request) parseQuery(body []byte) error {
	if err := r.query.Decode(body, r.x.out.version); err != nil {
		return err
	}
	r.Request.Text = r.query.Text
	r.setParams(&r.query.Params)
	return nil
}

func (r *request) runQuery() session.Status { return r.x.sess.Query(r.x.ctx, &r.Call) }

// PREPARE: a statement as text, for later execution by its ID.

func (r *request) parsePrepare(body []byte) error {
	if err := r.prepare.Decode(body, r.x.out.version); err != nil {
		return err
	}
	r.Request.Text = r.prepare.Text
	r.Request.Keyspace = r.prepare.Keyspace
	return nil
}

func (r *request) runPrepare() session.Status { return r.x.sess.Prepare(r.x.ctx, &r.Call) }

// EXECUTE: a prepared statement by its ID, with values. This is the path that is optimized for speed.

func (r *request) parseExecute(body []byte) error {
	if err := r.execute.Decode(body, r.x.out.version); err != nil {
		return err
	}
	r.setParams(&r.execute.Params)
	r.metadataID = r.execute.ResultMetadataID
	return setID(&r.Request.ID, r.execute.ID)
}

func (r *request) runExecute() session.Status { return r.x.sess.Execute(r.x.ctx, &r.Call) }

// BATCH: several modifications, as text or prepared, each with values.

func (r *request) parseBatch(body []byte) error {
	if err := r.batch.Decode(body, r.x.out.version); err != nil {
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

func (r *request) runBatch() session.Status { return r.x.sess.Batch(r.x.ctx, &r.Call) }
