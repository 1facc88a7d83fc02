// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// Pruner removes what is older than it has to be: backups, what an archive no longer needs, and then the files that
// nobody names any more. It may die at any time; what it has not removed is removed by the next one.
type Pruner struct {
	Target Target
	Now    func() time.Time
	// KeepLast is how many backups of each cluster stay at least, OlderThan for how long all of them do; those of
	// archives do not count. If both are 0 none is removed.
	KeepLast  int
	OlderThan time.Duration
	// Keep is for how long any mark of an archive can be restored; 0: forever.
	Keep time.Duration
	// Dry says that nothing is removed, only told.
	Dry bool
	// Told hears of each name that is removed, if it is not nil.
	Told func(name string)

	// Removed counts the files that were removed, Backups the backups among them. Busy says that no files of rows were,
	// because a backup is being made, or was stopped.
	Removed int
	Backups int
	Busy    bool
}

// pendingEvery is after how many files it is looked again whether a backup is being made.
const pendingEvery = 16

// Prune removes.
func (p *Pruner) Prune(ctx context.Context) error {
	l, err := LoadLog(ctx, p.Target)
	if err != nil {
		return err
	}
	ids, err := List(ctx, p.Target)
	if err != nil {
		return err
	}
	manifests := map[string]*archive.Manifest{}
	for _, id := range ids {
		if manifests[id], err = Load(ctx, p.Target, id); err != nil {
			return err
		}
	}
	gone := p.backups(ids, manifests)
	bases, segments := p.archived(l)
	if err := complete(ctx, p.Target, without(manifests, gone, bases)); err != nil {
		return fmt.Errorf("%w. Nothing was removed: make a new backup, or remove that one by hand", err)
	}
	for _, id := range append(gone, bases...) { // before their files, and before the log that goes on from them
		delete(manifests, id)
		p.Backups++
		if err := p.remove(ctx, manifestName(id)); err != nil {
			return err
		}
	}
	for _, n := range segments {
		if err := p.remove(ctx, logDir+n.String()); err != nil {
			return err
		}
	}
	return p.files(ctx, manifests)
}

// without returns the manifests that stay.
func without(manifests map[string]*archive.Manifest, gone ...[]string) map[string]*archive.Manifest {
	out := maps.Clone(manifests)
	for _, ids := range gone {
		for _, id := range ids {
			delete(out, id)
		}
	}
	return out
}

func (p *Pruner) remove(ctx context.Context, name string) error {
	if p.Told != nil {
		p.Told(name)
	}
	p.Removed++
	if p.Dry {
		return nil
	}
	return p.Target.Remove(ctx, name)
}

// backups returns the IDs of the backups to remove. The newest one of each cluster always stays.
func (p *Pruner) backups(ids []string, manifests map[string]*archive.Manifest) (gone []string) {
	if p.KeepLast == 0 && p.OlderThan == 0 {
		return nil
	}
	own := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return manifests[id].Archived })
	newer := map[string]int{} // how many backups of the cluster are newer
	for _, id := range slices.Backward(own) {
		m := manifests[id]
		young := p.OlderThan > 0 && p.Now().Sub(m.Time) < p.OlderThan
		if newer[m.Cluster] >= max(p.KeepLast, 1) && !young {
			gone = append(gone, id)
		}
		newer[m.Cluster]++
	}
	slices.Reverse(gone)
	return gone
}

// archived is what is older than the newest base from which everything that is to be kept can be restored.
func (p *Pruner) archived(l *Log) (bases []string, segments Chain) {
	if p.Keep == 0 {
		return nil, nil
	}
	horizon := p.Now().Add(-p.Keep)
	var first *archive.Manifest
	for _, m := range l.Bases {
		if !m.Time.After(horizon) && l.chainOf(m) != nil {
			first = m
		}
	}
	if first == nil {
		return nil, nil
	}
	for _, m := range l.Bases {
		if m.Time.Before(first.Time) {
			bases = append(bases, m.ID)
		}
	}
	for _, c := range l.Chains {
		for _, n := range c {
			if n.Last.Before(first.Time) {
				segments = append(segments, n)
			}
		}
	}
	return bases, segments
}

// files removes the files that no manifest names, unless a backup is being made: it may be about to name them.
func (p *Pruner) files(ctx context.Context, manifests map[string]*archive.Manifest) error {
	named := map[string]bool{}
	for _, m := range manifests {
		m.Files(func(f archive.File) { named[f.Name] = true })
	}
	names, err := p.Target.List(ctx, "files/")
	if err != nil {
		return err
	}
	looked := 0
	for _, name := range names {
		if named[path.Base(name)] {
			continue
		}
		if looked%pendingEvery == 0 {
			pending, err := p.Target.List(ctx, "pending/")
			if p.Busy = len(pending) > 0; err != nil || p.Busy {
				return err
			}
			// One that was begun and completed since the manifests were read names files that were not named then.
			ids, err := List(ctx, p.Target)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if manifests[id] != nil || p.Dry {
					continue
				}
				m, err := Load(ctx, p.Target, id)
				if err != nil {
					return err
				}
				manifests[id] = m
				m.Files(func(f archive.File) { named[f.Name] = true })
			}
			if named[path.Base(name)] {
				continue
			}
		}
		looked++
		if err := p.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error if the bounds make no sense.
func (p *Pruner) Check() error {
	switch {
	case p.KeepLast < 0 || p.OlderThan < 0 || p.Keep < 0:
		return errors.New("what is to be kept is not below zero")
	case p.KeepLast == 0 && p.OlderThan == 0 && p.Keep == 0:
		return errors.New("nothing says what is to be kept: give --keep-last, --older-than or --keep")
	}
	return nil
}
