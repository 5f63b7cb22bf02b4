// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestReadingAnnotations(t *testing.T) {
	for name, test := range map[string]struct {
		required, preferred string
		want                Topology
		err                 string
	}{
		"none":     {},
		"required": {required: "example.com/rack", want: Topology{Required: "example.com/rack"}},
		"preferred": {preferred: "rack, block,topology.kubernetes.io/zone",
			want: Topology{Preferred: []string{"rack", "block", "topology.kubernetes.io/zone"}}},
		"both": {required: "block", preferred: "rack",
			want: Topology{Required: "block", Preferred: []string{"rack"}}},
		"no label": {required: "a rack",
			err: `annotation livesched.io/required-topology: "a rack" is not the key of a label`},
		"an empty one": {preferred: "rack,,block",
			err: `annotation livesched.io/preferred-topology: "" is not the key of a label`},
		"too many keys": {preferred: "a,b,c,d,e",
			err: "annotation livesched.io/preferred-topology: at most 4 keys are allowed"},
	} {
		got, err := topologyOf(map[string]string{AnnotationRequired: test.required,
			AnnotationPreferred: test.preferred})
		if test.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), test.err) {
				t.Errorf("%s: the error is %v, want %s", name, err, test.err)
			}
			continue
		}
		if err != nil || !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

// FuzzAnnotations reads annotations. What is accepted can be a selector.
func FuzzAnnotations(f *testing.F) {
	f.Add("rack", "rack,block")
	f.Add("", "a, b")
	f.Fuzz(func(t *testing.T, required, preferred string) {
		got, err := topologyOf(map[string]string{AnnotationRequired: required, AnnotationPreferred: preferred})
		if err != nil {
			return
		}
		for _, keys := range got.levels() {
			if _, has := valuesOf(&corev1.Node{}, keys); has && len(keys) > 0 {
				t.Errorf("a node without labels has %v", keys)
			}
			for _, key := range keys {
				pod := Domain{{Key: key, Value: "v"}}.Restrict(&corev1.Pod{})
				if _, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(&corev1.Node{}); err != nil {
					t.Errorf("%q: %v", key, err)
				}
			}
		}
	})
}

func TestRestrict(t *testing.T) {
	in := Domain{{"block", "b1"}, {"rack", "r1"}}
	term := func(key, value string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn,
				Values: []string{value}}}}
	}
	for name, terms := range map[string][]corev1.NodeSelectorTerm{
		"no affinity":   nil,
		"one term":      {term("disk", "ssd")},
		"two terms":     {term("disk", "ssd"), term("cpu", "arm")},
		"an empty term": {{}, term("cpu", "arm")},
		"only an empty": {{}},
	} {
		pod := &corev1.Pod{}
		if terms != nil {
			pod.Spec.Affinity = &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}},
				PodAffinity: &corev1.PodAffinity{},
			}
		}
		before := pod.DeepCopy()
		restricted := in.Restrict(pod)
		for _, labels := range []map[string]string{
			{}, {"rack": "r1"}, {"rack": "r1", "block": "b1"}, {"rack": "r2", "block": "b1", "disk": "ssd"},
			{"rack": "r1", "block": "b1", "disk": "ssd"}, {"rack": "r1", "block": "b1", "cpu": "arm"},
			{"rack": "r1", "block": "b2", "cpu": "arm"},
		} {
			node := &corev1.Node{}
			node.Labels = labels
			fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
			if err != nil {
				t.Fatal(err)
			}
			want := fits && labels["rack"] == "r1" && labels["block"] == "b1"
			if got, err := nodeaffinity.GetRequiredNodeAffinity(restricted).Match(node); got != want || err != nil {
				t.Errorf("%s: on %v it is %v, %v, want %v", name, labels, got, err, want)
			}
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Errorf("%s: the pod has changed:\n%s", name, diff)
		}
	}
	if pod := (&corev1.Pod{}); Domain(nil).Restrict(pod) != pod {
		t.Error("the whole cluster restricts a pod")
	}
}

func TestCandidates(t *testing.T) {
	var nodes []fwk.NodeInfo
	add := func(name, rack, block string, cpu int) {
		info := nodeWith(resources(cpu, 64, 0, 10))
		node := info.Node().DeepCopy()
		node.Name, node.Labels = name, map[string]string{}
		if rack != "" {
			node.Labels["rack"], node.Labels["block"] = rack, block
		}
		info.SetNode(node)
		nodes = append(nodes, info)
	}
	add("a1", "a", "x", 4)
	add("a2", "a", "x", 4)
	add("b1", "b", "x", 2)
	add("c1", "c", "y", 5)
	add("nowhere", "", "", 50)
	for name, test := range map[string]struct {
		topology Topology
		needed   int
		on       []string
		first    []string
		want     string
		most     int
	}{
		"none":                        {Topology{}, 3, nil, nil, "*", 0},
		"the most allocated first":    {Topology{Required: "rack"}, 3, nil, nil, "rack=c rack=a", 6},
		"one with room for all first": {Topology{Required: "rack"}, 2, nil, nil, "rack=c rack=a rack=b", 6},
		"no rack is large enough":     {Topology{Required: "rack"}, 9, nil, nil, "", 5},
		"where others are":            {Topology{Required: "rack"}, 2, []string{"b1"}, nil, "rack=b", 2},
		"others are in no rack":       {Topology{Required: "rack"}, 5, []string{"nowhere"}, nil, "rack=c rack=a", 6},
		"preferred": {Topology{Preferred: []string{"rack", "block"}}, 5, nil, nil,
			"rack=c rack=a block=y block=x *", 6},
		"a rack in a block": {Topology{Required: "block", Preferred: []string{"rack"}}, 5, nil, nil,
			"block=y,rack=c block=x,rack=a block=y block=x", 6},
		"where it is nominated": {Topology{Required: "rack"}, 2, nil, []string{"b1"},
			"rack=b rack=c rack=a", 6},
		"near others": {Topology{Preferred: []string{"rack"}}, 2, []string{"b1"}, nil,
			"rack=b *", 2},
		"required and preferred at once": {Topology{Required: "rack", Preferred: []string{"rack"}}, 5, nil, nil,
			"rack=c rack=a", 6},
	} {
		var pods []fwk.PodInfo
		for range 5 {
			pods = append(pods, podWith(t, resources(1, 1, 0, 0)))
		}
		domains, most := test.topology.Candidates(nodes, &Wanted{
			Demand: NewDemand(pods, everyResource, everyNode, cpuAndMemory), Needed: test.needed,
			On: sets.New(test.on...), First: sets.New(test.first...),
		})
		var got []string
		for _, domain := range domains {
			if len(domain) == 0 {
				got = append(got, "*")
				continue
			}
			got = append(got, domain.String())
		}
		if s := strings.Join(got, " "); s != test.want || s == "" && most != test.most {
			t.Errorf("%s: the candidates are %q with room for %d, want %q and %d", name, s, most, test.want, test.most)
		}
	}
}
