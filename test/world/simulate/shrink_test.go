// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestShrink(t *testing.T) {
	const whole = `{"Actors":{"kills":80,"nodes":40,"workloads":10},"Faults":{"busy":7,"lost":20},` +
		`"Name":"x","Nodes":7,"Replicas":3,"Rounds":20,"Seed":18446744073709551615}`
	entry := func(p plan, field, key string) int64 {
		n, _ := number(p[field].(map[string]any)[key])
		return n
	}
	field := func(p plan, name string) int64 {
		n, _ := number(p[name])
		return n
	}
	for name, c := range map[string]struct {
		fails func(plan) bool
		tries int
		want  string
	}{
		"whatever the plan is": {
			fails: func(plan) bool { return true }, tries: 100,
			want: `{"Actors":{},"Faults":{},"Name":"x","Nodes":1,"Replicas":1,"Rounds":1,"Seed":18446744073709551615}`,
		},
		"only as it was": {
			fails: func(plan) bool { return false }, tries: 100, want: whole,
		},
		"with an actor that acts often and a fault": {
			fails: func(p plan) bool {
				kills := entry(p, "Actors", "kills")
				return kills > 0 && kills <= 400 && entry(p, "Faults", "lost") >= 3 && field(p, "Replicas") >= 2
			}, tries: 200,
			want: `{"Actors":{"kills":320},"Faults":{"lost":5},"Name":"x","Nodes":1,"Replicas":2,"Rounds":1,` +
				`"Seed":18446744073709551615}`,
		},
		"with many nodes, in time": {
			fails: func(p plan) bool { return field(p, "Nodes") >= 5 && field(p, "Rounds") >= 3 }, tries: 200,
			want: `{"Actors":{},"Faults":{},"Name":"x","Nodes":5,"Replicas":1,"Rounds":3,"Seed":18446744073709551615}`,
		},
		"a few tries": {
			fails: func(plan) bool { return true }, tries: 2,
			want: `{"Actors":{},"Faults":{},"Name":"x","Nodes":7,"Replicas":3,"Rounds":20,"Seed":18446744073709551615}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, some := range []int{1, 3} {
				p, err := parsePlan([]byte(whole))
				if err != nil {
					t.Fatal(err)
				}
				tried := 0
				smallest := shrink(p, c.tries, some, func(plans []plan) (failed []bool) {
					for _, p := range plans {
						tried++
						failed = append(failed, c.fails(p))
					}
					return failed
				})
				if tried > c.tries {
					t.Errorf("%d tries, more than %d", tried, c.tries)
				}
				if got := smallest.String(); got != c.want && (some == 1 || c.tries > 2) {
					t.Errorf("%d at a time: %s, not %s", some, got, c.want)
				}
				if p.String() != whole {
					t.Errorf("the plan itself has changed: %v", p)
				}
			}
		})
	}
}
