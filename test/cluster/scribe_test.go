// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ilion-db/ilion/test/process"
)

var transcripts = flag.String("cluster.transcripts", "",
	"directory for the output of ilion status and ilion partition list in TestGrowth while partitions split, merge, and move")

// scribe saves the operator's screen output while the table changes, once for each kind of change.
type scribe struct {
	stop chan struct{}
	wg   sync.WaitGroup
}

// lookEvery is the polling interval. Splits take about 100 ms.
const lookEvery = 20 * time.Millisecond

// scenes holds, by kind of change, the pattern that the list of partitions or the status must match before it is
// saved.
var scenes = map[string]*regexp.Regexp{
	"split": regexp.MustCompile("splits at "),
	"move":  regexp.MustCompile("In progress .* move of .* of " + grownTable),
	"merge": regexp.MustCompile("merges into "),
}

// startScribe polls until each kind of change has been saved, if an output directory is configured.
func startScribe(f *fleet) *scribe {
	s := &scribe{stop: make(chan struct{})}
	if *transcripts == "" {
		return s
	}
	web := f.nodes[0].web()
	s.wg.Go(func() {
		pause := time.NewTicker(lookEvery)
		defer pause.Stop()
		left := maps.Clone(scenes)
		for len(left) > 0 {
			select {
			case <-s.stop:
				return
			case <-pause.C:
				look(f, web, left)
			}
		}
	})
	return s
}

// end stops the scribe. end must be called once.
func (s *scribe) end() {
	close(s.stop)
	s.wg.Wait()
}

// look polls the status and saves the status if it shows a new kind of change. If a change has ended before the
// commands run, look saves a later change instead.
func look(f *fleet, web string, left map[string]*regexp.Regexp) {
	now, err := f.nodes[0].status()
	if err != nil {
		return
	}
	for i := range now.Changes {
		kind := now.Changes[i].Kind
		scene := left[kind]
		if now.Changes[i].Table != grownTable || scene == nil {
			continue
		}
		var all [2]string // both commands run concurrently, because a split takes about 100 ms
		var wg sync.WaitGroup
		for j, args := range [][]string{{"partition", "list", grownTable}, {"status"}} {
			wg.Go(func() {
				out, err := process.Command(f.t, append(slices.Clone(args), "--http", web)...).CombinedOutput()
				if err == nil {
					all[j] = "$ ilion " + strings.Join(args, " ") + "\n" + string(out)
				}
			})
		}
		wg.Wait()
		text := strings.Join(all[:], "\n")
		if scene.MatchString(text) && os.MkdirAll(*transcripts, 0o755) == nil &&
			os.WriteFile(filepath.Join(*transcripts, kind+".txt"), []byte(text), 0o644) == nil {
			delete(left, kind)
		}
		return
	}
}
