// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync/atomic"
	"time"
)

// diskWatch remembers whether the disk is nearly full.
type diskWatch struct {
	full atomic.Bool
	// free is the free share in percent at the last look, -1 if unknown.
	free atomic.Int64
}

func (s *Store) watchDisk() {
	tick := time.NewTicker(s.o.DiskCheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
			s.checkDisk()
		}
	}
}

// checkDisk looks at the free space now. A file system that cannot say counts as roomy.
func (s *Store) checkDisk() {
	s.disk.free.Store(-1)
	if s.o.MinFreeDisk < 0 {
		return
	}
	u, err := s.o.DiskUsage(s.dir)
	if err != nil || u.TotalBytes == 0 {
		return
	}
	free := int(float64(u.AvailBytes) / float64(u.TotalBytes) * 100)
	s.disk.free.Store(int64(free))
	full := free < s.o.MinFreeDisk
	if s.disk.full.Swap(full) != full && s.o.Events.DiskFull != nil {
		s.o.Events.DiskFull(full, free)
	}
}
