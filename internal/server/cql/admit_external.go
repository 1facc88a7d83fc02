// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// Guest admits or rejects a request that arrived through another protocol, by the same admission control as this
// server's clients. An admitted request counts until done is called. cost is its estimated cost.
func (s *Server) Guest(who fairshare.Principal, cost ru.Units) (done func(), ok bool) {
	now := s.now()
	if int64(now) >= s.pressure.due.Load() {
		s.tellGate(now)
	}
	if s.gate.Closed() && !s.gate.Admit(who, cost, time.Duration(s.pressure.processor.Load()), now) {
		return nil, false
	}
	s.stats.InFlight.Add(1)
	return s.guestDone, true
}

func (s *Server) guestDone() {
	s.stats.InFlight.Add(-1)
	s.stats.Executed.Add(1)
}
