// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/changefeed"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// feedHistory describes the available history of a table's change feed. It converts start times and paging states into
// positions. It rejects a position if changes after the position may be missing.
type feedHistory struct {
	table       *schema.Table
	allVersions bool
	// now is the current Unix time in seconds.
	now int64
}

// position returns the position at which the page begins. If the request has a paging state, the paging state contains
// the position. Otherwise, the start time determines the position.
func (h *feedHistory) position(state []byte, start expr.Term, b *expr.Bindings) (at changefeed.Token, err error) {
	if len(state) > 0 {
		return h.decode(state)
	}
	v, is, err := start.Eval(b)
	if err != nil {
		return at, err
	}
	if is == expr.Unset || len(v) != 8 {
		return at, dberr.Invalidf("%s() must be a timestamp: changes at this time and later are read", parser.ChangeFeedStart)
	}
	since := time.UnixMilli(int64(binary.BigEndian.Uint64(v)))
	if h.table.Container == nil {
		return h.tablePosition(since)
	}
	at = changefeed.Beginning(h.table.ID, h.allVersions)
	if since.UnixMicro() > 0 {
		at = changefeed.Since(h.table.ID, h.allVersions, since)
	}
	h.setGeneration(&at)
	return at, h.checkRetention(&at)
}

// decode decodes a paging state.
func (h *feedHistory) decode(b []byte) (at changefeed.Token, err error) {
	if h.table.SealsPages() {
		if b[0] != encryptedVersion {
			return at, errState
		}
		if b, err = decrypt(b[1:], h.table.Secret); err != nil {
			return at, errState
		}
	}
	if len(b) < 4 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return at, errState
	}
	at, err = changefeed.DecodeToken(b[:len(b)-4])
	if err != nil || at.Table != h.table.ID || at.Kept != h.allVersions {
		return at, errState
	}
	return at, h.checkRetention(&at)
}

// encode encodes a position as a paging state. The result uses the memory of dst.
func (h *feedHistory) encode(dst []byte, at *changefeed.Token) ([]byte, error) {
	b := at.Append(dst[:0])
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if h.table.SealsPages() { // the paging state may contain a key
		return encrypt([]byte{encryptedVersion}, b, h.table.Secret)
	}
	return b, nil
}

// checkRetention returns an error if unread changes after the position may have been removed.
func (h *feedHistory) checkRetention(at *changefeed.Token) error {
	var oldest int64
	switch c := h.table.Container; {
	case c == nil:
		return h.checkTable(at)
	case at.Kept && at.Generation != c.KeptGeneration:
		return h.interrupted(c.KeptSince)
	case at.Kept:
		oldest = max(h.now-c.Keep, c.KeptSince)
	}
	if at.Kept && at.AsOf < oldest {
		return changesExpired(at.AsOf, oldest)
	}
	return nil
}

// changesExpired returns the error for a feed whose unread changes have been removed.
func changesExpired(from, oldest int64) error {
	return dberr.Invalidf("The change feed of all versions cannot start at %s: changes before %s are not "+
		"retained. Specify a later time", time.Unix(from, 0).UTC().Format(time.RFC3339),
		time.Unix(oldest, 0).UTC().Format(time.RFC3339))
}

// tablePosition returns the position in a table's feed for a start time. The Unix epoch selects the oldest available
// change.
func (h *feedHistory) tablePosition(since time.Time) (at changefeed.Token, err error) {
	t, kept := h.table, h.allVersions
	oldest := t.Feed.Since
	if kept {
		oldest = max(oldest, t.Feed.KeptSince, h.now-t.Options.Retention())
	}
	switch {
	case since.UnixMicro() <= 0:
		since = time.Unix(oldest, 0)
	case kept && since.Unix() < oldest:
		return at, changesExpired(since.Unix(), oldest)
	case since.Unix() < oldest:
		since = time.Unix(oldest, 0)
	}
	at = changefeed.Since(t.ID, kept, since)
	h.setGeneration(&at)
	if at.Generation == 0 {
		at.AsOf = max(at.AsOf, t.Feed.Since+1, t.Feed.KeptSince+1) // see checkTable
	}
	return at, nil
}

// setGeneration assigns the current feed generation to a new token. The generation begins after all earlier changes.
func (h *feedHistory) setGeneration(at *changefeed.Token) {
	at.Generation = h.table.FeedGeneration(at.Kept)
	at.Above(h.table.FeedAbove(at.Kept))
}

// checkTable returns an error if changes after the position may not have been logged, or may have expired. A feed that
// an older build has enabled has no generation. If a token ends in the second in which logging began, the feed may lack
// earlier changes in this second.
func (h *feedHistory) checkTable(at *changefeed.Token) error {
	f := h.table.Feed
	first := at.Generation == 0
	switch {
	case at.Generation != h.table.FeedGeneration(at.Kept) && at.Kept:
		return h.interrupted(max(f.Since, f.KeptSince))
	case at.Generation != h.table.FeedGeneration(at.Kept), first && at.AsOf <= f.Since:
		return h.interrupted(f.Since)
	}
	oldest := h.now - h.table.Options.Retention() - command.ChangeGrace
	if at.Kept && (first && at.AsOf <= f.KeptSince || at.AsOf < max(oldest, f.KeptSince)) {
		return changesExpired(at.AsOf, max(oldest, f.KeptSince))
	}
	return nil
}

// interrupted returns the error for a token that is older than the start of the feed. began is the start time in Unix
// seconds.
func (h *feedHistory) interrupted(began int64) error {
	at := time.Unix(began, 0).UTC().Format(time.RFC3339)
	return dberr.Invalidf("The change feed of %s was disabled or recreated after this paging state was returned: changes "+
		"before %s may be missing. Start without a paging state", h.table, at)
}
