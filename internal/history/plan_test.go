// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// ran returns a profile's revision: its number, generation, hash and spec, and the policy that it
// was built on, if any.
func ran(t *testing.T, number, generation int64, hash, spec string, on *Policy) Revision {
	t.Helper()
	return Revision{
		Name: fmt.Sprintf("r%d", number), Number: number, Kind: KindProfile, ObjectName: "mine", UID: "u",
		Generation: generation, Hash: hash, Profile: profileSpec(t, spec), Policy: on,
	}
}

func TestAPlanStoresTheWantedRevision(t *testing.T) {
	const a, b, c = `percentageOfNodesToScore: 1`, `percentageOfNodesToScore: 2`, `percentageOfNodesToScore: 3`
	shared := func(uid types.UID, generation int64, spec string) *Policy {
		return &Policy{Name: "shared", UID: uid, Generation: generation, Spec: policySpec(t, spec)}
	}
	three := []Revision{ran(t, 1, 1, "ha", a, nil), ran(t, 2, 2, "hb", b, nil), ran(t, 3, 3, "hc", c, nil)}
	onPolicy := []Revision{ran(t, 1, 1, "ha", a, shared("p", 1, `parallelism: 1`)),
		ran(t, 2, 1, "hb", a, shared("p", 2, `parallelism: 2`))}
	for _, test := range []struct {
		name    string
		have    []Revision
		want    Revision
		kept    bool // a last good spec stays active
		planned string
	}{
		{"the first", nil, ran(t, 0, 1, "ha", a, nil), false, "create 1 of generation 1"},
		{"a new one", three, ran(t, 0, 4, "hd", `percentageOfNodesToScore: 4`, nil), false, "create 4 of generation 4"},
		{"the newest again, as after a restart", three, ran(t, 0, 3, "hc", c, nil), false, "nothing"},
		{"another generation of the newest", three, ran(t, 0, 4, "hc", c, nil), false,
			"update r3 to 3 of generation 4"},
		{"defaults written out", three, ran(t, 0, 4, "hc", c+"\nschedulerName: mine\npolicyRef: {name: default}", nil),
			false, "update r3 to 3 of generation 4"},
		{"another spelling of the newest", three,
			ran(t, 0, 4, "hc", c+"\npluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 1}}]", nil),
			false, "update r3 to 3 of generation 4"},
		{"the newest as a later livesched hashes it", three, ran(t, 0, 3, "changed", c, nil), false,
			"update r3 to 3 of generation 3"},
		{"another limit", three, ran(t, 0, 4, "hc", c+"\nrevisionHistoryLimit: 50", nil), false,
			"update r3 to 3 of generation 4"},
		{"an older one again", three, ran(t, 0, 4, "ha", a, nil), false,
			"update r1 to 4 of generation 4, again 1 of generation 1"},
		{"a last good one stays active", three, ran(t, 0, 3, "hc", c, nil), true, "nothing"},
		{"an older last good one stays active, since the newest cannot run", three, ran(t, 0, 1, "ha", a, nil), true,
			"nothing"},
		{"an older last good one stays active, since it was active again before the current one came", three,
			ran(t, 0, 4, "ha", a, nil), true, "update r1 to 4 of generation 4, again 1 of generation 1"},
		{"the same because the policy has gone back", onPolicy, ran(t, 0, 1, "ha", a, shared("p", 3, `parallelism: 1`)),
			true, "update r1 to 3 of generation 1 on 3, again 1 of generation 1 on 1"},
		{"an older last good one stays active, since the present policy cannot be used", onPolicy,
			ran(t, 0, 1, "ha", a, shared("p", 1, `parallelism: 1`)), true, "nothing"},
		{"an older last good one stays active, and counted more generations before etcd was restored",
			[]Revision{ran(t, 1, 9, "ha", a, nil), ran(t, 2, 5, "hb", b, nil)}, ran(t, 0, 9, "ha", a, nil), true, "nothing"},
		{"a last good one that was never stored", three, ran(t, 0, 4, "hd", `percentageOfNodesToScore: 4`, nil), true,
			"create 4 of generation 4"},
		{"the policy has changed", onPolicy, ran(t, 0, 1, "hc", a, shared("p", 3, `parallelism: 3`)), false,
			"create 3 of generation 1"},
		{"the policy has gone back", onPolicy, ran(t, 0, 1, "ha", a, shared("p", 3, `parallelism: 1`)), false,
			"update r1 to 3 of generation 1 on 3, again 1 of generation 1 on 1"},
		{"the policy was created again as it was", onPolicy, ran(t, 0, 1, "hb", a, shared("q", 1, `parallelism: 2`)),
			false, "update r2 to 2 of generation 1 on 1"},
		{"the defaults of a policy written out", onPolicy,
			ran(t, 0, 1, "hb", a,
				shared("p", 3, `{parallelism: 2, podMaxBackoff: 10s, queueSort: {name: PrioritySort}}`)), false,
			"update r2 to 2 of generation 1 on 3"},
		{"the policy has gone, and the defaults do the same", onPolicy, ran(t, 0, 1, "hb", a, nil), false,
			"create 3 of generation 1"},
		{"a policy of another name that does the same", onPolicy,
			ran(t, 0, 2, "hb", a,
				&Policy{Name: "other", UID: "o", Generation: 1, Spec: policySpec(t, `parallelism: 2`)}), false,
			"create 3 of generation 2 on 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := plan(test.have, &test.want, !test.kept)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(test.planned, "create 3 of generation 1") && test.want.Policy != nil {
				test.planned += " on 3"
			}
			if text := describe(got); text != test.planned {
				t.Errorf("planned: %s\nwant:    %s", text, test.planned)
			}
		})
	}
}

func TestTheOldestRevisionsAreBeyondTheLimit(t *testing.T) {
	have := []Revision{{Number: 1}, {Number: 2}, {Number: 3}}
	for limit, want := range map[int]string{1: "[1]", 2: "[]", 3: "[]", 100: "[]"} {
		if got := numbers(beyond(have, limit)); got != want {
			t.Errorf("beyond %d: %s, want %s", limit, got, want)
		}
	}
	if got := beyond(nil, 1); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}

// describe formats a change.
func describe(c change) string {
	show := func(r *Revision) string {
		text := fmt.Sprintf("%d of generation %d", r.Number, r.Generation)
		if r.Policy != nil {
			text += fmt.Sprintf(" on %d", r.Policy.Generation)
		}
		return text
	}
	var parts []string
	if c.create != nil {
		parts = append(parts, "create "+show(c.create))
	}
	if c.update != nil {
		parts = append(parts, "update "+c.update.Name+" to "+show(c.update))
	}
	if c.again != nil {
		parts = append(parts, "again "+show(c.again))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func TestTheDefaultsAreThoseOfTheSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases",
		"livesched.io_schedulingpolicies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	var fields []string
	for name, property := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
		if property.Default != nil {
			fields = append(fields, fmt.Sprintf("%s: %s", name, property.Default.Raw))
		}
	}
	written, unset := policySpec(t, strings.Join(fields, "\n")), policySpec(t, ``)
	a, errA := Hash(&written)
	b, errB := Hash(&unset)
	if a != b || errA != nil || errB != nil || len(fields) < 6 {
		t.Errorf("%s and %s, %v, %v, of %v", a, b, errA, errB, fields)
	}
}

func TestTheHashOfAPolicyDependsOnItsContentOnly(t *testing.T) {
	hashOf := func(text string) string {
		spec := policySpec(t, text)
		hash, err := Hash(&spec)
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	plain := hashOf(``)
	for _, same := range []string{`algorithmSource: {provider: DefaultProvider}`, `queueSort: {name: PrioritySort}`,
		`revisionHistoryLimit: 3`, `podMaxBackoff: 10000ms`} {
		if hashOf(same) != plain {
			t.Errorf("%s is another", same)
		}
	}
	for _, other := range []string{`algorithmSource: {provider: ClusterAutoscalerProvider}`,
		`queueSort: {name: PrioritySort, args: {a: 1}}`, `podMaxBackoff: 11s`, `parallelism: 1`} {
		if hashOf(other) == plain {
			t.Errorf("%s is the same", other)
		}
	}
	if hashOf(`queueSort: {name: Q, args: {a: 1, b: 2}}`) != hashOf(`queueSort: {name: Q, args: {b: 2, a: 1}}`) {
		t.Error("the order of fields is a change")
	}
	if hashOf(`queueSort: {name: Q, args: {a: 9007199254740993}}`) ==
		hashOf(`queueSort: {name: Q, args: {a: 9007199254740992}}`) {
		t.Error("numbers are rounded")
	}
}
