// SPDX-License-Identifier: Apache-2.0

// Package webui serves the web UI on the HTTP port. The web UI shows an overview of the cluster, the storage and load
// of physical partitions, hot partitions, and splits, merges, and moves. It also shows slow requests and an explorer
// for statements.
//
// The server renders every view as HTML from the same data as /status, /usage, and /history. Therefore, the web UI and
// the tools show the same data. Every two seconds, a small browser module requests the view again and replaces it.
// Without the module, the page works but does not refresh. The page loads no data from other servers. It escapes all
// names that users have chosen.
//
// Guarantees: (PG1) admin.Gate determines access to a view before it calls this package. The explorer executes
// statements with the role that has logged in. (PG2) The contents of a view are bounded, including tables, partitions,
// operations, rows, and the text of a value. (PG3) Up to exploreMost statements run concurrently. Start reading at
// Handler.
package webui

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"strings"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// Path is the root of the web UI.
const Path = "/ui/"

// Options holds the data sources of the web UI.
type Options struct {
	Reports Reports
	Slow    SlowRequests
	// Explorer executes statements.
	Explorer Explorer
	// Clock is the clock of the web UI. If Clock is nil, the web UI uses time.Now.
	Clock sched.Clock
}

// Reports describes the cluster. *admin.Reporter implements it.
type Reports interface {
	// Status, ShowUsage, and History return the data of /status, /usage, and /history.
	Status() admin.Status
	ShowUsage(ctx context.Context, table string, history bool) []admin.TableUsage
	History() []admin.ChangeStatus
	// Latency returns the latencies, in milliseconds, of a table's requests on this node. ok is false if the table has
	// received no requests.
	Latency(table string, writes bool) (median, p99 float64, ok bool)
}

// SlowRequests returns the slow requests of all nodes. *diagnostics.SlowRequests implements it.
type SlowRequests interface {
	SlowQueries(ctx context.Context) slowlog.Report
}

//go:embed assets
var assets embed.FS

var views = template.Must(template.New("").Funcs(template.FuncMap{
	"size": size, "count": count, "rate": rate, "percent": percent, "short": short, "ago": ago,
	"millis": millis, "clock": clock,
	"bytes": func(n int64) uint64 { return uint64(max(n, 0)) },
}).ParseFS(assets, "assets/*.html"))

// site serves the web UI.
type site struct {
	o       Options
	explore chan struct{} // channel that contains a token for each running statement
}

// Handler returns the handler for requests below Path.
func Handler(o Options) http.Handler {
	if o.Clock == nil {
		o.Clock = sched.SystemClock
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

// asset serves the style sheet, the module, and the icon.
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

// guard sets headers that allow the browser to run and display only content from this server.
func guard(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// shell is the frame around every view.
type shell struct {
	View, Title, Cluster string
	// Live makes the browser refresh the view.
	Live     bool
	Problems []string
	Body     any
}

// titles maps the views to their names.
var titles = map[string]string{"overview": "Overview", "storage": "Storage", "heat": "Heat map", "changes": "Changes",
	"slow": "Slow", "explore": "Explore"}

// view serves the view that f creates from the state of the cluster.
func (s *site) view(name string, f func(r *http.Request, status *admin.Status) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status := s.o.Reports.Status()
		s.show(w, r, http.StatusOK, &shell{View: name, Title: titles[name], Cluster: status.Cluster, Live: true,
			Problems: status.Problems, Body: f(r, &status)})
	}
}

// fragmentHeader is the header of a request for a view without its frame.
const fragmentHeader = "Ilion-Fragment"

// show writes a view with its frame, or only the content of the view.
func (s *site) show(w http.ResponseWriter, r *http.Request, code int, p *shell) {
	name := "page"
	if r.Header.Get(fragmentHeader) != "" {
		name = "main"
	}
	var out bytes.Buffer
	if err := views.ExecuteTemplate(&out, name, p); err != nil {
		http.Error(w, "cannot render the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	guard(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes())
}

// Middle renders the content of the view.
func (p *shell) Middle() (template.HTML, error) {
	var out strings.Builder
	err := views.ExecuteTemplate(&out, p.View, p.Body)
	return template.HTML(out.String()), err //nolint:gosec // html/template has escaped the text
}
