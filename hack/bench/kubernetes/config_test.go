// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// theCases returns the test cases of the module k8s.io/kubernetes.
func theCases(t *testing.T) []*testCase {
	t.Helper()
	dir, _, err := module(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cases, err := readCases(dir)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestAllWorkloadsOfKubernetesCanBePlanned also finds a release of Kubernetes that has an
// operation, a field or a configuration which this package does not know.
func TestAllWorkloadsOfKubernetesCanBePlanned(t *testing.T) {
	// These lack a parameter, also upstream. None of them has the label performance.
	incomplete := []string{"SchedulingWithResourceClaimTemplate/empty_100nodes",
		"SchedulingWithResourceClaimTemplate/empty_200nodes"}
	performance := 0
	used := map[string]bool{}
	for _, c := range theCases(t) {
		for _, o := range c.WorkloadTemplate {
			used[opcodeOf(o.op)] = true
		}
		for _, w := range c.Workloads {
			for _, within := range []limits{{}, {nodes: 100}, {pods: 100}, {nodes: 7, pods: 9}} {
				p, err := w.plan(within)
				if known := slices.Contains(incomplete, w.name()); (err != nil) != known {
					t.Errorf("%s within %v: %v", w.name(), within, err)
				}
				if err != nil {
					continue
				}
				if _, err := p.profile(); err != nil {
					t.Errorf("%s: %v", w.name(), err)
				}
				if within == (limits{}) && len(p.reduced) > 0 {
					t.Errorf("%s is reduced without a limit: %v", w.name(), p.reduced)
				}
			}
			if enabled("performance", w.labels()) {
				performance++
			}
		}
	}
	if performance < 100 {
		t.Errorf("%d workloads have the label performance", performance)
	}
	t.Logf("%d workloads have the label performance; the operations are %v", performance,
		slices.Sorted(maps.Keys(used)))
	for opcode := range used {
		if opcodes[opcode] == nil {
			t.Errorf("opcode %s is unknown", opcode)
		}
	}
}

func opcodeOf(o op) string {
	for opcode, create := range opcodes {
		if sameType(create(), o) {
			return opcode
		}
	}
	return ""
}

func TestAllTemplatesOfKubernetesCanBeRendered(t *testing.T) {
	for _, c := range theCases(t) {
		w := c.Workloads[len(c.Workloads)-1]
		p, err := w.plan(limits{})
		if err != nil {
			t.Fatal(err)
		}
		e := &executor{plan: p, templates: newTemplates(c.dir)}
		for i, o := range p.ops {
			if err := renderFirst(e, o); err != nil {
				t.Errorf("%s, operation %d: %v", w.name(), i, err)
			}
		}
	}
}

// renderFirst renders the first object of an operation.
func renderFirst(e *executor, o op) error {
	var into map[string]any
	switch o := o.(type) {
	case *createNodes:
		_, err := o.node(e, 0, 0)
		return err
	case *createPods:
		if _, err := o.volumes(e); err != nil {
			return err
		}
		_, err := o.pod(e, 0, max(o.Count, 1))
		return err
	case *createAny:
		return e.templates.render(o.TemplatePath, o.TemplateParams, 0, *o.Count, &into)
	case *updateAny:
		return e.templates.render(o.TemplatePath, nil, 0, *o.Count, &into)
	case *createPodGroups:
		return e.templates.render(o.TemplatePath, o.TemplateParams, 0, o.Count, &into)
	case *churn:
		for _, path := range o.TemplatePaths {
			if err := e.templates.plain(path, &into); err != nil {
				return err
			}
		}
	}
	return nil
}

// aCase is a configuration with one case.
const aCase = `
- name: Case
  featureGates: {A: true, B: true}
  labels: [integration-test]
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  - opcode: createPods
    countParam: $pods
    collectMetrics: true
  workloads:
  - name: small
    labels: [performance]
    featureGates: {B: false}
    threshold: {topic: 7}
    params: {nodes: 5, pods: 10}
`

func TestWhatIsUnknownIsAnErrorThatNamesTheCase(t *testing.T) {
	if _, err := parseCases([]byte(aCase)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, new, want string }{
		{"opcode: createNodes", "opcode: createMachines", `unknown opcode "createMachines"`},
		{"countParam: $nodes", "countParameter: $nodes", `opcode createNodes: json: unknown field "countParameter"`},
		{"labels: [performance]", "tags: [performance]", `unknown field "tags"`},
		{"threshold: {topic: 7}", "threshold: high", "a threshold is"},
		{"    collectMetrics: true\n", "", "no operation collects metrics"},
		{"collectMetrics: true", "collectMetrics: true\n    skipWaitToCompletion: true", "exclude each other"},
		{"- opcode: createNodes\n    countParam: $nodes", "- opcode: churn\n    mode: wild", `mode "wild"`},
		{"- opcode: createNodes\n    countParam: $nodes", "- opcode: barrier\n    stageRequirement: Done", `"Done"`},
		{"- opcode: createNodes\n    countParam: $nodes", "- opcode: createAny", "templatePath is empty"},
		{"- name: small\n    labels", "- labels", "a workload has no name"},
	} {
		_, err := parseCases([]byte(strings.Replace(aCase, test.old, test.new, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "case 0 (Case)") {
			t.Errorf("with %q: %v", test.new, err)
		}
	}
}

func TestWorkloadsOverrideTheirCase(t *testing.T) {
	cases, err := parseCases([]byte(aCase))
	if err != nil {
		t.Fatal(err)
	}
	w := cases[0].Workloads[0]
	if gates := w.gates(); !gates["A"] || gates["B"] || len(gates) != 2 {
		t.Errorf("gates %v", gates)
	}
	if w.throughputThreshold() != 0 {
		t.Errorf("the threshold %v is of another topic", w.throughputThreshold())
	}
	w.of.topic = "topic"
	if w.throughputThreshold() != 7 {
		t.Errorf("the threshold is %v", w.throughputThreshold())
	}
}

func TestLabelsSelectWorkloads(t *testing.T) {
	labels := []string{"performance", "short"}
	for filter, want := range map[string]bool{
		"": true, "performance": true, "+performance,short": true, "performance,-short": false, "-slow": true,
		"slow": false,
	} {
		if got := enabled(filter, labels); got != want {
			t.Errorf("%q: %v", filter, got)
		}
	}
}
