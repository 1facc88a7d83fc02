// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"cmp"
	"context"
	"sync"

	"golang.org/x/time/rate"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// same returns the files of a partition in an earlier backup. ok is false if the partition has changed since that
// backup.
func same(m *archive.Manifest, j job) ([]archive.File, bool) {
	for i := range m.Tables {
		if m.Tables[i].ID != j.table.ID {
			continue
		}
		for p := range m.Tables[i].Partitions {
			if m.Tables[i].Partitions[p].Unchanged(j.part) {
				return m.Tables[i].Partitions[p].Files, true
			}
		}
	}
	return nil, false
}

// trail is the ordered list of files of an earlier backup. It includes the position up to which a partition has been
// compared.
type trail struct {
	files []archive.File
	at    int
}

// follow returns the trail of an earlier backup for the range of a partition.
func follow(m *archive.Manifest, j job) (t trail) {
	for i := range m.Tables {
		if m.Tables[i].ID != j.table.ID {
			continue
		}
		for _, p := range m.Tables[i].Partitions {
			if overlaps(&p, j.part) {
				t.files = append(t.files, p.Files...)
			}
		}
	}
	return t
}

func overlaps(a, b *archive.Partition) bool {
	before := func(begin, end []byte) bool { return len(end) == 0 || bytes.Compare(begin, end) < 0 }
	return before(a.Begin, b.End) && before(b.Begin, a.End)
}

// ahead appends the names of the files that start at a key. The next files may be among them.
func (t *trail) ahead(names []string, from []byte) []string {
	for t.at < len(t.files) && bytes.Compare(t.files[t.at].First, from) < 0 {
		t.at++
	}
	for _, f := range t.files[t.at:min(len(t.files), t.at+knownSent)] {
		names = append(names, f.Name)
	}
	return names
}

// pace limits the transfer rate.
type pace struct {
	once    sync.Once
	limiter *rate.Limiter
}

// wait waits until n more bytes can be transferred without exceeding the rate. The rate is in bytes per second. A rate
// of 0 means no limit.
func (p *pace) wait(ctx context.Context, perSecond, n int64) error {
	if perSecond <= 0 {
		return nil
	}
	p.once.Do(func() { p.limiter = rate.NewLimiter(rate.Limit(perSecond), int(max(perSecond/10, 1))) })
	for ; n > 0; n -= int64(p.limiter.Burst()) {
		if err := p.limiter.WaitN(ctx, int(min(n, int64(p.limiter.Burst())))); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
	return nil
}
