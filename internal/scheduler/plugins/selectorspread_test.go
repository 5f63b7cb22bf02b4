// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/plugins/selectorspread"
)

// world is the part of a cluster that the plugin reads.
type spreadWorld struct {
	fwk.Handle // the plugin uses nothing else of it than the fields below
	snapshot   *schedcache.Snapshot
	informers  informers.SharedInformerFactory
}

func (w *spreadWorld) SnapshotSharedLister() fwk.SharedLister                 { return w.snapshot }
func (w *spreadWorld) SharedInformerFactory() informers.SharedInformerFactory { return w.informers }

func spreadPod(name, node, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

func owned(p *corev1.Pod, kind string) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", UID: "owner",
		Controller: ptr.To(true)}}
	return p
}

func constrained(p *corev1.Pod) *corev1.Pod {
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway}}
	return p
}

func leaving(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = ptr.To(metav1.Now())
	return p
}

func elsewhere(p *corev1.Pod) *corev1.Pod {
	p.Namespace = "other"
	return p
}

// Two nodes share a zone, one is alone in a zone, and one has none.
func TestSelectorSpreadScores(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for name, c := range map[string]struct {
		object    runtime.Object
		pods      []*corev1.Pod
		spreadPod *corev1.Pod
		want      [4]int64 // z1 z1 z2 -; all 0 if it is skipped
	}{
		"a service spreads its pods over nodes and zones": {
			&corev1.Service{Spec: corev1.ServiceSpec{Selector: selector.MatchLabels}},
			[]*corev1.Pod{spreadPod("a", "n1", "web"), spreadPod("b", "n1", "web"), spreadPod("c", "n3", "web"),
				spreadPod("d", "n4", "web")}, spreadPod("p", "", "web"),
			[4]int64{0, 33, 50, 50},
		},
		"pods that leave, of another namespace or of another app do not count": {
			&corev1.Service{Spec: corev1.ServiceSpec{Selector: selector.MatchLabels}},
			[]*corev1.Pod{spreadPod("a", "n1", "web"), leaving(spreadPod("b", "n2", "web")),
				elsewhere(spreadPod("c", "n3", "web")), spreadPod("d", "n4", "db")}, spreadPod("p", "", "web"),
			[4]int64{0, 33, 100, 100},
		},
		"a service without pods leaves all nodes equal": {
			&corev1.Service{Spec: corev1.ServiceSpec{Selector: selector.MatchLabels}}, nil, spreadPod("p", "", "web"),
			[4]int64{100, 100, 100, 100},
		},
		"a ReplicaSet spreads its pods": {
			&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: selector}},
			[]*corev1.Pod{spreadPod("a", "n4", "web")}, owned(spreadPod("p", "", "web"), "ReplicaSet"),
			[4]int64{100, 100, 100, 0},
		},
		"a StatefulSet spreads its pods": {
			&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: selector}},
			[]*corev1.Pod{spreadPod("a", "n4", "web")}, owned(spreadPod("p", "", "web"), "StatefulSet"),
			[4]int64{100, 100, 100, 0},
		},
		"a pod that nothing selects is left alone": {
			&corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}}},
			[]*corev1.Pod{spreadPod("a", "n4", "web")}, spreadPod("p", "", "web"), [4]int64{},
		},
		"a pod with topology spread constraints is left alone": {
			&corev1.Service{Spec: corev1.ServiceSpec{Selector: selector.MatchLabels}},
			[]*corev1.Pod{spreadPod("a", "n4", "web")}, constrained(spreadPod("p", "", "web")), [4]int64{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []*corev1.Node
			for name, zone := range map[string]string{"n1": "z1", "n2": "z1", "n3": "z2", "n4": ""} {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if zone != "" {
					node.Labels = map[string]string{corev1.LabelTopologyZone: zone}
				}
				nodes = append(nodes, node)
			}
			w := &spreadWorld{snapshot: schedcache.NewSnapshot(c.pods, nodes),
				informers: informers.NewSharedInformerFactory(nil, 0)}
			w.add(t, c.object)
			if got := w.scores(t, c.spreadPod); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func (w *spreadWorld) add(t *testing.T, object runtime.Object) {
	t.Helper()
	core, apps := w.informers.Core().V1(), w.informers.Apps().V1()
	var err error
	switch object := object.(type) {
	case *corev1.Service:
		object.Namespace, object.Name = "default", "owner"
		err = core.Services().Informer().GetIndexer().Add(object)
	case *appsv1.ReplicaSet:
		object.Namespace, object.Name = "default", "owner"
		err = apps.ReplicaSets().Informer().GetIndexer().Add(object)
	case *appsv1.StatefulSet:
		object.Namespace, object.Name = "default", "owner"
		err = apps.StatefulSets().Informer().GetIndexer().Add(object)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *spreadWorld) scores(t *testing.T, p *corev1.Pod) (scores [4]int64) {
	t.Helper()
	made, err := selectorspread.New(t.Context(), nil, w)
	if err != nil {
		t.Fatal(err)
	}
	pl, state := made.(*selectorspread.SelectorSpread), schedframework.NewCycleState()
	if status := pl.PreScore(t.Context(), state, p, nil); status.IsSkip() {
		return scores
	}
	var list fwk.NodeScoreList
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		info, err := w.snapshot.NodeInfos().Get(name)
		if err != nil {
			t.Fatal(err)
		}
		score, status := pl.Score(t.Context(), state, p, info)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		list = append(list, fwk.NodeScore{Name: name, Score: score})
	}
	if status := pl.ScoreExtensions().NormalizeScore(t.Context(), state, p, list); !status.IsSuccess() {
		t.Fatal(status)
	}
	for i, score := range list {
		scores[i] = score.Score
	}
	return scores
}

func TestSelectorSpreadTakesNoArguments(t *testing.T) {
	if _, err := selectorspread.New(t.Context(), &runtime.Unknown{Raw: []byte(`{"weight": 1}`)}, nil); err == nil {
		t.Error("an argument was accepted")
	}
}

func TestSelectorSpreadWithoutAState(t *testing.T) {
	pl := &selectorspread.SelectorSpread{}
	if _, status := pl.Score(t.Context(), schedframework.NewCycleState(), spreadPod("p", "", "web"),
		schedframework.NewNodeInfo()); status.Code() != fwk.Error {
		t.Errorf("got status %v", status)
	}
}
