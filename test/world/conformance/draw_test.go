// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

var (
	names      = []string{"a", "b", "c"}
	namespaces = []string{"one", "two"}
)

// drawer draws requests.
type drawer struct {
	*rand.Rand
	steps int
	made  []target // the objects of the latest successful creations
}

func newDrawer(seed uint64) *drawer { return &drawer{Rand: rand.New(rand.NewPCG(seed, 0))} }

func pick[T any](d *drawer, from []T) T { return from[d.IntN(len(from))] }

func (d *drawer) oneIn(n int) bool { return d.IntN(n) == 0 }

// target is a resource and an object of it.
type target struct {
	*resource
	namespace, objectName string
}

func (o target) path() string { return o.collection(o.namespace) + "/" + o.objectName }

func (d *drawer) target() target {
	r := pick(d, catalogue)
	if d.oneIn(3) {
		r = catalogue[0] // Pods
	}
	o := target{resource: r, objectName: pick(d, names)}
	if r.namespaced {
		o.namespace = pick(d, namespaces)
	}
	return o
}

// existing draws an object that may exist.
func (d *drawer) existing() target {
	if len(d.made) == 0 || d.oneIn(6) {
		return d.target()
	}
	return d.made[max(0, len(d.made)-1-d.IntN(15))]
}

// encodings draws in which format a request and its answer are.
func (d *drawer) encodings(r *resource, req *request) *request {
	req.contentType, req.accept = jsonType, jsonType
	if !r.custom && d.oneIn(2) {
		req.contentType = protobufType
	}
	switch {
	case !r.custom && d.oneIn(2):
		req.accept = protobufType
	case d.oneIn(8):
		req.accept = pick(d, []string{
			protobufType + "," + jsonType, "*/*", "",
			jsonType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
			protobufType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
			jsonType + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", jsonType + ";as=Table;g=meta.k8s.io;v=v1",
			"text/plain", "application/yaml;q=0.1," + jsonType,
		})
	}
	if d.oneIn(60) {
		req.contentType = "text/plain"
	}
	return req
}

// next draws a request.
func (d *drawer) next() (*request, target) {
	d.steps++
	o := d.existing()
	var req *request
	switch n := d.IntN(100); {
	case n < 26:
		o = d.target()
		req = d.create(o)
	case n < 31:
		req = &request{method: http.MethodGet, path: o.path(), query: d.version(0)}
		if v := req.query.Get("resourceVersion"); v == "x" || v == "-1" {
			req.query.Del("resourceVersion") // the real server answers 500
		}
	case n < 46:
		o = d.target()
		req = d.list(o)
	case n < 56:
		req = d.update(o)
	case n < 76:
		req = d.patch(o)
	case n < 86:
		req = d.delete(o)
	case n < 88:
		req = d.deleteCollection(o)
	case n < 97:
		return d.encodings(catalogue[0], d.bind()), o
	default:
		req = d.odd(o)
	}
	if req.query == nil {
		req.query = url.Values{}
	}
	if req.method != http.MethodGet && d.oneIn(15) {
		req.query.Set("dryRun", pick(d, []string{"All", "All", "All", "Some"}))
	}
	if req.method != http.MethodGet && req.method != http.MethodDelete && d.oneIn(5) {
		req.query.Set("fieldValidation", pick(d, []string{"Strict", "Warn", "Ignore"}))
	}
	patch := req.contentType
	d.encodings(o.resource, req)
	if patch != "" {
		req.contentType = patch
	}
	return req, o
}

// identify returns the text of an object with its kind and name.
func (o target) identify(text, metadata string) string {
	if o.namespace != "" {
		metadata += fmt.Sprintf(`,"namespace":%q`, o.namespace)
	}
	head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q%s}`, o.apiVersion, o.kind, o.objectName, metadata)
	if text == "{}" {
		return head + "}"
	}
	return head + "," + text[1:]
}

func (d *drawer) metadata() string {
	return pick(d, []string{`,"labels":{"app":"a"}`, `,"labels":{"app":"b"}`, `,"labels":{"app":"a"}`, ``,
		`,"labels":{"app":"c"},"annotations":{"x":"y"}`, `,"finalizers":["world.test/hold"]`})
}

func (d *drawer) create(o target) *request {
	req := &request{method: http.MethodPost, path: o.collection(o.namespace)}
	metadata := d.metadata()
	if d.oneIn(40) {
		metadata = pick(d, []string{`,"resourceVersion":"7"`, `,"labels":{"a b":"c"}`, `,"uid":"11111111-1111-1111-1111-111111111111"`,
			`,"deletionTimestamp":"2026-01-01T00:00:00Z"`, `,"finalizers":["odd"]`, `,"generation":7`})
	}
	named := o
	switch {
	case d.oneIn(40):
		named.objectName = pick(d, []string{"", "Not a name", "x/y", "system-x"})
	case d.oneIn(40) && o.namespaced:
		named.namespace = "other"
	case d.oneIn(40):
		other := *o.resource
		other.kind, named.resource = "Thing", &other
	case d.oneIn(40):
		other := *o.resource
		other.apiVersion, named.resource = "v7", &other
	}
	req.body = named.identify(pick(d, o.objects), metadata)
	return req
}

// version draws for which resourceVersion a get or list asks.
func (d *drawer) version(steps int) url.Values {
	query := url.Values{}
	switch d.IntN(8) {
	case 0:
		query.Set("resourceVersion", "0")
	case 1:
		query.Set("resourceVersion", fmt.Sprintf("@mark:%d@", d.IntN(d.steps+steps)))
	case 2:
		if d.oneIn(15) {
			query.Set("resourceVersion", pick(d, []string{"x", "-1", "999999999"}))
		}
	}
	return query
}

func (d *drawer) selectors(o target, query url.Values) {
	if label := pick(d, anyLabels); label != "" {
		query.Set("labelSelector", label)
	}
	fields := append(append([]string{}, anyFields...), o.fields...)
	if field := pick(d, append(fields, o.fields...)); field != "" {
		query.Set("fieldSelector", field)
	}
}

func (d *drawer) list(o target) *request {
	req := &request{method: http.MethodGet, path: o.collection(o.namespace), query: d.version(0)}
	if !o.private && d.oneIn(2) {
		req.path = o.collection("")
	}
	d.selectors(o, req.query)
	if d.oneIn(3) && req.query.Get("resourceVersion") != "0" {
		req.query.Set("limit", pick(d, []string{"1", "2", "3", "500"}))
		req.loose = req.query.Has("fieldSelector") || req.query.Has("labelSelector")
	}
	if d.oneIn(4) && !strings.Contains(req.query.Get("resourceVersion"), "999") {
		req.query.Set("resourceVersionMatch", pick(d, []string{"Exact", "NotOlderThan", "Odd"}))
	}
	if d.oneIn(6) {
		req.query.Set("continue", "@next:"+req.path+"@")
		if d.oneIn(2) {
			req.query.Del("resourceVersion")
			req.query.Del("resourceVersionMatch")
		}
	}
	return req
}

func (d *drawer) update(o target) *request {
	req := &request{method: http.MethodPut, path: o.path(), base: o.path()}
	metadata := pick(d, []string{``, ``, `,"resourceVersion":"@old:%s@"`, `,"resourceVersion":null`, `,"uid":"@uid:%s@"`,
		`,"resourceVersion":"@rv:%s@","labels":{"app":"b"}`, `,"finalizers":null`, `,"uid":"11111111-1111-1111-1111-111111111111"`})
	if strings.Contains(metadata, "%s") {
		metadata = fmt.Sprintf(metadata, o.path())
	}
	text := "{}"
	switch {
	case len(o.statuses) > 0 && d.oneIn(2):
		text, req.path = pick(d, o.statuses), o.path()+"/status"
	case d.oneIn(4):
		text, req.base = pick(d, o.objects), ""
	case !strings.Contains(metadata, "{") && len(o.patches) > 0:
		text = pick(d, o.patches)
		if strings.HasPrefix(text, `{"metadata"`) {
			text = "{}"
		}
	}
	req.body = o.identify(text, metadata)
	return req
}

func (d *drawer) patch(o target) *request {
	req := &request{method: http.MethodPatch, path: o.path(), contentType: "application/merge-patch+json"}
	if d.oneIn(2) {
		req.contentType = "application/strategic-merge-patch+json"
	}
	switch {
	case len(o.statuses) > 0 && d.oneIn(2):
		req.path, req.body = o.path()+"/status", pick(d, o.statuses)
	case len(o.patches) > 0 && d.oneIn(2):
		req.body = pick(d, o.patches)
	case len(o.strategic) > 0 && d.oneIn(2):
		req.body, req.contentType = pick(d, o.strategic), "application/strategic-merge-patch+json"
	case d.oneIn(8):
		req.body, req.contentType = `[{"op":"test","path":"/metadata/labels/app","value":"a"},`+
			`{"op":"replace","path":"/metadata/labels/app","value":"c"}]`, "application/json-patch+json"
	case d.oneIn(8):
		req.body = fmt.Sprintf(`{"metadata":{"uid":"@uid:%s@","labels":{"app":"c"}}}`, o.path())
	case d.oneIn(8):
		req.body = fmt.Sprintf(`{"metadata":{"resourceVersion":"@%s:%s@","labels":{"app":"c"}}}`, pick(d, []string{"rv", "old"}), o.path())
	default:
		req.body = pick(d, anyPatches)
	}
	return req
}

func (d *drawer) delete(o target) *request {
	req := &request{method: http.MethodDelete, path: o.path(), body: d.deleteOptions(o)}
	if d.oneIn(10) {
		req.query, req.body = url.Values{"gracePeriodSeconds": {pick(d, []string{"0", "5", "-1", "x"})}}, ""
	}
	return req
}

func (d *drawer) deleteOptions(o target) string {
	options := pick(d, []string{``, ``, `,"gracePeriodSeconds":0`, `,"gracePeriodSeconds":3`, `,"preconditions":{"uid":"@uid:%s@"}`,
		`,"preconditions":{"uid":"11111111-1111-1111-1111-111111111111"}`, `,"preconditions":{"resourceVersion":"@old:%s@"}`,
		`,"preconditions":{"resourceVersion":"@rv:%s@"}`, `,"propagationPolicy":"Foreground"`, `,"propagationPolicy":"Orphan"`,
		`,"propagationPolicy":"Background"`, `,"propagationPolicy":"Odd"`, `,"orphanDependents":true`})
	if strings.Contains(options, "%s") {
		options = fmt.Sprintf(options, o.path())
	}
	if options == "" && d.oneIn(2) {
		return ""
	}
	return `{"kind":"DeleteOptions","apiVersion":"v1"` + options + `}`
}

func (d *drawer) deleteCollection(o target) *request {
	if o.name == "namespaces" {
		return d.list(o) // those of the test stay
	}
	req := &request{method: http.MethodDelete, path: o.collection(o.namespace), query: url.Values{}}
	d.selectors(o, req.query)
	if d.oneIn(2) {
		req.body = `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`
	}
	return req
}

// bind draws a binding or an eviction of a Pod.
func (d *drawer) bind() *request {
	o := d.existing()
	if o.resource != catalogue[0] {
		o = target{resource: catalogue[0], namespace: pick(d, namespaces), objectName: pick(d, names)}
	}
	if d.oneIn(6) {
		options := pick(d, []string{``, `,"deleteOptions":{"gracePeriodSeconds":0}`, `,"deleteOptions":{"dryRun":["All"]}`,
			`,"deleteOptions":{"preconditions":{"uid":"11111111-1111-1111-1111-111111111111"}}`})
		return &request{method: http.MethodPost, path: o.path() + "/eviction", query: url.Values{},
			body: fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}%s}`, o.objectName, options)}
	}
	metadata := pick(d, []string{``, `,"uid":"@uid:%s@"`, `,"uid":"11111111-1111-1111-1111-111111111111"`, `,"annotations":{"k":"v"}`,
		`,"labels":{"l":"m"}`, `,"resourceVersion":"@rv:%s@"`, `,"resourceVersion":"@old:%s@"`})
	if strings.Contains(metadata, "%s") {
		metadata = fmt.Sprintf(metadata, o.path())
	}
	kind, name := "Node", pick(d, []string{"n0", "n1"})
	if d.oneIn(12) {
		kind, name = pick(d, []string{"", "Minion", "Pod"}), pick(d, []string{"", "n0"})
	}
	in := o.objectName
	if d.oneIn(20) {
		in = "other"
	}
	return &request{method: http.MethodPost, path: o.path() + "/binding", query: url.Values{}, body: fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q%s},"target":{"kind":%q,"name":%q}}`, in, metadata, kind, name)}
}

// odd draws a request that no server serves, or that clients send once.
func (d *drawer) odd(o target) *request {
	switch d.IntN(7) {
	case 0:
		return &request{method: http.MethodGet, path: o.group + "/nothings"}
	case 1:
		return &request{method: http.MethodPut, path: o.collection(o.namespace), body: "{}"}
	case 2:
		return &request{method: http.MethodPost, path: o.path(), body: "{}"}
	case 3:
		return &request{method: http.MethodGet, path: o.path() + "/nothing"}
	case 4:
		return &request{method: http.MethodGet, path: o.path() + "/status"}
	case 5:
		return &request{method: http.MethodPost, path: o.collection(o.namespace), body: "{"}
	default:
		return &request{method: http.MethodPatch, path: o.path(), body: "{}", contentType: "application/odd-patch+json"}
	}
}
