// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages reads a list in pages of two resources. It calls seen with the IDs of each page before it requests the next
// page.
func (s *surface) pages(what, body string, seen func(ids []string)) (all []string) {
	s.t.Helper()
	h := m{"x-ms-max-item-count": "2"}
	if body != "" {
		h["x-ms-documentdb-isquery"] = "true"
	}
	for range 20 {
		r := s.want(what, body, h, 200)
		var ids []string
		for _, id := range regexp.MustCompile(`"id":"([^"]*)"`).FindAllStringSubmatch(r.body, -1) {
			ids = append(ids, id[1])
		}
		if len(ids) > 2 {
			s.t.Fatalf("%s: a page has %v", what, ids)
		}
		all = append(all, ids...)
		seen(ids)
		if h["x-ms-continuation"] = r.header.Get("x-ms-continuation"); h["x-ms-continuation"] == "" {
			return all
		}
	}
	s.t.Fatalf("%s does not come to an end: %v", what, all)
	return nil
}

// TestListsWhileDeleting checks paging through a list and through a query over a list. No resource may be skipped if
// listed resources are deleted before the next page.
func TestListsWhileDeleting(t *testing.T) {
	const order = `{"query":"SELECT r.id FROM r ORDER BY r.id DESC"}`
	for _, c := range []struct{ what, body string }{
		{"GET /dbs", ""}, {"POST /dbs", `{"query":"SELECT * FROM r"}`}, {"POST /dbs", order},
		{"GET /dbs/d/colls", ""}, {"POST /dbs/d/colls", `{"query":"SELECT r.id FROM r WHERE r._rid != 'none'"}`},
		{"POST /dbs/d/colls", order},
	} {
		t.Run(c.what+c.body, func(t *testing.T) {
			s := newSurface(t, Options{})
			_, list, _ := strings.Cut(c.what, " ")
			there := "d"
			if strings.HasSuffix(list, "colls") {
				there = "c"
			}
			s.want("DELETE "+list+"/"+there, "", nil, 204)
			var want []string
			for i := range 9 {
				id := fmt.Sprintf("r%d", i)
				s.want("POST "+list, fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/pk"]}}`, id), nil, 201)
				want = append(want, id)
			}
			if c.body == order {
				slices.Reverse(want)
			}
			got := s.pages(c.what, c.body, func(ids []string) {
				for _, id := range ids {
					s.want("DELETE "+list+"/"+id, "", nil, 204)
				}
			})
			if !slices.Equal(got, want) {
				t.Errorf("%v were listed, want %v", got, want)
			}
		})
	}
}

// TestListContinuations checks that invalid continuations are rejected. They include the numbers from earlier builds.
func TestListContinuations(t *testing.T) {
	s := newSurface(t, Options{})
	for _, text := range []string{"2", ".", "x", ".!"} {
		status := 400
		if text == "." {
			status = 200
		}
		s.want("GET /dbs", "", m{"x-ms-continuation": text}, status)
	}
	s.want("POST /dbs", `{"query":"SELECT * FROM r"}`, m{"x-ms-documentdb-isquery": "true", "x-ms-continuation": "2"},
		400)
}
