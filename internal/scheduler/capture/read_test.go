// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// compressed returns a file with a text.
func compressed(t testing.TB, text string) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	in := fullOfMarkers(t, 3)
	got, err := Read(compressed(t, plainText(t, in, false)), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Objects) != len(in.Objects)-1 || len(got.PodGroups) != 1 || len(got.Profiles) != 1 ||
		len(got.Policies) != 1 || len(got.Nominations) != 1 || got.Header.Format != Format {
		t.Errorf("got %d objects, %d PodGroups, %d profiles, %d policies, %d nominations", len(got.Objects),
			len(got.PodGroups), len(got.Profiles), len(got.Policies), len(got.Nominations))
	}
	pending := podfields.Keep(in.Pending[0])
	for what, diff := range map[string]string{
		"node":     cmp.Diff([]*corev1.Node{podfields.KeepNode(in.Nodes[0])}, got.Nodes, quantities),
		"pod":      cmp.Diff([]*corev1.Pod{podfields.Keep(in.Pods[0])}, got.Pods, quantities),
		"pending":  cmp.Diff([]*corev1.Pod{pending}, got.Pending, quantities),
		"decision": cmp.Diff([]Decision{*decisionOf(&in.Decisions[0])}, got.Decisions),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// quantities compares what quantities and times mean.
var quantities = cmp.Options{
	cmp.Comparer(func(a, b corev1.ResourceList) bool {
		for name, q := range a {
			if other := b[name]; q.Cmp(other) != 0 {
				return false
			}
		}
		return len(a) == len(b)
	}),
	cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) }),
}

const (
	header = `{"header":{"format":2}}` + "\n"
	older  = `{"header":{"format":1}}` + "\n"
	node   = `{"node":{"metadata":{"name":"n"}}}` + "\n"
	pod    = `{"pod":{"metadata":{"name":"p","uid":"u"}}}` + "\n"
	end    = `{"end":{"records":2}}` + "\n"
)

func TestReadRefusesWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":          {"", "not complete"},
		"no end":           {header + node, "not complete"},
		"a later format":   {`{"header":{"format":3,"livesched":"v9"}}`, "use kubectl livesched of version v9"},
		"no format":        {`{"header":{}}`, "has format 0"},
		"no header":        {node, "the file is not a snapshot: it does not begin with a header"},
		"two headers":      {header + header, "line 2: the header must be the first record"},
		"no JSON":          {header + "{\n" + end, "line 2: it is not a record"},
		"a record cut off": {header + `{"node":{"meta`, "the snapshot is not complete"},
		"another text":     {"no snapshot", "is not a snapshot: it does not begin with a header"},
		"an unknown kind":  {header + `{"secret":{}}`, "line 2: a record of an unknown kind"},
		"two kinds": {header + `{"node":{"metadata":{"name":"n"}},"pod":{}}`,
			"a record must have one field"},
		"a node twice":           {header + node + node, "line 3: the name of a node must be unique"},
		"a pod twice":            {header + pod + pod, "line 3: a pod must have a name, and a UID that no other has"},
		"a pod without a UID":    {header + `{"pod":{"metadata":{"name":"p"}}}`, "a pod must have a name, and a UID"},
		"an object without name": {header + `{"service":{}}`, "an object has no name"},
		"a group without name":   {header + `{"schedulerPluginsPodGroup":{}}`, "an object has no name"},
		"a wrong number":         {header + end, "should have 2 records"},
		"something after it":     {header + node + end + node, "line 4: there is something after the end"},
		"decisions out of order": {header + `{"decision":{"number":2}}` + "\n" + `{"decision":{"number":1}}`,
			"decision 1 is not in order"},
		"a time machine": {header + `{"decision":{"number":1,"changes":2}}` + "\n" +
			`{"decision":{"number":2,"changes":1}}`, "decision 2 is not in order"},
		"a long line": {header + `{"node":{"metadata":{"name":"` + strings.Repeat("n", 2000) + `"}}}`,
			"line 2: it is longer than 1000 bytes"},
		"many records": {header + node + pod + `{"service":{"metadata":{"name":"s"}}}` + "\n" + node,
			"more than 4 records"},
		"many bytes": {header + strings.Repeat(`{"nomination":{"pod":"`+strings.Repeat("p", 900)+`"}}`+"\n", 3),
			"more than 2000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(compressed(t, test.text), Limits{Bytes: 2000, Line: 1000, Records: 4})
			if name == "a long line" {
				_, err = Read(compressed(t, test.text), Limits{Bytes: 20000, Line: 1000, Records: 4})
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	for _, first := range []string{header, older} {
		if _, err := Read(compressed(t, first+node+end), DefaultLimits); err != nil {
			t.Errorf("a file without a fault, which begins with %s: %v", first, err)
		}
	}
	whole, err := io.ReadAll(compressed(t, header+node+end))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-5]++ // in the checksum
	for name, test := range map[string]struct{ file, want string }{
		"nothing":              {"", "is not a snapshot: it is empty"},
		"a text":               {"no snapshot", "is not a snapshot: it is neither gzip nor JSON"},
		"JSON":                 {`{"kind":"Pod"}`, "is not a snapshot: it does not begin with a header"},
		"JSON without its end": {header + node, "not complete"},
		"a part of gzip":       {string(whole[:len(whole)-9]), "not complete"},
		"the head of gzip":     {string(whole[:5]), "not complete"},
		"a wrong checksum":     {string(damaged), "damaged"},
	} {
		if _, err := Read(strings.NewReader(test.file), DefaultLimits); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	if snapshot, err := Read(strings.NewReader(header+node+end), DefaultLimits); err != nil ||
		len(snapshot.Nodes) != 1 {
		t.Errorf("a file that is not compressed: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for seed := range uint64(2) {
		in := fullOfMarkers(f, seed)
		f.Add(plainText(f, in, seed == 1))
	}
	f.Add(header + node + end)
	f.Add(older + node + end)
	f.Add(header + pod + `{"decision":{"number":1,"inDomain":true,"domain":[{"key":"rack","value":"r1"}]}}`)
	f.Add(header + `{"podGroup":{"metadata":{"name":"g"},"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}}}` + "\n" +
		`{"schedulerPluginsPodGroup":{"metadata":{"name":"g","annotations":{"livesched.io/preferred-topology":"rack,zone"}}}}` +
		"\n" + `{"end":{"records":3}}`)
	limits := Limits{Bytes: 1 << 20, Line: 1 << 18, Records: 1000}
	f.Fuzz(func(t *testing.T, text string) {
		snapshot, err := Read(compressed(t, text), limits)
		if err != nil {
			return
		}
		if format := snapshot.Header.Format; format < 1 || format > Format {
			t.Errorf("format %d was read", format)
		}
		for _, group := range snapshot.PodGroups {
			if g := group.Group(); g.Name == "" || g.MinMember < 1 || g.Timeout < 0 {
				t.Errorf("the group %+v was read", g)
			}
		}
		if n := len(snapshot.Nodes) + len(snapshot.PodGroups) + len(snapshot.Pods) + len(snapshot.Pending) +
			len(snapshot.Objects) + len(snapshot.Decisions); n > limits.Records {
			t.Errorf("%d records were read", n)
		}
	})
}

func FuzzReadCompressed(f *testing.F) {
	whole, err := io.ReadAll(compressed(f, header+node+end))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, err := Read(bytes.NewReader(file), Limits{Bytes: 1 << 16, Line: 1 << 12, Records: 100}); err == nil &&
			len(file) < 20 {
			t.Error("a snapshot of less than 20 bytes was read")
		}
	})
}
