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
	"github.com/ilion-db/ilion/internal/model/sched"
)

// Pruner removes expired data. It removes backups, data that an archive no longer needs, and then files to which no
// manifest refers. A Pruner may be killed at any time. The next run removes the remaining data.
type Pruner struct {
	Target Target
	Clock  sched.Clock
	// KeepLast is the minimum number of backups that are kept per cluster. OlderThan is the minimum age of a backup
	// that is removed. Backups of archives are not counted. If both are 0, no backup is removed.
	KeepLast  int
	OlderThan time.Duration
	// Keep is the retention period of an archive's restore points. The value 0 means unlimited.
	Keep time.Duration
	// Dry makes the pruner report files instead of removing them.
	Dry bool
	// OnRemove, if not nil, is called with the name of each removed file.
	OnRemove func(name string)

	// Removed is the number of removed files. Backups is the number of backups among these files. Busy is set if no
	// row files were removed because a backup was in progress or had been interrupted.
	Removed int
	Backups int
	Busy    bool
}

// pendingEvery is the number of files after which the pruner checks again whether a backup is in progress.
const pendingEvery = 16

// Prune removes expired data.
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
		return fmt.Errorf("%w. Nothing was deleted. Create a new backup, or delete the damaged backup manually", err)
	}
	for _, id := range append(gone, bases...) { // before their files and the following segments
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

// without returns the manifests that remain when the backups in gone are removed.
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
	if p.OnRemove != nil {
		p.OnRemove(name)
	}
	p.Removed++
	if p.Dry {
		return nil
	}
	return p.Target.Remove(ctx, name)
}

// backups returns the IDs of the backups that are removed. The newest backup of each cluster always remains.
func (p *Pruner) backups(ids []string, manifests map[string]*archive.Manifest) (gone []string) {
	if p.KeepLast == 0 && p.OlderThan == 0 {
		return nil
	}
	own := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return manifests[id].Archived })
	newer := map[string]int{} // number of newer backups of the same cluster
	for _, id := range slices.Backward(own) {
		m := manifests[id]
		young := p.OlderThan > 0 && p.Clock.Wall().Sub(m.Time) < p.OlderThan
		if newer[m.Cluster] >= max(p.KeepLast, 1) && !young {
			gone = append(gone, id)
		}
		newer[m.Cluster]++
	}
	slices.Reverse(gone)
	return gone
}

// archived returns the data that precedes the newest base from which all restore points in the retention period can be
// restored.
func (p *Pruner) archived(l *Log) (bases []string, segments Chain) {
	if p.Keep == 0 {
		return nil, nil
	}
	horizon := p.Clock.Wall().Add(-p.Keep)
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

// files removes the files to which no manifest refers. It does nothing if a backup is in progress, because the backup
// may be about to refer to these files.
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
			// A backup may have started and completed since the manifests were read. It can then refer to files to
			// which no manifest referred at that time.
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

// Check validates the options.
func (p *Pruner) Check() error {
	switch {
	case p.KeepLast < 0 || p.OlderThan < 0 || p.Keep < 0:
		return errors.New("retention limits must not be negative")
	case p.KeepLast == 0 && p.OlderThan == 0 && p.Keep == 0:
		return errors.New("cannot prune: no retention rule. Specify --keep-last, --older-than, or --keep")
	}
	return nil
}
