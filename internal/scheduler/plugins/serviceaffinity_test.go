// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
)

// world is the part of a cluster that the plugin reads: three nodes in two racks, one of them
// without a rack, some pods, and services by selectors.
type serviceWorld struct {
	fwk.Handle // the plugin uses nothing else of it than the fields below
	snapshot   *schedcache.Snapshot
	informers  informers.SharedInformerFactory
	infos      []fwk.NodeInfo
}

func (w *serviceWorld) SnapshotSharedLister() fwk.SharedLister                 { return w.snapshot }
func (w *serviceWorld) SharedInformerFactory() informers.SharedInformerFactory { return w.informers }

func newServiceWorld(t *testing.T, pods []*corev1.Pod, selectors ...map[string]string) *serviceWorld {
	t.Helper()
	nodes := []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"rack": "r1", "row": "a"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{"rack": "r1", "row": "b"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n3", Labels: map[string]string{"rack": "r2", "row": "b"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n4"}},
	}
	w := &serviceWorld{snapshot: schedcache.NewSnapshot(pods, nodes),
		informers: informers.NewSharedInformerFactory(nil, 0)}
	for i, selector := range selectors {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("service-", i)},
			Spec:       corev1.ServiceSpec{Selector: selector},
		}
		if err := w.informers.Core().V1().Services().Informer().GetIndexer().Add(service); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		info, err := w.snapshot.NodeInfos().Get(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		w.infos = append(w.infos, info)
	}
	return w
}

func servicePod(name, node string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
			Labels: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: node},
	}
	for _, label := range labels {
		p.Labels[label] = "yes"
	}
	return p
}

func selecting(p *corev1.Pod, rack string) *corev1.Pod {
	p.Spec.NodeSelector = map[string]string{"rack": rack}
	return p
}

func newServiceAffinity(t *testing.T, w *serviceWorld, args string) *serviceaffinity.ServiceAffinity {
	t.Helper()
	pl, err := serviceaffinity.New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, w)
	if err != nil {
		t.Fatal(err)
	}
	return pl.(*serviceaffinity.ServiceAffinity)
}

// fitting returns the names of the nodes that pass.
func fitting(t *testing.T, w *serviceWorld, pl *serviceaffinity.ServiceAffinity, state fwk.CycleState,
	p *corev1.Pod) string {
	t.Helper()
	var names []string
	for _, info := range w.infos {
		status := pl.Filter(t.Context(), state, p, info)
		switch {
		case status.IsSuccess():
			names = append(names, info.Node().Name)
		case status.Code() != fwk.Unschedulable || status.Message() != serviceaffinity.ErrReason:
			t.Errorf("node %s: got status %v", info.Node().Name, status)
		}
	}
	return strings.Join(names, " ")
}

var web = map[string]string{"web": "yes"}

func TestServiceAffinityFilter(t *testing.T) {
	elsewhere := servicePod("mate", "n3", "web")
	elsewhere.Namespace = "other"
	for name, c := range map[string]struct {
		labels     string
		pods       []*corev1.Pod
		services   []map[string]string
		servicePod *corev1.Pod
		want       string
	}{
		"the first pod of a service may go anywhere": {`["rack"]`, nil, []map[string]string{web},
			servicePod("p", "", "web"), "n1 n2 n3 n4"},
		"the next ones go where the first one is": {`["rack"]`,
			[]*corev1.Pod{servicePod("mate", "n1", "web")}, []map[string]string{web}, servicePod("p", "", "web"),
			"n1 n2"},
		"each label counts": {`["rack", "row"]`, []*corev1.Pod{servicePod("mate", "n1", "web")},
			[]map[string]string{web}, servicePod("p", "", "web"), "n1"},
		"a label that the mate's node has not may have any value": {`["rack"]`,
			[]*corev1.Pod{servicePod("mate", "n4", "web")}, []map[string]string{web}, servicePod("p", "", "web"),
			"n1 n2 n3 n4"},
		"a pod without a service may go anywhere": {`["rack"]`,
			[]*corev1.Pod{servicePod("mate", "n1", "web")}, nil, servicePod("p", "", "web"), "n1 n2 n3 n4"},
		"a mate has all labels of the pod": {`["rack"]`,
			[]*corev1.Pod{servicePod("mate", "n1", "web")}, []map[string]string{web},
			servicePod("p", "", "web", "blue"), "n1 n2 n3 n4"},
		"a mate may have more": {`["rack"]`,
			[]*corev1.Pod{servicePod("mate", "n3", "web", "blue")}, []map[string]string{web},
			servicePod("p", "", "web"), "n3"},
		"a mate is of the same namespace": {`["rack"]`, []*corev1.Pod{elsewhere},
			[]map[string]string{web}, servicePod("p", "", "web"), "n1 n2 n3 n4"},
		"what the pod selects itself comes first": {`["rack"]`,
			[]*corev1.Pod{servicePod("mate", "n1", "web")}, []map[string]string{web},
			selecting(servicePod("p", "", "web"), "r2"), "n3"},
		"and holds without a service": {`["rack"]`, nil, nil,
			selecting(servicePod("p", ""), "r2"), "n3"},
		"the labels that it does not select are those of the mate's node": {`["rack", "row"]`,
			[]*corev1.Pod{servicePod("mate", "n2", "web")}, []map[string]string{web},
			selecting(servicePod("p", "", "web"), "r2"), "n3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServiceWorld(t, c.pods, c.services...)
			pl := newServiceAffinity(t, w, `{"affinityLabels": `+c.labels+`}`)
			state := schedframework.NewCycleState()
			if _, status := pl.PreFilter(t.Context(), state, c.servicePod, w.infos); !status.IsSuccess() {
				t.Fatal(status)
			}
			if got := fitting(t, w, pl, state, c.servicePod); got != c.want {
				t.Errorf("it fits %q, want %q", got, c.want)
			}
		})
	}
}

func TestServiceAffinityFollowsPods(t *testing.T) {
	mate := servicePod("mate", "n1", "web")
	w := newServiceWorld(t, []*corev1.Pod{mate}, web)
	pl := newServiceAffinity(t, w, `{"affinityLabels": ["rack"]}`)
	p := servicePod("p", "", "web")
	state := schedframework.NewCycleState()
	if _, status := pl.PreFilter(t.Context(), state, p, w.infos); !status.IsSuccess() {
		t.Fatal(status)
	}
	info := func(p *corev1.Pod) fwk.PodInfo {
		i, err := schedframework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	tried := state.Clone()
	if status := pl.RemovePod(t.Context(), tried, p, info(mate), w.infos[0]); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := fitting(t, w, pl, tried, p); got != "n1 n2 n3 n4" {
		t.Errorf("without its mate it fits %q, want every node", got)
	}
	// A nominated pod names no node yet.
	if status := pl.AddPod(t.Context(), tried, p, info(servicePod("nominated", "", "web")),
		w.infos[2]); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := fitting(t, w, pl, tried, p); got != "n3" {
		t.Errorf("with a mate on n3 it fits %q, want n3", got)
	}
	if status := pl.AddPod(t.Context(), tried, p, info(servicePod("stranger", "", "db")),
		w.infos[0]); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := fitting(t, w, pl, tried, p); got != "n3" {
		t.Errorf("with a stranger on n1 it fits %q, want n3", got)
	}
	if got := fitting(t, w, pl, state, p); got != "n1 n2" {
		t.Errorf("what was tried changed the state that it was tried on: it fits %q, want n1 n2", got)
	}
}

func TestServiceAffinityScore(t *testing.T) {
	leaving := servicePod("leaving", "n3", "web")
	leaving.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		labels   string
		pods     []*corev1.Pod
		services []map[string]string
		want     []int64
	}{
		"all nodes with the label are equal for the first pod": {`["rack"]`, nil, []map[string]string{web},
			[]int64{100, 100, 100, 0}},
		"a value is worth the share of the pods that are elsewhere": {`["rack"]`,
			[]*corev1.Pod{servicePod("a", "n1", "web"), servicePod("b", "n2", "web"), servicePod("c", "n3", "web")},
			[]map[string]string{web}, []int64{33, 33, 66, 0}},
		"labels count the same": {`["rack", "row"]`,
			[]*corev1.Pod{servicePod("a", "n1", "web")}, []map[string]string{web}, []int64{0, 50, 100, 0}},
		"pods that leave do not count": {`["rack"]`, []*corev1.Pod{leaving}, []map[string]string{web},
			[]int64{100, 100, 100, 0}},
		"pods of other services do not count": {`["rack"]`, []*corev1.Pod{servicePod("a", "n1", "db")},
			[]map[string]string{web}, []int64{100, 100, 100, 0}},
		"a pod without a service is not spread": {`["rack"]`, []*corev1.Pod{servicePod("a", "n1", "web")}, nil,
			[]int64{100, 100, 100, 0}},
		"pods on nodes without the label count, too": {`["rack"]`,
			[]*corev1.Pod{servicePod("a", "n1", "web"), servicePod("b", "n4", "web")}, []map[string]string{web},
			[]int64{50, 50, 100, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServiceWorld(t, c.pods, c.services...)
			pl := newServiceAffinity(t, w, `{"antiAffinityLabelsPreference": `+c.labels+`}`)
			p := servicePod("p", "", "web")
			state := schedframework.NewCycleState()
			if status := pl.PreScore(t.Context(), state, p, w.infos); !status.IsSuccess() {
				t.Fatal(status)
			}
			var scores fwk.NodeScoreList
			for _, info := range w.infos {
				score, status := pl.Score(t.Context(), state, p, info)
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				scores = append(scores, fwk.NodeScore{Name: info.Node().Name, Score: score})
			}
			if status := pl.NormalizeScore(t.Context(), state, p, scores); !status.IsSuccess() {
				t.Fatal(status)
			}
			var got []int64
			for _, score := range scores {
				got = append(got, score.Score)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got scores %v, want %v", got, c.want)
			}
		})
	}
}

func TestServiceAffinityWithoutLabels(t *testing.T) {
	w := newServiceWorld(t, nil)
	pl := newServiceAffinity(t, w, `{}`)
	state := schedframework.NewCycleState()
	if _, status := pl.PreFilter(t.Context(), state, servicePod("p", ""), w.infos); !status.IsSkip() {
		t.Errorf("PreFilter: got %v, want a skip", status)
	}
	if status := pl.PreScore(t.Context(), state, servicePod("p", ""), w.infos); !status.IsSkip() {
		t.Errorf("PreScore: got %v, want a skip", status)
	}
	if events, err := pl.EventsToRegister(t.Context()); err != nil || len(events) != 0 {
		t.Errorf("got events %v, %v, want none", events, err)
	}
}

func TestServiceAffinityRefusesAnEmptyLabel(t *testing.T) {
	for _, args := range []string{`{"affinityLabels": [""]}`, `{"antiAffinityLabelsPreference": ["a", ""]}`} {
		if _, err := serviceaffinity.New(t.Context(), &runtime.Unknown{Raw: []byte(args)},
			newServiceWorld(t, nil)); err == nil {
			t.Errorf("%s was accepted", args)
		}
	}
}
