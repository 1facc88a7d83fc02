// SPDX-License-Identifier: Apache-2.0

package remote

import "github.com/ilion-db/ilion/internal/model/invariant"

// bounded checks, with the build tag invariants, that a page was sent when it was full (RM4).
func (p *reading) bounded() {
	invariant.Check(len(p.page) < max(p.s.page, headBytes+1), "RM4: a page of %d bytes goes on", len(p.page))
}

// asked checks, with the build tag invariants, that a request that is answered was not answered before (RM5).
func (w *write) asked() {
	invariant.Check(w.done != nil || w.decided != nil, "RM5: a request of kind %d is answered twice", w.kind)
}
