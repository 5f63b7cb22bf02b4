// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"reflect"
	"strings"
	"testing"
)

func sameType(a, b any) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

// workloadOf returns a workload with operations in YAML and with parameters. It collects metrics.
func workloadOf(t *testing.T, operations string, params map[string]any) *workload {
	t.Helper()
	text := "- name: Case\n  workloads: [{name: w}]\n  workloadTemplate:\n" + operations +
		"  - opcode: startCollectingMetrics\n    namespaces: [a]\n  - opcode: stopCollectingMetrics\n"
	cases, err := parseCases([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w := cases[0].Workloads[0]
	w.Params = params
	return w
}

func TestParametersBecomeCounts(t *testing.T) {
	w := workloadOf(t, `
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, countParam: $groups, countMultiplierParam: $size, steadyStateParam: $steady, durationParam: $time}
  - opcode: createPodSets
    countParam: $sets
    namespacePrefix: ns
    createPodsOp: {opcode: createPods, count: 3}
  - opcode: createAny
    templatePath: x
    templateParams: {a: $nodes, b: $none|7, c: plain, d: "$none|"}
`, map[string]any{"nodes": 5.0, "groups": 2.0, "size": 4.0, "sets": 2.0, "steady": true, "time": "3s"})
	p, err := w.plan(limits{})
	if err != nil {
		t.Fatal(err)
	}
	if n := p.ops[0].(*createNodes).Count; n != 5 {
		t.Errorf("%d nodes", n)
	}
	if o := p.ops[1].(*createPods); o.Count != 8 || !o.SteadyState || o.Duration.Seconds() != 3 ||
		o.SignatureBatchSize != 1 {
		t.Errorf("pods %+v", o)
	}
	for i, name := range []string{"ns-0", "ns-1"} {
		if o := p.ops[2+i].(*createPods); o.Count != 3 || *o.Namespace != name {
			t.Errorf("set %+v", o)
		}
	}
	o := p.ops[4].(*createAny)
	if want := (map[string]any{"a": 5.0, "b": 7.0, "c": "plain", "d": nil}); *o.Count != 1 ||
		!reflect.DeepEqual(o.TemplateParams, want) {
		t.Errorf("%d with %v", *o.Count, o.TemplateParams)
	}
	if p.size() != 5+8+6 {
		t.Errorf("size %d", p.size())
	}
}

func TestWrongParametersAreErrors(t *testing.T) {
	nodes := "  - {opcode: createNodes, countParam: $nodes}\n"
	for want, w := range map[string]*workload{
		"parameter nodes is undefined":     workloadOf(t, nodes, nil),
		"has the wrong type":               workloadOf(t, nodes, map[string]any{"nodes": "many"}),
		"is negative":                      workloadOf(t, nodes, map[string]any{"nodes": -1.0}),
		"no operation uses the parameters": workloadOf(t, nodes, map[string]any{"nodes": 1.0, "typo": 1.0}),
		"is not a reference": workloadOf(t, "  - {opcode: createNodes, countParam: nodes}\n",
			map[string]any{"nodes": 1.0}),
		"a steady state needs a duration": workloadOf(t, "  - {opcode: createPods, steadyState: true}\n", nil),
		"parameter x is undefined": workloadOf(t, "  - {opcode: createAny, templatePath: p, templateParams: {x: $x}}\n",
			nil),
	} {
		if _, err := w.plan(limits{}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "Case/w") {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestAllCountsAreDividedByOneNumber(t *testing.T) {
	const (
		plain = `
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createNodes, count: 1}
  - {opcode: createPods, countParam: $init}
  - {opcode: createPods, countParam: $pods, signatureBatchSizeParam: $batch}
`
		groups = `
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPodGroups, countParam: $groups, namespace: a, templatePath: g, templateParams: {size: $size}}
  - {opcode: createPods, countParam: $groups, countMultiplierParam: $size}
`
	)
	for _, test := range []struct {
		name, operations string
		params           map[string]any
		within           limits
		want             map[string]any
	}{
		{"nodes", plain, map[string]any{"nodes": 5000.0, "init": 1000.0, "pods": 10000.0, "batch": 100.0},
			limits{nodes: 1000}, map[string]any{"nodes": 1000.0, "init": 200.0, "pods": 2000.0, "batch": 100.0}},
		{"pods", plain, map[string]any{"nodes": 5000.0, "init": 1000.0, "pods": 10000.0, "batch": 100.0},
			limits{nodes: 5000, pods: 1000},
			map[string]any{"nodes": 500.0, "init": 100.0, "pods": 1000.0, "batch": 100.0}},
		{"nodes up and pods down", plain, map[string]any{"nodes": 100.0, "init": 99.0, "pods": 100.0, "batch": 1.0},
			limits{nodes: 34}, map[string]any{"nodes": 34.0, "init": 33.0, "pods": 33.0, "batch": 1.0}},
		{"never to nothing", plain, map[string]any{"nodes": 100.0, "init": 3.0, "pods": 0.0, "batch": 1.0},
			limits{nodes: 10}, map[string]any{"nodes": 10.0, "init": 1.0, "pods": 0.0, "batch": 1.0}},
		{"many groups", groups, map[string]any{"nodes": 100.0, "groups": 1000.0, "size": 3.0},
			limits{nodes: 20}, map[string]any{"nodes": 20.0, "groups": 200.0, "size": 3.0}},
		{"few groups", groups, map[string]any{"nodes": 100.0, "groups": 1.0, "size": 100.0},
			limits{nodes: 20}, map[string]any{"nodes": 20.0, "groups": 1.0, "size": 20.0}},
		{"groups that do not divide", groups, map[string]any{"nodes": 100.0, "groups": 6.0, "size": 1000.0},
			limits{nodes: 20}, map[string]any{"nodes": 20.0, "groups": 6.0, "size": 200.0}},
		{"pods of all groups", groups, map[string]any{"nodes": 100.0, "groups": 10.0, "size": 100.0},
			limits{pods: 500}, map[string]any{"nodes": 50.0, "groups": 5.0, "size": 100.0}},
	} {
		w := workloadOf(t, test.operations, test.params)
		got, reduced, err := w.reduce(test.within)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		}
		changed := 0
		for name := range got {
			if got[name] != test.params[name] {
				changed++
			}
		}
		if len(reduced) != changed {
			t.Errorf("%s: reported %v", test.name, reduced)
		}
	}
	w := workloadOf(t, plain, map[string]any{"nodes": 10.0, "init": 1.0, "pods": 20.0, "batch": 1.0})
	if _, reduced, _ := w.reduce(limits{nodes: 5}); len(reduced) != 2 || reduced[0] != "nodes 5 instead of 10" {
		t.Errorf("reported %v", reduced)
	}
}

func TestFunctionsOfTemplates(t *testing.T) {
	for _, test := range []struct {
		name string
		args []any
		want any
	}{
		{"AddInt", []any{1, 2.5, "3"}, 6},
		{"AddFloat", []any{1, 2.5}, 3.5},
		{"SubtractInt", []any{5, 3.5}, 1},
		{"MultiplyInt", []any{2, 3, 4}, 24},
		{"DivideInt", []any{7, 2}, 3},
		{"DivideFloat", []any{7, 2}, 3.5},
		{"Mod", []any{7, 3.0}, 1},
		{"Int", []any{"4"}, 4},
		{"JSON", []any{map[string]any{"a": "<"}}, `{"a":"<"}`},
	} {
		args := make([]reflect.Value, len(test.args))
		for i, arg := range test.args {
			args[i] = reflect.ValueOf(arg)
		}
		out := reflect.ValueOf(functions[test.name]).Call(args)
		if !out[1].IsNil() || out[0].Interface() != test.want {
			t.Errorf("%s%v is %v, %v; want %v", test.name, test.args, out[0], out[1], test.want)
		}
	}
	for _, name := range []string{"DivideInt", "Mod", "SubtractInt"} {
		out := reflect.ValueOf(functions[name]).Call([]reflect.Value{reflect.ValueOf("1"), reflect.ValueOf("x")})
		if out[1].IsNil() {
			t.Errorf("%s takes a text for a number", name)
		}
	}
	for _, name := range []string{"DivideInt", "Mod"} {
		out := reflect.ValueOf(functions[name]).Call([]reflect.Value{reflect.ValueOf(1), reflect.ValueOf(0)})
		if out[1].IsNil() {
			t.Errorf("%s divides by zero", name)
		}
	}
}
