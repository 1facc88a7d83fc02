// SPDX-License-Identifier: Apache-2.0

package container

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/changefeed"
)

// ChangesRequest requests one page of the change feed.
type ChangesRequest struct {
	Scope
	// AllVersions requests every retained version and deletion. Otherwise, the feed returns the latest version of each
	// changed item.
	AllVersions bool
	// Continuation is the continuation of the previous page. If Continuation is empty, the feed begins at Since. If
	// Now is set, the feed contains only future changes. If neither Now nor Since is set, the feed begins with the
	// first change.
	Continuation string
	Now          bool
	Since        time.Time
	// MaxItems limits the page. If MaxItems is not positive, the limit is 1000.
	MaxItems int
	RequestOptions
}

// ChangesPage is a page of the change feed.
type ChangesPage struct {
	Page
	// Ended reports whether there were no further changes when the page was read.
	Ended bool
}

// Changes reads a page of the change feed.
//
// The continuation is never empty. It resumes the feed after the page, even if the page has reached the end of the
// feed. Changes of a logical partition are in commit order, and a sequence of continuations returns each change once
// (see package changefeed). The order of the changes in a page is the commit order if the clocks of the nodes agree. A
// page may be empty even if the feed has not ended. Ended reports the end of the feed.
func (e *Engine) Changes(ctx context.Context, c *Container, r *ChangesRequest) (*ChangesPage, error) {
	x, err := e.newScan(c, &r.Scope, "", &r.RequestOptions)
	if err != nil {
		return nil, err
	}
	at, bad := c.changesFrom(r, x.q.Now)
	if bad != nil {
		return nil, bad
	}
	f := &changefeed.Reader{Query: x.q, Source: feedSource{e, x}, At: at, Max: r.MaxItems,
		BytesMax: e.opts.PageBytesMax}
	if f.Max <= 0 {
		f.Max = feedItemsMax
	}
	page := &ChangesPage{Page: Page{Documents: [][]byte{}}, Ended: true}
	if x.more { // If the key has no partition, the scope is empty.
		var entries []changefeed.Entry
		entries, page.Ended, err = f.Page(ctx)
		switch {
		case errors.Is(err, changefeed.ErrUnknown):
			err = Errorf(503, 0, "The physical partitions of the container are not known to this node. Try again.")
		case errors.Is(err, changefeed.ErrScope):
			err = Errorf(400, 0, "The continuation of the change feed belongs to another partition key or range. Use it "+
				"with its own key or range or a part of it, or start without a continuation.")
		}
		if err != nil {
			return nil, e.failed(err, x)
		}
		// A round returns the changes in ring order, but clients expect commit order, which is the order of the
		// stamps. The sort is stable, so changes of one logical partition stay in order.
		slices.SortStableFunc(entries, func(a, b changefeed.Entry) int { return cmp.Compare(a.Stamp, b.Stamp) })
		for i := range entries {
			doc, err := c.changed(&entries[i], r.AllVersions)
			if err != nil {
				return nil, refused(err)
			}
			page.Documents = append(page.Documents, doc)
			page.Metrics.RetrievedBytes += int64(len(doc))
		}
	}
	page.Continuation = base64.RawURLEncoding.EncodeToString(f.At.Append(nil))
	page.Metrics.RetrievedCount = int64(len(page.Documents))
	page.Where = e.whereOf(c, &r.Scope, x)
	return page, nil
}

// feedSource implements changefeed.Source for a scan.
type feedSource struct {
	engine *Engine
	scan   *scan
}

// Read implements changefeed.Source.
func (s feedSource) Read(ctx context.Context, q *command.Read, visitor func() command.Visitor) error {
	var charge ru.Units
	err := s.engine.read(ctx, q, &charge, visitor)
	s.scan.charge += charge
	return err
}

// Holds implements changefeed.Source.
func (s feedSource) Holds(tok token.Token, key []byte) bool { return s.scan.holds(tok, key) }

// Late implements changefeed.Source.
func (s feedSource) Late() bool { return s.scan.late() }

// changesFrom returns the position at which a page begins. now is the current time in seconds.
func (c *Container) changesFrom(r *ChangesRequest, now int64) (at changefeed.Token, bad *Error) {
	switch {
	case !c.table.Container.Feed:
		return at, Errorf(400, 0, "The container %s has no change feed, because it was created before feature level 4. "+
			"Create a new container and copy the items.", c.ID)
	case r.AllVersions && c.Definition.Keep == 0:
		return at, Errorf(400, 0, "The container %s does not retain all versions and deletes. Set the retention in minutes "+
			"in its change feed policy, as in \"changeFeedPolicy\":{\"retentionDuration\":10080}.",
			c.ID)
	case r.Continuation != "":
		b, err := base64.RawURLEncoding.DecodeString(r.Continuation)
		if err == nil {
			at, err = changefeed.DecodeToken(b)
		}
		switch {
		case err != nil:
			return at, Errorf(400, 0, "The continuation of the change feed is invalid. Start without a continuation or with "+
				"a time.")
		case at.Table != c.table.ID:
			return at, Errorf(400, 0, "The continuation belongs to another container or to a dropped one. Start without a "+
				"continuation.")
		case at.Kept != r.AllVersions:
			return at, Errorf(400, 0, "The continuation belongs to the other mode of the change feed. Use it with the mode "+
				"in which it was returned.")
		case at.Generation != c.table.FeedGeneration(at.Kept):
			return at, Errorf(400, 0, "The change feed policy of the container %s was removed and set again after this "+
				"continuation was returned, so changes are missing. Start at %s or later, or at the present.",
				c.ID, time.Unix(c.table.Container.KeptSince, 0).UTC().Format(time.RFC3339))
		}
	case r.Now:
		at = changefeed.Now(c.table.ID, r.AllVersions, now)
	case !r.Since.IsZero():
		at = changefeed.Since(c.table.ID, r.AllVersions, r.Since)
	case r.AllVersions:
		return at, Errorf(400, 0, "All versions and deletes cannot be read from the beginning of a container. Start at "+
			"the present, or at a time within the retention with If-Modified-Since.")
	default:
		at = changefeed.Beginning(c.table.ID, false)
	}
	if r.Continuation == "" {
		at.Generation = c.table.FeedGeneration(at.Kept)
		at.Above(c.table.FeedAbove(at.Kept))
	}
	if oldest := max(now-c.Definition.Keep, c.table.Container.KeptSince); r.AllVersions && at.AsOf < oldest {
		return at, Errorf(400, 0, "The change feed cannot start at %s: changes before %s have expired, because the retention "+
			"of the container is %d minutes. Start at a later time or at the present.",
			time.Unix(at.AsOf, 0).UTC().Format(time.RFC3339), time.Unix(oldest, 0).UTC().Format(time.RFC3339),
			c.Definition.Keep/60)
	}
	return at, nil
}
