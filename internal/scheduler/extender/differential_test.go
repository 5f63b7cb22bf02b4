// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"encoding/json"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// outcome is the result of a call for its caller, and the request that the extender received.
type outcome struct {
	Result string
	Failed bool
	Paths  []string
	Bodies []string
}

// Any response of an extender that keeps to the nodes and pods of the request is interpreted as by
// kube-scheduler's own client, and both send the same requests.
func TestRandomResponsesAreReadAsInKubeScheduler(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	lister, nodes := cluster()
	s := serve(t, "")
	for _, capable := range []bool{false, true} {
		cfg := everything(s.URL + "/prefix/")
		cfg.NodeCacheCapable = capable
		upstream, err := scheduler.NewHTTPExtender(&schedconfig.Extender{
			URLPrefix: cfg.URLPrefix, FilterVerb: cfg.FilterVerb, PrioritizeVerb: cfg.PrioritizeVerb,
			PreemptVerb: cfg.PreemptVerb, BindVerb: cfg.BindVerb,
			Weight: cfg.Weight, HTTPTimeout: metav1.Duration{Duration: cfg.Timeout}, NodeCacheCapable: capable,
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 120 {
			s.setAnswer(randomAnswer(t, random))
			for verb, call := range map[string]func(fwk.Extender) (string, error){
				"filter": func(e fwk.Extender) (string, error) {
					passed, failed, unresolvable, err := e.Filter(pod("p"), nodes)
					return nodeNames(passed) + text(t, failed) + text(t, unresolvable), err
				},
				"prioritize": func(e fwk.Extender) (string, error) {
					scores, weight, err := e.Prioritize(pod("p"), nodes)
					return text(t, scores) + text(t, weight), err
				},
				"preempt": func(e fwk.Extender) (string, error) {
					victims, err := e.ProcessPreemption(preemptor(), candidates(nodes), lister)
					return victimNames(victims), err
				},
				"bind": func(e fwk.Extender) (string, error) {
					return "",
						e.Bind(&corev1.Binding{ObjectMeta: pod("p").ObjectMeta,
							Target: corev1.ObjectReference{Name: "a"}})
				},
			} {
				observe := func(e fwk.Extender) (o outcome) {
					result, err := call(e)
					if o.Failed = err != nil; !o.Failed {
						o.Result = result
					}
					o.Paths, o.Bodies = s.sent()
					return o
				}
				ours := build(t, cfg) // each has a circuit breaker of its own: every answer counts
				diff := cmp.Diff(observe(upstream), observe(ours))
				ours.Close()
				if diff != "" {
					t.Fatalf("%s, node cache capable %v, answer %s\n(-kube-scheduler +livesched)\n%s", verb, capable,
						s.answer, diff)
				}
			}
		}
	}
	// kube-scheduler's client cannot be closed.
	s.CloseClientConnections()
}

// randomAnswer makes a response to any verb, now and then a malformed one. It does not repeat
// nodes, and has no nulls where kube-scheduler would panic.
func randomAnswer(t *testing.T, random *rand.Rand) string {
	t.Helper()
	subset := func() []string {
		names := []string{"a", "b", "c"}
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		return names[:random.Intn(4)]
	}
	reasons := func() extenderv1.FailedNodesMap {
		m := extenderv1.FailedNodesMap{}
		for _, name := range subset() {
			m[name] = "no " + name
		}
		return m
	}
	var answer any
	switch random.Intn(3) {
	case 0:
		filter := extenderv1.ExtenderFilterResult{FailedNodes: reasons(), FailedAndUnresolvableNodes: reasons()}
		if random.Intn(2) == 0 {
			names := subset()
			filter.NodeNames = &names
		}
		if random.Intn(2) == 0 {
			filter.Nodes = &corev1.NodeList{}
			for _, name := range subset() {
				filter.Nodes.Items = append(filter.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		}
		if random.Intn(8) == 0 {
			filter.Error = "broken"
		}
		answer = filter
	case 1:
		scores := extenderv1.HostPriorityList{}
		for _, name := range subset() {
			scores = append(scores, extenderv1.HostPriority{Host: name, Score: random.Int63n(30) - 10})
		}
		answer = scores
	case 2:
		preempt := extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
		for _, name := range subset() {
			victims := &extenderv1.MetaVictims{NumPDBViolations: random.Int63n(3)}
			for _, number := range []string{"1", "2", "3"} {
				if random.Intn(3) == 0 {
					victims.Pods = append(victims.Pods, &extenderv1.MetaPod{UID: name + number + "-uid"})
				}
			}
			preempt.NodeNameToMetaVictims[name] = victims
		}
		answer = preempt
	}
	out, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	switch random.Intn(12) {
	case 0:
		return string(out[:random.Intn(len(out))])
	case 1:
		return strings.ToLower(string(out))
	case 2:
		return string(out) + "\n{}"
	}
	return string(out)
}
