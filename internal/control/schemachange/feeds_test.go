// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"context"
	"errors"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// TestFeedsBegin checks that a feed is turned on only with the newest timestamps of exactly the previous revision.
// They are read after the partitions require that revision. A partition without remaining throughput receives the
// request again. Feeds have no generation below feature level 8.
func TestFeedsBegin(t *testing.T) {
	level := feature.FeedGenerations
	was := &schema.Table{ID: 7, Revision: 3}
	var asked []string
	c := &Changer{Level: func(*meta.State) feature.Level { return level },
		Require: func(_ context.Context, table uint32, revision uint64) error {
			if asked = append(asked, "require"); table != 7 || revision != 3 {
				t.Errorf("table %d requires %d", table, revision)
			}
			return nil
		},
		Newest: func(context.Context, uint32) (int64, error) {
			if asked = append(asked, "newest"); len(asked) == 2 {
				return 0, &dberr.Overloaded{Message: "no throughput left"}
			}
			return 900, nil
		}}
	on := func() *schema.Table {
		return &schema.Table{ID: 7, Feed: &schema.Feed{Since: 5, Generation: 4, KeptGeneration: 4}}
	}
	above := newest{{7, 2}: 500}
	var unknown *unknownNewest
	if err := c.beginFeeds(meta.Empty(), []tableChange{{was, on()}}, above); !errors.As(err, &unknown) {
		t.Fatalf("with the stamp of an older revision: %v", err)
	}
	if err := c.askNewest(t.Context(), unknown.table, above); err != nil || len(asked) != 3 || asked[0] != "require" {
		t.Fatalf("%v: %v", asked, err)
	}
	is := on()
	if err := c.beginFeeds(meta.Empty(), []tableChange{{was, is}}, above); err != nil || is.FeedAbove(false) != 900 ||
		is.FeedAbove(true) != 900 || is.FeedGeneration(true) != 4 {
		t.Errorf("%+v, %v", is.Feed, err)
	}
	kept := &schema.Table{ID: 7, Revision: 3, Feed: &schema.Feed{Generation: 2, Above: 100}}
	is = on()
	is.Feed.Generation, is.Feed.Above = 2, 100
	if err := c.beginFeeds(meta.Empty(), []tableChange{{kept, is}}, above); err != nil || is.FeedAbove(false) != 100 ||
		is.FeedAbove(true) != 900 {
		t.Errorf("changes are kept again: %+v, %v", is.Feed, err)
	}
	level--
	is = on()
	if err := c.beginFeeds(meta.Empty(), []tableChange{{was, is}}, newest{}); err != nil ||
		is.FeedGeneration(false) != 0 || is.FeedGeneration(true) != 0 {
		t.Errorf("below the level: %+v, %v", is.Feed, err)
	}
	c.Require = func(context.Context, uint32, uint64) error { return errors.New("no leader") }
	if err := c.askNewest(t.Context(), was, above); err == nil {
		t.Error("a feed is turned on though a partition has no leader")
	}
}
