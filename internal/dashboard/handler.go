// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard serves livesched's web pages: why pods wait, whether the scheduler is well, and
// where there is room. It only reads.
//
//	browser -> method, headers -> assets              embedded, compressed once, cached for long
//	                           -> source(request)     the Source of the user: 401
//	                              -> page             all parts at once, each with a time limit
//	                              -> part of a page   what htmx loads again every few seconds
//	                              -> data             JSON of the heat map
//
// Pages are complete HTML documents with links and forms. Scripts load parts again and draw charts
// and the heat map. A part that cannot be shown says why in its place, and the others still show.
package dashboard

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Source answers the questions of one user. Errors with a status are apierrors.APIStatus: 401, 403,
// 404, 429, 503.
type Source interface {
	// PendingKinds returns the largest kinds of pending pods of a namespace, or of all if it is "".
	PendingKinds(ctx context.Context, namespace string, limit int) (*v1alpha1.PendingKindList, error)
	// PendingPods returns one kind of pending pods of a namespace by its ID, with at most a number
	// of its pods, or an empty list if no such pod is pending.
	PendingPods(ctx context.Context, namespace, id string, limit int) (*v1alpha1.PendingKindList, error)
	// NodeAllocations returns the room of nodes. If pod is not zero, each node has the reason why
	// it refuses this pod.
	NodeAllocations(ctx context.Context, pod types.NamespacedName) (*v1alpha1.NodeAllocationList, error)
	// LoadSamples returns the load in the given time until now.
	LoadSamples(ctx context.Context, last time.Duration) (*v1alpha1.LoadSampleList, error)
	// Explain returns why a pod is pending, or on its node. If node is not "", it is compared. The
	// explanation may have been made for somebody else, and be as old as maxAge.
	Explain(ctx context.Context, pod types.NamespacedName, node string,
		maxAge time.Duration) (*v1alpha1.PodExplanation, error)
	// Decisions returns the latest decisions. The query has the parameters of the resource
	// decisions, and "namespace".
	Decisions(ctx context.Context, query url.Values) (*v1alpha1.DecisionList, error)
	// Simulate decides pods again in a copy of the state, with a change. Nothing is stored.
	Simulate(ctx context.Context, simulation *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error)
	// Profiles returns all profiles.
	Profiles(ctx context.Context) ([]v1alpha1.SchedulerProfile, error)
}

// handler serves the pages.
type handler struct {
	prefix  string
	source  func(*http.Request) (Source, error)
	history History
	assets  map[string]*asset
	pages   map[string]*template.Template
	parts   *template.Template
}

// view makes the answer to a request.
type view func(r *http.Request, s Source) answer

// answer is what is written: a template with its data, or JSON.
type answer struct {
	status   int // 0 is 200
	page     string
	part     string
	title    string
	data     any
	json     any
	location string // where to go instead
}

// NewHandler serves the pages below a prefix, which is "" or a path such as "/ui". The function
// source returns the Source of the user of a request. Without a History, charts show hours only.
func NewHandler(prefix string, source func(*http.Request) (Source, error), history History) http.Handler {
	h := &handler{prefix: prefix, source: source, history: history, assets: loadAssets()}
	h.parts, h.pages = parseTemplates(h.functions())
	mux := http.NewServeMux()
	for path, v := range h.views() {
		mux.HandleFunc(prefix+path, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, v) })
	}
	mux.HandleFunc(prefix+"/assets/{hash}/{name}", h.serveAsset)
	return secured(mux)
}

// views returns the routes. The last one is for all other paths.
func (h *handler) views() map[string]view {
	return map[string]view{
		"/{$}":                             h.overview,
		"/parts/verdict":                   h.verdictPart,
		"/parts/help":                      h.helpPart,
		"/parts/kinds":                     h.kindsPart,
		"/kinds/{namespace}/{id}":          h.kindPage,
		"/parts/kinds/{namespace}/{id}":    h.kindPart,
		"/parts/why":                       h.whyPart,
		"/parts/health":                    h.healthPart,
		"/parts/profiles":                  h.profilesPart,
		"/parts/room":                      h.roomPart,
		"/data/room":                       h.roomData,
		"/pods/{namespace}/{name}":         h.podPage,
		"/parts/pods/{namespace}/{name}":   h.podPart,
		"/pods":                            h.findPod,
		"/groups/{namespace}/{name}":       h.groupPage,
		"/nodes":                           h.nodesPage,
		"/nodes/{name}":                    h.nodePage,
		"/compare":                         h.comparePage,
		"/decisions":                       h.decisionsPage,
		"/parts/decisions":                 h.newDecisions,
		"/parts/decisions-of/{by}/{of...}": h.decisionsOf,
		"/":                                noPage,
	}
}

func noPage(*http.Request, Source) answer { return notFound("There is no such page.") }

// headers are those of every response. Scripts and styles come from this server only, and none is
// inline.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store",
}

// secured sets the headers, and refuses what is not a read.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "The dashboard only reads: use GET or HEAD.", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve answers a request with a view.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, v view) {
	s, err := h.source(r)
	if err != nil {
		h.write(w, r, failed(problemOf(err)))
		return
	}
	h.write(w, r, v(r, s))
}
