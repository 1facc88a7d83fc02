// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// Guest lets a request of another surface of the node in, or refuses it, as the admission control of the machine does
// with those of this server's clients, and has it counted among them until it is done. cost is about what it will cost.
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
