// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

const (
	jsonType     = runtime.ContentTypeJSON
	protobufType = runtime.ContentTypeProtobuf
)

// request is a request to an API server. The query and the body can contain what only one server
// knows, as @uid:path@, @rv:path@ and @old:path@ (the UID, the resourceVersion and an older one of
// the object with a path), @mark:n@ (the resourceVersion after the nth step) and @next:path@ (the
// token with which a list continues).
type request struct {
	method, path string
	query        url.Values
	// base is the path of an object as the server answered it last. body is merged into it. Without
	// a base, body is the whole.
	base, body, contentType, accept string
	// loose is set if the servers need not agree whether a list continues: without a cache, a
	// server does not know whether a selector selects any of the remaining objects.
	loose bool
}

func (r *request) String() string {
	return fmt.Sprintf("%s %s?%s accept=%s type=%s base=%s\n  %s", r.method, r.path, r.query.Encode(), r.accept,
		r.contentType, r.base, r.body)
}

// answer is what a server answers, without what differs from server to server.
type answer struct {
	Code     int
	Type     string
	Warnings []string
	Object   any
}

// object is an object as a server answered it last.
type object struct {
	uid, version, older string
	text                []byte
}

// side is one of the two servers that are compared. One goroutine uses it.
type side struct {
	host    string
	client  *http.Client
	objects map[string]*object
	marks   []string
	next    map[string]string
}

func newSide(host string, transport http.RoundTripper) *side {
	return &side{host: host, client: &http.Client{Transport: transport}, objects: map[string]*object{},
		marks: []string{"0"}, next: map[string]string{}}
}

var (
	types    = runtime.NewScheme()
	codecs   = serializer.NewCodecFactory(types)
	inBinary = protobuf.NewSerializer(types, types)
)

func init() {
	utilruntime.Must(clientscheme.AddToScheme(types))
	utilruntime.Must(metav1.AddMetaToScheme(types))
	metav1.AddToGroupVersion(types, schema.GroupVersion{Version: "v1"})
}

var placeholder = regexp.MustCompile(`@(uid|rv|old|mark|next):([^@]*)@`)

// fill replaces the placeholders of a text.
func (s *side) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		parts := placeholder.FindStringSubmatch(match)
		known := s.objects[parts[2]]
		if known == nil {
			known = &object{uid: "44444444-4444-4444-4444-444444444444", version: "2", older: "1"}
		}
		switch parts[1] {
		case "uid":
			return known.uid
		case "rv":
			return known.version
		case "old":
			return known.older
		case "mark":
			n, _ := strconv.Atoi(parts[2])
			return s.marks[min(n, len(s.marks)-1)]
		default:
			return s.next[parts[2]]
		}
	})
}

// start sends a request.
func (s *side) start(t *testing.T, r *request) *http.Response {
	t.Helper()
	query := url.Values{}
	for key, values := range r.query {
		for _, value := range values {
			query.Add(key, s.fill(value))
		}
	}
	body, contentType := []byte(s.fill(r.body)), r.contentType
	if r.base != "" {
		text := []byte("{}")
		if known := s.objects[r.base]; known != nil {
			text = known.text
		}
		merged, err := jsonpatch.MergePatch(text, body)
		if err != nil {
			t.Fatalf("merging %s into %s: %v", body, text, err)
		}
		body = merged
	}
	if contentType == protobufType {
		body, contentType = binary(body)
	}
	target := s.host + r.path + "?" + query.Encode()
	req, err := http.NewRequestWithContext(t.Context(), r.method, target, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", r.accept)
	req.Header.Set("User-Agent", "conformance")
	if len(body) > 0 {
		req.Header.Set("Content-Type", contentType)
	}
	response, err := s.client.Do(req)
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	return response
}

// binary encodes JSON with protobuf, if it is possible.
func binary(text []byte) (encoded []byte, contentType string) {
	decoded, _, err := codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return text, jsonType
	}
	var b bytes.Buffer
	if err := inBinary.Encode(decoded, &b); err != nil {
		return text, jsonType
	}
	return b.Bytes(), protobufType
}

// do sends a request and returns the answer.
func (s *side) do(t *testing.T, r *request) answer {
	t.Helper()
	response := s.start(t, r)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	a := answer{Code: response.StatusCode, Warnings: response.Header.Values("Warning")}
	a.Type, _, _ = mime.ParseMediaType(response.Header.Get("Content-Type"))
	text, err := readable(body, a.Type)
	if err != nil {
		t.Fatalf("%v: %v in %q", r, err, body)
	}
	if a.Code < 300 {
		s.learn(r, text)
	}
	a.Object = normal(t, text)
	if list, ok := a.Object.(map[string]any); ok && r.loose {
		metadata, _ := list["metadata"].(map[string]any)
		delete(metadata, "continue")
	}
	return a
}

// readable returns a body as JSON.
func readable(body []byte, contentType string) ([]byte, error) {
	switch contentType {
	case jsonType:
		return body, nil
	case protobufType:
		decoded, kind, err := inBinary.Decode(body, nil, nil)
		if err != nil {
			return nil, err
		}
		decoded.GetObjectKind().SetGroupVersionKind(*kind)
		return json.Marshal(decoded)
	default:
		return json.Marshal(string(body))
	}
}

// learn keeps what later requests refer to.
func (s *side) learn(r *request, text []byte) {
	var o struct {
		Kind     string
		Metadata struct{ Name, UID, ResourceVersion, Continue string }
	}
	if json.Unmarshal(text, &o) != nil {
		return
	}
	if r.method == http.MethodGet && !r.loose {
		s.next[r.path] = o.Metadata.Continue
	}
	if r.query.Has("dryRun") || o.Metadata.ResourceVersion == "" || o.Kind == "Table" {
		return
	}
	if o.Metadata.UID == "" || o.Kind == "PartialObjectMetadata" {
		return
	}
	if r.method != http.MethodGet && o.Metadata.ResourceVersion != s.marks[len(s.marks)-1] {
		s.marks = append(s.marks, o.Metadata.ResourceVersion)
	}
	path := strings.TrimSuffix(r.path, "/status")
	if r.method == http.MethodPost {
		path += "/" + o.Metadata.Name
	}
	known := s.objects[path]
	if known == nil {
		known = &object{older: "1"}
		s.objects[path] = known
	}
	if known.version != o.Metadata.ResourceVersion {
		known.older = known.version
	}
	known.uid, known.version, known.text = o.Metadata.UID, o.Metadata.ResourceVersion, text
}

var (
	uid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	version = regexp.MustCompile(`((?:ResourceVersion in [a-z ]+(?:: |\()|(?:current|resource version): ))\d+`)
	// whole is the object that some errors contain.
	whole = regexp.MustCompile(`"\{\\"apiVersion.*\}"`)
)

// normal returns a body without what differs from server to server: UIDs, resourceVersions, times
// that the server set, and the fields' managers.
func normal(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return normalValue("", value)
}

func normalValue(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "managedFields")
		delete(v, "retryAfterSeconds") // which only the real server's cache sets
		for key, inner := range v {
			v[key] = normalValue(key, inner)
		}
	case []any:
		for i := range v {
			v[i] = normalValue("", v[i])
		}
	case string:
		switch {
		case v == "":
		case key == "resourceVersion" || key == "continue" || strings.HasSuffix(key, "Timestamp") ||
			key == "lastTransitionTime" || key == "lastPhaseTransitionTime":
			return "set"
		case key == "message":
			v = whole.ReplaceAllString(v, "an object")
			return version.ReplaceAllString(uid.ReplaceAllString(v, "UID"), "${1}N")
		case key == "uid" && v[:8] != strings.Repeat(v[:1], 8):
			return "set"
		}
	}
	return value
}
