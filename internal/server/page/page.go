// SPDX-License-Identifier: Apache-2.0

// Package page is what a browser is shown at the HTTP port: the cluster at a glance, what each physical partition
// stores and is asked, where it becomes hot, what splits, merges and moves, what took long, and a place to try
// statements.
//
// Every view is HTML that is made here of the same figures that /status, /usage and /history tell, so that what is on
// the page and what a tool prints are one. A small module in the browser asks for the view again every two seconds and
// puts the new one in its place; without it the page works, and stands still. Nothing is fetched from anywhere else,
// and names that users chose are text, whatever they consist of.
//
// Guarantees: (PG1) whoever may see a view is decided before it comes here (admin.Gate); the explorer carries
// statements out as the role that logged in. (PG2) What a view shows is bounded: tables, partitions, changes, rows and
// the text of a value. (PG3) At most exploreMost statements are under way. Start at Handler.
package page

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/query/slowlog"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// Path is below which the page is served.
const Path = "/ui/"

// Options is where the page has its figures from.
type Options struct {
	// Status, Usage and History are what /status, /usage and /history show.
	Status  func() admin.Status
	Usage   func(ctx context.Context, table string, history bool) []admin.TableUsage
	History func() []admin.ChangeStatus
	// Latency is how long what this node was asked took on a table, in milliseconds; ok is false if it was asked
	// nothing.
	Latency func(table string, writes bool) (median, p99 float64, ok bool)
	// Slow is what took long on all nodes.
	Slow func(ctx context.Context) slowlog.Report
	// Explore carries a statement out for the role that has logged in, empty where nobody has to.
	Explore func(ctx context.Context, role string, q Query) (*Answer, error)
	// Now tells the time; time.Now if nil.
	Now func() time.Time
}

//go:embed assets
var assets embed.FS

var views = template.Must(template.New("").Funcs(template.FuncMap{
	"size": size, "count": count, "rate": rate, "percent": percent, "short": short, "ago": ago,
	"millis": millis, "clock": clock,
	"bytes": func(n int64) uint64 { return uint64(max(n, 0)) },
}).ParseFS(assets, "assets/*.html"))

// site serves the page.
type site struct {
	o       Options
	explore chan struct{} // holds a token for each statement under way
}

// Handler serves the page below Path.
func Handler(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &site{o: o, explore: make(chan struct{}, exploreMost)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"{$}", s.view("overview", s.overview))
	mux.HandleFunc("GET "+Path+"storage", s.view("storage", s.storage))
	mux.HandleFunc("GET "+Path+"heat", s.view("heat", s.heat))
	mux.HandleFunc("GET "+Path+"changes", s.view("changes", s.changes))
	mux.HandleFunc("GET "+Path+"slow", s.view("slow", s.slow))
	mux.HandleFunc("GET "+Path+"explore", s.exploreForm)
	mux.HandleFunc("POST "+Path+"explore", s.exploreRun)
	mux.HandleFunc("GET "+Path+"assets/{name}", asset)
	return mux
}

// asset serves the style sheet, the module and the sign of the page.
func asset(w http.ResponseWriter, r *http.Request) {
	types := map[string]string{"page.css": "text/css", "page.js": "text/javascript", "sign.svg": "image/svg+xml"}
	kind, ok := types[r.PathValue("name")]
	b, err := assets.ReadFile("assets/" + r.PathValue("name"))
	if !ok || err != nil {
		http.NotFound(w, r)
		return
	}
	guard(w)
	w.Header().Set("Content-Type", kind+"; charset=utf-8")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(b)
}

// guard has a browser run and show nothing but what comes from here.
func guard(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// shell is what stands around every view.
type shell struct {
	View, Title, Cluster string
	// Live says that the view is to be asked for again.
	Live     bool
	Problems []string
	Body     any
}

// titles are the names of the views, in the order of the menu.
var titles = map[string]string{"overview": "Overview", "storage": "Storage", "heat": "Heat map", "changes": "Changes",
	"slow": "Slow", "explore": "Explore"}

// view serves what f makes of the state of the cluster.
func (s *site) view(name string, f func(r *http.Request, status *admin.Status) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status := s.o.Status()
		s.show(w, r, http.StatusOK, &shell{View: name, Title: titles[name], Cluster: status.Cluster, Live: true,
			Problems: status.Problems, Body: f(r, &status)})
	}
}

// fragmentHeader asks for the view without what stands around it.
const fragmentHeader = "Ilion-Fragment"

// show writes a view, or its middle alone.
func (s *site) show(w http.ResponseWriter, r *http.Request, code int, p *shell) {
	name := "page"
	if r.Header.Get(fragmentHeader) != "" {
		name = "main"
	}
	var out bytes.Buffer
	if err := views.ExecuteTemplate(&out, name, p); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	guard(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes())
}

// Middle is the template of the view's own part.
func (p *shell) Middle() (template.HTML, error) {
	var out strings.Builder
	err := views.ExecuteTemplate(&out, p.View, p.Body)
	return template.HTML(out.String()), err //nolint:gosec // it was made by a template, which has escaped it
}
