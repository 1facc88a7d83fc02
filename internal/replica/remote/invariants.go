// SPDX-License-Identifier: Apache-2.0

package remote

import "github.com/ilion-db/ilion/internal/model/invariant"

// checkPageSize checks the size of a sent page in builds with the invariants tag (RM4).
func (p *pageWriter) checkPageSize() {
	invariant.Check(len(p.page) < max(p.s.page, headBytes+1), "RM4: a page of %d bytes continues", len(p.page))
}

// checkUnanswered checks, in builds with the invariants tag, that a request receives only one response (RM5).
func (w *write) checkUnanswered() {
	invariant.Check(w.done != nil, "RM5: a request of kind %d received two responses", w.kind)
}
