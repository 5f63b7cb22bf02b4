// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package args_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
)

type example struct {
	Labels []string `json:"labels"`
}

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		object runtime.Object
		err    string
		labels int
	}{
		"nothing leaves the defaults":         {object: nil, labels: 1},
		"an empty object leaves the defaults": {object: &runtime.Unknown{Raw: []byte(`{}`)}, labels: 1},
		"no text leaves the defaults":         {object: &runtime.Unknown{}, labels: 1},
		"fields are read": {object: &runtime.Unknown{Raw: []byte(`{"labels": ["a", "b"]}`),
			ContentType: runtime.ContentTypeJSON}, labels: 2},
		"an unknown field is named": {object: &runtime.Unknown{Raw: []byte(`{"label": []}`)},
			err: `unknown field "label"`},
		"a field of another case is named": {object: &runtime.Unknown{Raw: []byte(`{"Labels": []}`)},
			err: `unknown field "Labels"`},
		"a field that is given twice is named": {
			object: &runtime.Unknown{Raw: []byte(`{"labels": [], "labels": []}`)}, err: `duplicate field "labels"`},
		"a field of another type is named": {object: &runtime.Unknown{Raw: []byte(`{"labels": 1}`)},
			err: "labels"},
		"something that is not JSON is an error": {object: &runtime.Unknown{Raw: []byte(`labels: []`)},
			err: "decoding the arguments"},
		"another format is named": {object: &runtime.Unknown{Raw: []byte(`{}`), ContentType: runtime.ContentTypeYAML},
			err: runtime.ContentTypeYAML},
		"another object is named": {object: &corev1.Pod{}, err: "*v1.Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			into := example{Labels: []string{"default"}}
			err := args.Decode(c.object, &into)
			switch {
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got error %v, want one with %q", err, c.err)
			case c.err == "" && len(into.Labels) != c.labels:
				t.Errorf("got labels %q, want %d", into.Labels, c.labels)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"labels": ["a"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var into example
		_ = args.Decode(&runtime.Unknown{Raw: raw}, &into)
	})
}
