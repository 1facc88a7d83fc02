// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// verifyPage compares a page of a view or an index with its table.
func (n *Node) verifyPage(ctx context.Context, o admin.VerifyOrder) (*admin.VerifyPage, error) {
	keyspace, name, ok := strings.Cut(o.Name, ".")
	if !ok {
		return nil, fmt.Errorf("%s names no %s: give its keyspace, too, as in ks.name", o.Name, o.Kind)
	}
	ks := n.catalog.Snapshot().Keyspaces[keyspace]
	if ks == nil || schema.IsSystem(keyspace) {
		return nil, fmt.Errorf("there is no keyspace %s whose views and indexes can be verified", keyspace)
	}
	from, err := decodeAt(o.From)
	if err != nil {
		return nil, err
	}
	v := &view.Verifier{Rows: n.coordinator, Now: n.clock(), Repair: o.Repair}
	var page *view.Page
	t, ix, err := verifiable(ks, o.Kind, name, n.builder.Building)
	switch {
	case err != nil:
		return nil, err
	case o.Kind == "view":
		page, err = v.View(ctx, ks, name, from, o.Rows)
	default:
		page, err = v.Index(ctx, t, ix, n.definitions.IndexOps, from, o.Rows)
	}
	if err != nil {
		return nil, err
	}
	out := &admin.VerifyPage{Rows: page.Rows, Busy: page.Busy, View: from.Back, Next: encodeAt(page.Next),
		Differences: []admin.VerifyDifference{}}
	for _, d := range page.Differences {
		out.Differences = append(out.Differences, admin.VerifyDifference(d))
	}
	return out, nil
}

// verifiable returns the index to verify and its table. For a view, these are the hint index and the base table. An
// index that is being built cannot be verified, because its missing rows would count as differences.
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
		return nil, nil, fmt.Errorf("there is no %s %s.%s", kind, ks.Name, name)
	case building(ix):
		return nil, nil, fmt.Errorf("%s %s.%s is being built: retry when it is complete", kind, ks.Name, name)
	}
	return t, ix, nil
}

// encodeAt encodes a position between two pages as text.
func encodeAt(at *view.At) string {
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

// decodeAt decodes a position encoded by encodeAt.
func decodeAt(text string) (at view.At, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || text == "" {
		if err != nil {
			err = errPlace
		}
		return at, err
	}
	at.Back = b[0]&1 != 0
	if b[0]&2 == 0 {
		return at, nil
	}
	const head = 1 + 8 + 4
	if len(b) < head || uint64(len(b)-head) < uint64(binary.BigEndian.Uint32(b[9:])) {
		return at, errPlace
	}
	end := head + int(binary.BigEndian.Uint32(b[9:]))
	at.Token = token.Token(binary.BigEndian.Uint64(b[1:]))
	at.Key, at.Clustering = b[head:end], b[end:]
	return at, nil
}

var errPlace = errors.New("the continuation is invalid: start without one")
