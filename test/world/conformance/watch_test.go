// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
)

// last is the name of the object whose creation ends the comparison of watches.
const last = "zz"

// watchWait is how long a watch may take to deliver its events.
const watchWait = time.Minute

// watch draws a watch.
func (d *drawer) watch() (*request, target) {
	o := d.existing()
	req := &request{method: http.MethodGet, path: o.collection(o.namespace), query: d.version(0)}
	if !o.private && d.oneIn(2) {
		req.path = o.collection("")
	}
	if d.oneIn(2) {
		d.selectors(o, req.query)
	}
	if d.oneIn(2) {
		req.query.Set("resourceVersion", fmt.Sprintf("@mark:%d@", 1+d.IntN(d.steps)))
	}
	req.query.Set("watch", "true")
	if d.oneIn(3) {
		req.query.Set("allowWatchBookmarks", "true")
	}
	if d.oneIn(3) {
		req.query.Set("sendInitialEvents", pick(d, []string{"true", "true", "false"}))
		req.query.Set("resourceVersionMatch", "NotOlderThan")
		if d.oneIn(6) {
			req.query.Del("resourceVersionMatch")
		}
	}
	return d.encodings(o.resource, req), o
}

// watching is a watch on both servers, or the reason why there is none.
type watching struct {
	*request
	target
	events [2]<-chan event
}

// event is an event of a watch, without what differs from server to server.
type event struct {
	Type   string
	Object any
	name   string
}

// follow starts a watch. It returns the answer if that is an error.
func (s *side) follow(t *testing.T, r *request) (<-chan event, *answer) {
	t.Helper()
	response := s.start(t, r)
	contentType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := readable(body, contentType)
		if err != nil {
			t.Fatal(err)
		}
		return nil, &answer{Code: response.StatusCode, Type: contentType, Object: normal(t, text)}
	}
	t.Cleanup(func() { response.Body.Close() })
	events := make(chan event, 10000)
	go func() {
		defer close(events)
		info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), contentType)
		if !ok {
			events <- event{Type: "the type " + contentType}
			return
		}
		frames := info.StreamSerializer.Framer.NewFrameReader(response.Body)
		stream := streaming.NewDecoder(frames, info.StreamSerializer.Serializer)
		for {
			var one metav1.WatchEvent
			if _, _, err := stream.Decode(nil, &one); err != nil {
				return
			}
			events <- readEvent(t, one, contentType)
		}
	}()
	return events, nil
}

func readEvent(t *testing.T, one metav1.WatchEvent, contentType string) event {
	text, err := readable(one.Object.Raw, contentType)
	if err != nil {
		return event{Type: one.Type, Object: err.Error()}
	}
	var named struct {
		Metadata struct{ Name string }
		Rows     []struct {
			Object struct{ Metadata struct{ Name string } }
		}
	}
	_ = json.Unmarshal(text, &named) // a text without a name has none
	name := named.Metadata.Name
	if len(named.Rows) > 0 {
		name = named.Rows[0].Object.Metadata.Name
	}
	return event{Type: one.Type, Object: normal(t, text), name: name}
}

// collect returns the events of a watch until the last one, without bookmarks other than the one
// that ends the initial events.
func collect(events <-chan event, end string) []event {
	var all []event
	timeout := time.After(watchWait)
	for {
		select {
		case one, ok := <-events:
			if !ok {
				return append(all, event{Type: "END"})
			}
			if one.Type == "BOOKMARK" && !strings.Contains(fmt.Sprint(one.Object), metav1.InitialEventsAnnotationKey) {
				continue
			}
			all = append(all, one)
			if one.Type == "ERROR" || one.name == end && one.Type != "DELETED" {
				return all
			}
		case <-timeout:
			return append(all, event{Type: "TIMEOUT"})
		}
	}
}

// ending returns a request that creates an object that a watch selects, as its last event. There is
// none if no new object can be selected.
func (w *watching) ending(i int) (*request, string) {
	o := w.target
	o.objectName = fmt.Sprint(last, i)
	if o.namespaced && o.namespace == "" {
		o.namespace = namespaces[0]
	}
	text, field := o.objects[0], w.query.Get("fieldSelector")
	switch {
	case strings.Contains(field, "metadata.name=a"), strings.Contains(field, "status.nominatedNodeName"),
		strings.Contains(field, "spec.unschedulable"), strings.Contains(field, "globalDefault"):
		return nil, ""
	case field == "spec.nodeName=n0" && o.kind == "Pod", field == "spec.nodeName!=" && o.kind == "Pod":
		text = o.objects[2]
	case field == "spec.hostNetwork=true":
		text = `{"spec":{` + podSpec + `,"hostNetwork":true}}`
	case strings.Contains(field, "type=Warning"):
		text = strings.Replace(text, "Normal", "Warning", 1)
	}
	if o.kind == "Event" && !strings.Contains(field, "bject.namespace") {
		text = strings.Replace(text, `"namespace":"one"`, fmt.Sprintf(`"namespace":%q`, o.namespace), 1)
	}
	return &request{method: http.MethodPost, path: o.collection(o.namespace), query: url.Values{},
		contentType: jsonType, accept: jsonType, body: o.identify(text, `,"labels":{"app":"a"}`)}, o.objectName
}
