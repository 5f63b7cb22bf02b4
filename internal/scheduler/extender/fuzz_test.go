// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// FuzzAnswer lets an extender send any response: the accepted ones keep to the nodes and pods of
// the request.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		``, `null`, `{}`, `[]`, `{"NodeNames": ["a", "a", "b"]}`, `{"NodeNames": null, "Nodes": {"items": [{}]}}`,
		`{"Nodes": {"items": null}, "Error": "x"}`,
		`{"FailedNodes": {"a": "b", "z": ""}, "FailedAndUnresolvableNodes": null}`,
		`[{"Host": "a", "Score": 9223372036854775807}, {}]`, `[null]`,
		`{"NodeNameToMetaVictims": {"a": null, "b": {"Pods": null}, "c": {"Pods": [null]}}}`,
		`{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "a1-uid"}], "NumPDBViolations": -1}}}`,
	} {
		f.Add(answer)
	}
	s := serve(f, "")
	plain := everything(s.URL)
	capable := plain
	capable.NodeCacheCapable = true
	lister, nodes := cluster()
	f.Fuzz(func(t *testing.T, answer string) {
		s.setAnswer(answer)
		for _, cfg := range []bool{false, true} {
			used := plain
			if cfg {
				used = capable
			}
			e := build(t, used)
			passed, _, _, err := e.Filter(pod("p"), nodes)
			if err != nil && len(passed) > 0 {
				t.Errorf("nodes pass in spite of %v", err)
			}
			seen := sets.New[string]()
			for _, node := range passed {
				if !slices.Contains(nodes, node) || seen.Has(node.Node().Name) {
					t.Errorf("node %s passes", node.Node().Name)
				}
				seen.Insert(node.Node().Name)
			}
			if scores, _, err := e.Prioritize(pod("p"), nodes); err == nil && scores == nil {
				t.Error("there are neither scores nor an error")
			}
			asked := candidates(nodes)
			left, err := e.ProcessPreemption(preemptor(), asked, lister)
			if err != nil && left != nil {
				t.Errorf("victims are left in spite of %v", err)
			}
			for name, victims := range left {
				if asked[name] == nil {
					t.Errorf("node %s is left", name)
				}
				if victims == nil {
					continue
				}
				for _, victim := range victims.Pods {
					if !slices.Contains(asked[name].Pods, victim) {
						t.Errorf("%s is a victim on %s", victim.Name, name)
					}
				}
			}
			_ = e.Bind(&corev1.Binding{}) // an error or none: it must not panic
		}
	})
}
