// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/timing"
)

func TestFilter(t *testing.T) {
	_, nodes := cluster()
	for _, test := range []struct {
		name     string
		capable  bool
		answer   string
		passed   string
		refusals string
		err      string
	}{
		{"keeps the nodes whose names are returned, in their order", true,
			`{"NodeNames": ["c", "a"], "FailedNodes": {"b": "no"}}`, "c a", `{"b":"no"} null`, ""},
		{"keeps the nodes that are returned", false, `{"Nodes": {"items": [{"metadata": {"name": "b"}}]}, ` +
			`"FailedNodes": {"a": "no"}, "FailedAndUnresolvableNodes": {"c": "never"}}`, "b",
			`{"a":"no"} {"c":"never"}`, ""},
		{"accepts nodes if it requested names", true, `{"Nodes": {"items": [{"metadata": {"name": "b"}}]}}`, "b",
			"null null", ""},
		{"keeps no node if none is returned", false, `{}`, "", "null null", ""},
		{"keeps no node if null is returned", true, `null`, "", "null null", ""},
		{"does not accept names if it sent nodes", false, `{"NodeNames": ["a"]}`, "", "null null", ""},
		{"accepts a node once", true, `{"NodeNames": ["a", "b", "a"]}`, "a b", "null null", ""},
		{"accepts no name that it did not send", true, `{"NodeNames": ["a", "z"]}`, "", "null null",
			`the answer has a node that it was not asked about`},
		{"accepts no node that it did not send", false, `{"Nodes": {"items": [{"metadata": {"name": ""}}]}}`, "",
			"null null", `the answer has a node that it was not asked about`},
		{"returns the error of the extender", true, `{"NodeNames": ["a"], "Error": "out of order"}`, "", "null null",
			"the extender reports an error, which livesched's log has"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.answer)
			cfg := everything(s.URL)
			cfg.NodeCacheCapable = test.capable
			passed, failed, unresolvable, err := build(t, cfg).Filter(pod("p"), nodes)
			if test.err != "" {
				expectError(t, err, `extender "`+s.URL+`", filter: `+test.err)
			} else if err != nil {
				t.Fatal(err)
			}
			if got := nodeNames(passed); got != test.passed {
				t.Errorf("passed %q, want %q", got, test.passed)
			}
			if got := text(t, failed) + " " + text(t, unresolvable); got != test.refusals {
				t.Errorf("refusals %s, want %s", got, test.refusals)
			}
		})
	}
	t.Run("continues with the nodes that were passed in, including their pods", func(t *testing.T) {
		s := serve(t, `{"Nodes": {"items": [{"metadata": {"name": "b"}, "spec": {"unschedulable": true}}]}}`)
		passed, _, _, err := build(t, everything(s.URL)).Filter(pod("p"), nodes)
		if err != nil || len(passed) != 1 || passed[0] != nodes[1] {
			t.Errorf("got %v, %v", passed, err)
		}
	})
}

func TestPrioritizeReturnsScoresAndWeight(t *testing.T) {
	_, nodes := cluster()
	s := serve(t, `[{"Host": "a", "Score": 7}, {"Host": "nowhere", "Score": -1}, {"Host": "a", "Score": 1}, null]`)
	scores, weight, err := build(t, everything(s.URL)).Prioritize(pod("p"), nodes)
	if err != nil || text(t, scores) != `[{"Host":"a","Score":8}]` || weight != 3 {
		t.Errorf("got %v, weight %d, %v", scores, weight, err)
	}
}

func TestProcessPreemption(t *testing.T) {
	lister, nodes := cluster()
	for _, test := range []struct {
		name, answer, victims, err string
	}{
		{"returns fewer nodes and fewer victims", `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "a2-uid"}], ` +
			`"NumPDBViolations": 5}, "b": {"Pods": [{"UID": "b1-uid"}, {"UID": "b2-uid"}]}}}`,
			"a:a2(5) b:b1,b2(0)", ""},
		{"returns no node if none is returned", `{}`, "", ""},
		{"lets the caller interpret a missing list of victims", `{"NodeNameToMetaVictims": {"a": null, "b": {}}}`,
			"a:none b:(0)", ""},
		{"accepts no node that it did not send", `{"NodeNameToMetaVictims": {"z": {"Pods": [{"UID": "a2-uid"}]}}}`, "",
			`the answer has a node that it was not asked about`},
		{"accepts no victim that is not on the node", `{"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": "a1-uid"}]}}}`,
			"", `the answer has a victim on node "b" that is not there`},
		{"accepts no victim without a name", `{"NodeNameToMetaVictims": {"b": {"Pods": [null]}}}`, "",
			`the answer has a victim on node "b" that is not there`},
	} {
		for _, capable := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				s := serve(t, test.answer)
				cfg := everything(s.URL)
				cfg.NodeCacheCapable = capable
				victims, err := build(t, cfg).ProcessPreemption(preemptor(), candidates(nodes), lister)
				if test.err != "" {
					expectError(t, err, `extender "`+s.URL+`", preempt: `+test.err)
				} else if err != nil {
					t.Fatal(err)
				}
				if got := victimNames(victims); got != test.victims {
					t.Errorf("got %q, want %q", got, test.victims)
				}
			})
		}
	}
}

func TestBind(t *testing.T) {
	s := serve(t, `{}`)
	e := build(t, everything(s.URL+"/prefix//"))
	binding := &corev1.Binding{ObjectMeta: pod("p").ObjectMeta, Target: corev1.ObjectReference{Kind: "Node", Name: "a"}}
	if err := e.Bind(binding); err != nil {
		t.Fatal(err)
	}
	paths, bodies := s.sent()
	if paths[0] != "/prefix/bind" ||
		bodies[0] != `{"PodName":"p","PodNamespace":"default","PodUID":"p-uid","Node":"a"}` {
		t.Errorf("sent %v to %v", bodies, paths)
	}
	s.setAnswer(`{"Error": "no room"}`)
	expectError(t, e.Bind(binding), `extender "`+s.URL+
		`/prefix//", bind: the extender reports an error, which livesched's log has`)
}

func TestUnsetVerbIsNotCalled(t *testing.T) {
	lister, nodes := cluster()
	e := build(t, resolve.Extender{URLPrefix: "http://127.0.0.1:1"})
	if e.IsFilter() || e.IsPrioritizer() || e.IsBinder() || e.SupportsPreemption() || e.IsIgnorable() {
		t.Error("it has verbs")
	}
	if passed, _, _, err := e.Filter(pod("p"), nodes); err != nil || nodeNames(passed) != "a b c" {
		t.Errorf("got %v, %v", passed, err)
	}
	if scores, weight, err := e.Prioritize(pod("p"), nodes); err != nil || len(*scores) != 0 || weight != 0 {
		t.Errorf("got %v, %d, %v", scores, weight, err)
	}
	expectError(t, e.Bind(&corev1.Binding{}), "no bindVerb")
	_, err := e.ProcessPreemption(preemptor(), nil, lister)
	expectError(t, err, "no preemptVerb")
	full := build(t, everything("http://127.0.0.1:1"))
	if !full.IsFilter() || !full.IsPrioritizer() || !full.IsBinder() || !full.SupportsPreemption() {
		t.Error("it has not all verbs")
	}
}

func TestAnExtenderIsInterested(t *testing.T) {
	asking := func(change func(*corev1.PodSpec, corev1.ResourceRequirements),
		resources corev1.ResourceRequirements) *corev1.Pod {
		p := pod("p")
		change(&p.Spec, resources)
		return p
	}
	list := func(name corev1.ResourceName) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse("1"), name: resource.MustParse("1")}
	}
	container := func(s *corev1.PodSpec, r corev1.ResourceRequirements) {
		s.Containers = []corev1.Container{{}, {Resources: r}}
	}
	initContainer := func(s *corev1.PodSpec, r corev1.ResourceRequirements) {
		s.InitContainers = []corev1.Container{{Resources: r}}
	}
	for _, test := range []struct {
		name    string
		managed []string
		pod     *corev1.Pod
		want    bool
	}{
		{"in every pod if it manages no resource", nil, pod("p"), true},
		{"in no pod without requests", []string{"a.b/c"}, pod("p"), false},
		{"in a request", []string{"a.b/c", "a.b/d"},
			asking(container, corev1.ResourceRequirements{Requests: list("a.b/d")}), true},
		{"in a limit", []string{"a.b/c"}, asking(container, corev1.ResourceRequirements{Limits: list("a.b/c")}), true},
		{"in a request of an init container", []string{"a.b/c"},
			asking(initContainer, corev1.ResourceRequirements{Requests: list("a.b/c")}), true},
		{"in no other resource", []string{"a.b/c"},
			asking(container, corev1.ResourceRequirements{Requests: list("a.b/d"), Limits: list("a.b/d")}), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := build(t, resolve.Extender{URLPrefix: "http://a", ManagedResources: test.managed}).
				IsInterested(test.pod); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTheNameIsTheURLWithoutItsPassword(t *testing.T) {
	s := serve(t, `{"Error": "x"}`)
	url := "http://user:sesame@" + s.Listener.Addr().String()
	e := build(t, everything(url))
	_, nodes := cluster()
	_, _, _, err := e.Filter(pod("p"), nodes)
	if want := "http://user:xxxxx@" + s.Listener.Addr().String(); e.Name() != want {
		t.Errorf("got %q", e.Name())
	} else {
		expectError(t, err, want)
	}
	if _, err := extender.New(&resolve.Extender{URLPrefix: "http://user:sesame@["}, extender.Policy{},
		extender.NewBreakers(nil), nil); err == nil || err.Error() != "the URL of an extender cannot be parsed" {
		t.Errorf("got %v", err)
	}
}

func TestASchedulingCycleLearnsHowLongCallsTake(t *testing.T) {
	e := build(t, everything(serve(t, `{"NodeNames": ["a"]}`).URL))
	_, nodes := cluster()
	var cycle timing.Cycle
	bound := extender.Bound(cycle.Attach(t.Context()), []*extender.Extender{e})
	_, _, _, _ = bound[0].Filter(pod("p"), nodes)
	want := timing.Part{Step: timing.Extender, Extender: e.Name(), Verb: "filter"}
	if part, took := cycle.Longest(); part != want || took <= 0 {
		t.Errorf("%+v took %v, want %+v", part, took, want)
	}
}

func TestBoundExtendersEndWithTheirContext(t *testing.T) {
	s := serve(t, `{"NodeNames": ["a"]}`)
	cfg := everything(s.URL)
	cfg.NodeCacheCapable = true
	e := build(t, cfg)
	_, nodes := cluster()
	ctx, cancel := context.WithCancel(t.Context())
	bound := extender.Bound(ctx, []*extender.Extender{e})
	if _, _, _, err := bound[0].Filter(pod("p"), nodes); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, _, _, err := bound[0].Filter(pod("p"), nodes)
	expectError(t, err, "context canceled")
	if _, _, _, err := e.Filter(pod("p"), nodes); err != nil {
		t.Errorf("others end, too: %v", err)
	}
	if extender.Bound(ctx, nil) != nil {
		t.Error("there are extenders where there are none")
	}
}
