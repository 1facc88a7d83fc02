// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// partitions holds the partitions of a table with revision 3. The first request for the timestamp of a partition fails
// for lack of throughput.
type partitions struct {
	t           *testing.T
	asked       []string
	unreachable error
}

func (p *partitions) Require(_ context.Context, table uint32, revision uint64, _ time.Duration) error {
	if p.asked = append(p.asked, "require"); table != 7 || revision != 3 {
		p.t.Errorf("table %d requires %d", table, revision)
	}
	return p.unreachable
}

func (p *partitions) Newest(context.Context, uint32, time.Duration) (int64, error) {
	if p.asked = append(p.asked, "newest"); len(p.asked) == 2 {
		return 0, &dberr.Overloaded{Message: "no throughput left"}
	}
	return 900, nil
}

// TestFeedsBegin checks that a feed is enabled only with the newest timestamps of exactly the previous revision. The
// timestamps are read after the partitions require that revision. A throttled request must be repeated. Below feature
// level 8, feeds must have no generation.
func TestFeedsBegin(t *testing.T) {
	atLevel := func(level feature.Level) *meta.State {
		return meta.Empty().WithTopology(topology.New().WithLevel(level))
	}
	s := atLevel(feature.FeedGenerations)
	was := &schema.Table{ID: 7, Revision: 3}
	p := &partitions{t: t}
	c := &Changer{Partitions: p, Member: &membership.Member{}}
	on := func() *schema.Table {
		return &schema.Table{ID: 7, Feed: &schema.Feed{Since: 5, Generation: 4, KeptGeneration: 4}}
	}
	above := newest{{7, 2}: 500}
	var unknown *unknownNewest
	if err := c.beginFeeds(s, []tableChange{{was, on()}}, above); !errors.As(err, &unknown) {
		t.Fatalf("with the stamp of an older revision: %v", err)
	}
	if err := c.askNewest(t.Context(), unknown.table, above); err != nil || len(p.asked) != 3 ||
		p.asked[0] != "require" {
		t.Fatalf("%v: %v", p.asked, err)
	}
	is := on()
	if err := c.beginFeeds(s, []tableChange{{was, is}}, above); err != nil || is.FeedAbove(false) != 900 ||
		is.FeedAbove(true) != 900 || is.FeedGeneration(true) != 4 {
		t.Errorf("%+v, %v", is.Feed, err)
	}
	kept := &schema.Table{ID: 7, Revision: 3, Feed: &schema.Feed{Generation: 2, Above: 100}}
	is = on()
	is.Feed.Generation, is.Feed.Above = 2, 100
	if err := c.beginFeeds(s, []tableChange{{kept, is}}, above); err != nil || is.FeedAbove(false) != 100 ||
		is.FeedAbove(true) != 900 {
		t.Errorf("changes are kept again: %+v, %v", is.Feed, err)
	}
	is = on()
	if err := c.beginFeeds(atLevel(feature.FeedGenerations-1), []tableChange{{was, is}}, newest{}); err != nil ||
		is.FeedGeneration(false) != 0 || is.FeedGeneration(true) != 0 {
		t.Errorf("below the level: %+v, %v", is.Feed, err)
	}
	p.unreachable = errors.New("no leader")
	if err := c.askNewest(t.Context(), was, above); err == nil {
		t.Error("a feed is turned on though a partition has no leader")
	}
}
