// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

// VerifyRequest requests the comparison of a page of a view or an index with the table.
type VerifyRequest struct {
	// Kind is "view" or "index". Name is the qualified name of the view or index.
	Kind, Name string
	// From is the VerifyResponse.Next of the previous page, or empty for the first page. Rows is the approximate number
	// of rows that are checked.
	From string
	Rows int
	// Repair reports whether differences are repaired.
	Repair bool
}

// VerifyResponse is the result of a comparison.
type VerifyResponse struct {
	// Rows is the number of checked rows. Busy is the number of rows that never matched and changed during the last
	// pause.
	Rows int `json:"rows"`
	Busy int `json:"busy"`
	// View is true if the checked rows are rows of the view.
	View        bool         `json:"view"`
	Differences []Difference `json:"differences"`
	// Next is the start of the next page, or empty after the last page.
	Next string `json:"next"`
}

// PageVerifier verifies views and indexes by name, one page for each request of an operator. All fields must be set
// before use.
type PageVerifier struct {
	Rows    Rows
	Catalog *catalog.Catalog
	// Entries computes the entries of a row in an index.
	Entries EntriesOf
	// Builds reports whether an index is being built.
	Builds interface{ Building(ix *schema.Index) bool }
	Clock  sched.Clock
}

// Verify compares a page of a view or an index with the table.
func (p *PageVerifier) Verify(ctx context.Context, o VerifyRequest) (*VerifyResponse, error) {
	keyspace, name, ok := strings.Cut(o.Name, ".")
	if !ok {
		return nil, fmt.Errorf("invalid %s name %s: specify the keyspace, as in ks.name", o.Kind, o.Name)
	}
	ks := p.Catalog.Snapshot().Keyspaces[keyspace]
	if ks == nil || schema.IsSystem(keyspace) {
		return nil, fmt.Errorf("keyspace %s does not exist or is a system keyspace", keyspace)
	}
	from, err := decodeAt(o.From)
	if err != nil {
		return nil, err
	}
	v := &Verifier{Rows: p.Rows, Clock: p.Clock, Repair: o.Repair}
	var page *Page
	t, ix, err := verifiable(ks, o.Kind, name, p.Builds.Building)
	switch {
	case err != nil:
		return nil, err
	case o.Kind == "view":
		page, err = v.View(ctx, ks, name, from, o.Rows)
	default:
		page, err = v.Index(ctx, t, ix, p.Entries, from, o.Rows)
	}
	if err != nil {
		return nil, err
	}
	return &VerifyResponse{Rows: page.Rows, Busy: page.Busy, View: from.Back, Next: page.Next.encode(),
		Differences: append([]Difference{}, page.Differences...)}, nil
}

// verifiable returns the index that is verified and the table of the index. For a view, it returns the hint index and
// the base table. An index that is being built cannot be verified, because missing rows would be reported as
// differences.
func verifiable(ks *schema.Keyspace, kind, name string, building func(*schema.Index) bool) (t *schema.Table,
	ix *schema.Index, err error) {
	if kind != "view" {
		t, ix = ks.Index(name)
	} else if v := ks.Tables[name]; v != nil && v.View != nil {
		if t = ks.Tables[v.View.Base]; t != nil {
			ix = t.Hints(name)
		}
	}
	switch {
	case ix == nil:
		return nil, nil, fmt.Errorf("%s %s.%s does not exist", kind, ks.Name, name)
	case building(ix):
		return nil, nil, fmt.Errorf("%s %s.%s is being built: retry when it is complete", kind, ks.Name, name)
	}
	return t, ix, nil
}

// encode encodes a position between two pages as text. The text of a nil position is empty.
func (at *At) encode() string {
	if at == nil {
		return ""
	}
	b := []byte{0}
	if at.Back {
		b[0] |= 1
	}
	if at.Key == nil {
		return hex.EncodeToString(b)
	}
	b[0] |= 2
	b = binary.BigEndian.AppendUint64(b, uint64(at.Token))
	b = binary.BigEndian.AppendUint32(b, uint32(len(at.Key)))
	return hex.EncodeToString(append(append(b, at.Key...), at.Clustering...))
}

// decodeAt decodes a position that At.encode has encoded.
func decodeAt(text string) (at At, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || text == "" {
		if err != nil {
			err = errPosition
		}
		return at, err
	}
	at.Back = b[0]&1 != 0
	if b[0]&2 == 0 {
		return at, nil
	}
	const head = 1 + 8 + 4
	if len(b) < head || uint64(len(b)-head) < uint64(binary.BigEndian.Uint32(b[9:])) {
		return at, errPosition
	}
	end := head + int(binary.BigEndian.Uint32(b[9:]))
	at.Token = token.Token(binary.BigEndian.Uint64(b[1:]))
	at.Key, at.Clustering = b[head:end], b[end:]
	return at, nil
}

var errPosition = errors.New("the continuation is invalid: start without one")
