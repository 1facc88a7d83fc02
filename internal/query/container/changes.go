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
	"github.com/ilion-db/ilion/internal/query/feed"
)

// ChangesRequest is one page of the change feed.
type ChangesRequest struct {
	Scope
	// AllVersions asks for every version and for deletions, as far as they are kept, and otherwise for the latest
	// version of each item that has changed.
	AllVersions bool
	// Continuation is that of the page before. Without one the feed begins with the changes from Since on, or after now
	// with Now, or with the first.
	Continuation string
	Now          bool
	Since        time.Time
	// MaxItems bounds the page, a thousand if it is not positive.
	MaxItems int
	RequestOptions
}

// ChangesPage is a page of the change feed.
type ChangesPage struct {
	Page
	// Ended says that there were no more changes when the page was read.
	Ended bool
}

// Changes reads a page of the change feed. Its continuation is never empty: it goes on behind the page and, where there
// were no more changes when the page ended, with those to come. The changes of a logical partition are in the order of
// their commits, and each comes once for a sequence of continuations; see package feed. So are those of a page, as far
// as clocks agree. A page may be empty though there are more: Ended tells.
func (e *Engine) Changes(ctx context.Context, c *Container, r *ChangesRequest) (*ChangesPage, error) {
	x, err := e.newScan(c, &r.Scope, "", &r.RequestOptions)
	if err != nil {
		return nil, err
	}
	at, bad := c.changesFrom(r, x.q.Now)
	if bad != nil {
		return nil, bad
	}
	f := &feed.Reader{Query: x.q, Holds: x.holds, At: at, Max: r.MaxItems, BytesMax: e.opts.PageBytesMax, Late: x.late,
		Read: func(ctx context.Context, q *command.Read, visitor func() command.Visitor) error {
			var charge ru.Units
			err := e.read(ctx, q, &charge, visitor)
			x.charge += charge
			return err
		}}
	if f.Max <= 0 {
		f.Max = feedItemsMax
	}
	page := &ChangesPage{Page: Page{Documents: [][]byte{}}, Ended: true}
	if x.more { // otherwise nothing can be in the scope
		var entries []feed.Entry
		entries, page.Ended, err = f.Page(ctx)
		switch {
		case errors.Is(err, feed.ErrUnknown):
			err = Errorf(503, 0, "The physical partitions of the container are not known to this node. Try again.")
		case errors.Is(err, feed.ErrScope):
			err = Errorf(400, 0, "The continuation of the change feed is that of another partition key, or of another range "+
				"of them. Use it for its own, or for a part of it; or begin without one.")
		}
		if err != nil {
			return nil, e.failed(err, x)
		}
		// Of a round, the changes come in the order of the ring. Clients like them in the order of their commits, which
		// is that of their stamps; those of one logical partition stay in order.
		slices.SortStableFunc(entries, func(a, b feed.Entry) int { return cmp.Compare(a.Stamp, b.Stamp) })
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

// changesFrom is where a page is to begin; now is the second at present.
func (c *Container) changesFrom(r *ChangesRequest, now int64) (at feed.Token, bad *Error) {
	switch {
	case !c.table.Container.Feed:
		return at, Errorf(400, 0, "The container %s has no change feed: it was made before feature level 4. One that is "+
			"made now, and filled from it, has one.", c.ID)
	case r.AllVersions && c.Definition.Keep == 0:
		return at, Errorf(400, 0, "All versions and deletes of the container %s are not kept: replace it with a change "+
			"feed policy, as in \"changeFeedPolicy\":{\"retentionDuration\":10080}, which says for how many minutes they are.",
			c.ID)
	case r.Continuation != "":
		b, err := base64.RawURLEncoding.DecodeString(r.Continuation)
		if err == nil {
			at, err = feed.DecodeToken(b)
		}
		switch {
		case err != nil:
			return at, Errorf(400, 0, "The continuation of the change feed is not one that this database has given. Begin "+
				"without one, or with a time.")
		case at.Table != c.table.ID:
			return at, Errorf(400, 0, "The continuation is that of another container, or of one that was dropped. Begin "+
				"without it.")
		case at.Kept != r.AllVersions:
			return at, Errorf(400, 0, "The continuation is that of the other mode of the change feed: the latest versions "+
				"and all versions have continuations of their own.")
		case at.Generation != c.table.FeedGeneration(at.Kept):
			return at, Errorf(400, 0, "The change feed policy of the container %s was removed and set again after this "+
				"continuation was returned: changes made in between are not kept. Begin with a time not before %s, or with now.",
				c.ID, time.Unix(c.table.Container.KeptSince, 0).UTC().Format(time.RFC3339))
		}
	case r.Now:
		at = feed.Now(c.table.ID, r.AllVersions, now)
	case !r.Since.IsZero():
		at = feed.Since(c.table.ID, r.AllVersions, r.Since)
	case r.AllVersions:
		return at, Errorf(400, 0, "All versions and deletes cannot be read from the beginning of a container, but from "+
			"now, or from a time since when they are kept: name one with If-Modified-Since.")
	default:
		at = feed.Beginning(c.table.ID, false)
	}
	if r.Continuation == "" {
		at.Generation = c.table.FeedGeneration(at.Kept)
		at.Above(c.table.FeedAbove(at.Kept))
	}
	if oldest := max(now-c.Definition.Keep, c.table.Container.KeptSince); r.AllVersions && at.AsOf < oldest {
		return at, Errorf(400, 0, "The change feed of all versions is to begin at %s, and what was changed before %s is not "+
			"kept any more: the retention of the container is %d minutes. Begin with a later time, or with now.",
			time.Unix(at.AsOf, 0).UTC().Format(time.RFC3339), time.Unix(oldest, 0).UTC().Format(time.RFC3339),
			c.Definition.Keep/60)
	}
	return at, nil
}
