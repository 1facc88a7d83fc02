// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"

	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// operation describes an opcode that a session executes. It contains the method of the session and the function that
// decodes the body into a request. parse must not retain the body, because a request is parsed again when a worker
// executes it.
type operation struct {
	parse func(r *request, body []byte) error
	run   func(s Session, ctx context.Context, call *session.Call) session.Status
}

var operations = [...]operation{
	cqlwire.OpQuery:   {(*request).parseQuery, Session.Query},
	cqlwire.OpPrepare: {(*request).parsePrepare, Session.Prepare},
	cqlwire.OpExecute: {(*request).parseExecute, Session.Execute},
	cqlwire.OpBatch:   {(*request).parseBatch, Session.Batch},
}

// parseQuery decodes QUERY, which executes a statement that is given as text with values.

func (r *request) parseQuery(body []byte) error {
	if err := r.query.Decode(body, r.x.out.version); err != nil {
		return err
	}
	r.Request.Text = r.query.Text
	r.setParams(&r.query.Params)
	return nil
}

// parsePrepare decodes PREPARE, which prepares a statement for later execution by its ID.

func (r *request) parsePrepare(body []byte) error {
	if err := r.prepare.Decode(body, r.x.out.version); err != nil {
		return err
	}
	r.Request.Text = r.prepare.Text
	r.Request.Keyspace = r.prepare.Keyspace
	return nil
}

// parseExecute decodes EXECUTE, which executes a prepared statement by its ID with values. The code of EXECUTE is
// optimized for speed.

func (r *request) parseExecute(body []byte) error {
	if err := r.execute.Decode(body, r.x.out.version); err != nil {
		return err
	}
	r.setParams(&r.execute.Params)
	r.metadataID = r.execute.ResultMetadataID
	return setID(&r.Request.ID, r.execute.ID)
}

// parseBatch decodes BATCH, which executes several modifications. Each modification is a text or a prepared statement
// with values.

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
