// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// registering is a plugin with events to register.
type registering struct {
	name   string
	events []fwk.ClusterEventWithHint
	err    error
}

func (r registering) Name() string { return r.name }

func (r registering) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return r.events, r.err
}

func event(resource fwk.EventResource, action fwk.ActionType) fwk.ClusterEvent {
	return fwk.ClusterEvent{Resource: resource, ActionType: action}
}

// interests lists the plugins that registered for each event, with a star where there is a hint
// function.
func interests(table queue.HintMap) []string {
	var all []string
	for event, hints := range table {
		for _, hint := range hints {
			line := fmt.Sprintf("%s/%s: %s", event.Resource, event.ActionType, hint.Plugin)
			if event.ActionType.String() == "" {
				line = fmt.Sprintf("%s/%b: %s", event.Resource, event.ActionType, hint.Plugin)
			}
			if hint.Fn != nil {
				line += "*"
			}
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}

func TestHints(t *testing.T) {
	skip := func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.QueueSkip, nil }
	for _, test := range []struct {
		name string
		exts []fwk.EnqueueExtensions
		want []string
		err  string
	}{{
		name: "contain the events that the plugins register, with their functions",
		exts: []fwk.EnqueueExtensions{
			registering{name: "A",
				events: []fwk.ClusterEventWithHint{{Event: event(fwk.PersistentVolume, fwk.Add), QueueingHintFn: skip},
					{Event: event(fwk.Pod, fwk.Delete)}}},
			registering{name: "B", events: []fwk.ClusterEventWithHint{{Event: event(fwk.PersistentVolume, fwk.Add)}}},
		},
		want: []string{"PersistentVolume/Add: A*", "PersistentVolume/Add: B", "Pod/Delete: A"},
	}, {
		name: "are empty for a plugin that registers nothing",
		exts: []fwk.EnqueueExtensions{registering{name: "A"}},
	}, {
		name: "are an error that names every plugin that fails",
		exts: []fwk.EnqueueExtensions{registering{name: "A", err: errors.New("one")}, registering{name: "B"},
			registering{name: "C", err: errors.New("two")}},
		err: "plugin \"A\": events to register: one\nplugin \"C\": events to register: two",
	}} {
		t.Run(test.name, func(t *testing.T) {
			table, err := hints(quiet(t), test.exts)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("got the error %v, want %s", err, test.err)
				}
				return
			}
			must(t, err)
			if got := interests(table); !slices.Equal(got, test.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
			}
		})
	}

	t.Run("wake pods whose devices take from nodes when a pod ends, with the feature gate", func(t *testing.T) {
		plugin := []fwk.EnqueueExtensions{&dynamicresources.DynamicResources{}}
		table, err := hints(quiet(t), plugin)
		must(t, err)
		if len(table) > 0 {
			t.Errorf("without the feature gate: %v", interests(table))
		}
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
			kubefeatures.DRANodeAllocatableResources, true)
		table, err = hints(quiet(t), plugin)
		must(t, err)
		want := []string{"AssignedPod/Delete: DynamicResources", "AssignedPod/UpdatePodScaleDown: DynamicResources"}
		if got := interests(table); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})

	t.Run("name each resource once", func(t *testing.T) {
		table := queue.HintMap{event(fwk.Pod, fwk.Add): nil, event(fwk.Pod, fwk.Delete): nil,
			event(fwk.Node, fwk.Add): nil}
		if got := resources(table); !slices.Equal(got, []fwk.EventResource{fwk.Node, fwk.Pod}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestThePodWhoseOwnClaimIsDeletedIsTriedAgain(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "uid"}}
	claimOf := func(owner types.UID, extended string) *resourcev1.ResourceClaim {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim",
			Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: extended}}}
		claim.OwnerReferences = []metav1.OwnerReference{
			{Kind: "Pod", Name: "pod", UID: owner, Controller: ptr.To(true)}}
		return claim
	}
	hint := orWithoutOwnClaim(func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) {
		return fwk.QueueSkip, errors.New("asked")
	})
	for name, test := range map[string]struct {
		before, after *resourcev1.ResourceClaim
		queues        bool
	}{
		"deleted":          {before: claimOf("uid", "true"), queues: true},
		"updated":          {before: claimOf("uid", "true"), after: claimOf("uid", "true")},
		"added":            {after: claimOf("uid", "true")},
		"of another pod":   {before: claimOf("other", "true")},
		"of a pod's field": {before: claimOf("uid", "false")},
	} {
		var before, after any // untyped nil, as in events
		if test.before != nil {
			before = test.before
		}
		if test.after != nil {
			after = test.after
		}
		got, err := hint(klog.Background(), pod, before, after)
		if (got == fwk.Queue) != test.queues || (err == nil) != test.queues {
			t.Errorf("%s: %v (%v)", name, got, err)
		}
	}
}

// affinityHint returns the hint of InterPodAffinity for changes of a resource.
func affinityHint(t *testing.T, resource fwk.EventResource) (hint fwk.QueueingHintFn) {
	e := newTestEnv(t, framework.Registry{})
	for event, hints := range e.build(t, object("mine")).Queue.Hints {
		for i := range hints {
			if event.Resource == resource && hints[i].Plugin == names.InterPodAffinity {
				hint = hints[i].Fn
			}
		}
	}
	return hint
}

// In kube-scheduler 1.37, changes of nodes wake no pod that the anti-affinity of others excludes.
func TestChangesOfNodesWakePodsThatOthersExclude(t *testing.T) {
	hint := affinityHint(t, fwk.Node)
	node := func(labels ...string) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{}}}
		for i := 0; i < len(labels); i += 2 {
			node.Labels[labels[i]] = labels[i+1]
		}
		return node
	}
	term := []corev1.PodAffinityTerm{{TopologyKey: "zone"}}
	plain, needs, excludes := &corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}
	needs.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: term}}
	excludes.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: term}}
	for name, test := range map[string]struct {
		waits         *corev1.Pod
		before, after any
		want          fwk.QueueingHint
	}{
		"a new node":                           {waits: plain, after: node(), want: fwk.Queue},
		"a new node, and it needs others":      {waits: needs, after: node(), want: fwk.QueueSkip},
		"a new node in the zone of these":      {waits: needs, after: node("zone", "a"), want: fwk.Queue},
		"a new node, and it excludes others":   {waits: excludes, after: node(), want: fwk.Queue},
		"a node is in another rack":            {plain, node("rack", "a"), node("rack", "b"), fwk.Queue},
		"it excludes others in its zone":       {excludes, node("rack", "a"), node("rack", "b"), fwk.QueueSkip},
		"a node is in no rack any more":        {plain, node("rack", "a"), node(), fwk.Queue},
		"a node is in a rack now":              {plain, node(), node("rack", "a"), fwk.QueueSkip},
		"another property of a node is new":    {plain, node("rack", "a"), node("rack", "a"), fwk.QueueSkip},
		"a node joins the zone of its friends": {needs, node(), node("zone", "a"), fwk.Queue},
	} {
		if got, err := hint(klog.Background(), test.waits, test.before, test.after); got != test.want || err != nil {
			t.Errorf("%s: %v (%v), want %v", name, got, err, test.want)
		}
	}
}

// In kube-scheduler 1.37, terms with selectors of namespaces by labels wake no pod.
func TestTermsThatSelectNamespacesByLabelsWakePods(t *testing.T) {
	hint := affinityHint(t, fwk.AssignedPod)
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "other"}}
	term := func(app string, namespaces *metav1.LabelSelector) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, NamespaceSelector: namespaces,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	}
	pod := func(namespace, app, node string, affinity *corev1.Affinity) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{NodeName: node, Affinity: affinity}}
	}
	excludes := func(terms []corev1.PodAffinityTerm) *corev1.Affinity {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
	needs := func(terms []corev1.PodAffinityTerm) *corev1.Affinity {
		return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
	own := term("b", nil)
	for name, test := range map[string]struct {
		waits         *corev1.Pod
		before, after any
		want          fwk.QueueingHint
	}{
		"a pod that it excluded is gone": {waits: pod("one", "a", "", excludes(term("b", labelled))),
			before: pod("other", "b", "node", nil), want: fwk.Queue},
		"a pod that excluded it is gone": {waits: pod("one", "a", "", nil),
			before: pod("other", "b", "node", excludes(term("a", labelled))), want: fwk.Queue},
		"a pod that it needs is there": {waits: pod("one", "a", "", needs(term("b", labelled))),
			after: pod("other", "b", "node", nil), want: fwk.Queue},
		"a pod is not one any more that it excluded": {waits: pod("one", "a", "", excludes(term("b", labelled))),
			before: pod("other", "b", "node", nil), after: pod("other", "c", "node", nil), want: fwk.Queue},
		"a pod that it did not exclude is gone": {waits: pod("one", "a", "", excludes(term("b", labelled))),
			before: pod("other", "c", "node", nil), want: fwk.QueueSkip},
		"a pod in a namespace that it did not select is gone": {waits: pod("one", "a", "", excludes(own)),
			before: pod("other", "b", "node", nil), want: fwk.QueueSkip},
	} {
		before := test.waits.DeepCopy()
		if got, err := hint(klog.Background(), test.waits, test.before, test.after); got != test.want || err != nil {
			t.Errorf("%s: %v (%v), want %v", name, got, err, test.want)
		}
		if !apiequality.Semantic.DeepEqual(before, test.waits) {
			t.Errorf("%s: the hint changed the pod", name)
		}
	}
}

// In kube-scheduler 1.37, a pod whose required affinity selects itself, too, is not tried again
// when the last one of the selected pods is gone.
func TestThePodThatSelectsItselfIsTriedAgainOnceItsPeerIsGone(t *testing.T) {
	hint := affinityHint(t, fwk.AssignedPod)
	pod := func(namespace, app string, needs ...corev1.PodAffinityTerm) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"app": app}}}
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: needs}}
		return pod
	}
	one := func(app string, needs ...corev1.PodAffinityTerm) *corev1.Pod { return pod("one", app, needs...) }
	two := func(app string) *corev1.Pod { return pod("two", app) }
	onNode := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.NodeName = "node"
		return pod
	}
	term := func(app string, namespaces *metav1.LabelSelector) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: "zone", NamespaceSelector: namespaces,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	}
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "other"}}
	a, b := term("a", nil), term("b", nil)
	for name, test := range map[string]struct {
		waits         *corev1.Pod
		before, after any
		want          fwk.QueueingHint
	}{
		"its peer is gone":                 {waits: one("a", a), before: one("a"), want: fwk.Queue},
		"one in another namespace is gone": {waits: one("a", a), before: two("a"), want: fwk.QueueSkip},
		"a peer in a selected namespace is gone": {
			waits: one("a", term("a", labelled)), before: two("a"), want: fwk.Queue},
		"its peer has another label":            {one("a", a), one("a"), one("b"), fwk.Queue},
		"its peer has the same label":           {one("a", a), one("a"), one("a"), fwk.QueueSkip},
		"a peer comes":                          {waits: one("a", a), after: onNode(one("a")), want: fwk.Queue},
		"it needs another pod, which is gone":   {waits: one("a", b), before: one("b"), want: fwk.QueueSkip},
		"it needs itself and another":           {waits: one("a", a, b), before: one("b"), want: fwk.QueueSkip},
		"another pod is gone":                   {waits: one("a", a), before: one("b"), want: fwk.QueueSkip},
		"a pod is gone, and it has no affinity": {waits: one("a"), before: one("a"), want: fwk.QueueSkip},
	} {
		if got, err := hint(klog.Background(), test.waits, test.before, test.after); got != test.want || err != nil {
			t.Errorf("%s: %v (%v), want %v", name, got, err, test.want)
		}
	}
}

// silent is a Filter plugin that does not register for any event.
type silent struct{ fwk.FilterPlugin }

func (silent) Name() string { return "Silent" }

// The table must equal that of upstream's framework, except for the hint functions: these cannot be
// compared, so the test checks only whether there is one.
func TestTheHintsOfTheDefaultPluginsAreUpstreams(t *testing.T) {
	fs := &fakes{}
	registry := framework.Registry{"Silent": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return silent{}, nil
	}, "Quiet": fs.factory("Quiet", nil)}
	e := newTestEnv(t, registry)
	cfg := e.resolve(t, object("mine", "Silent", "Quiet"))
	p := e.build(t, object("mine", "Silent", "Quiet"))

	scope := e.Informers.NewScope()
	defer scope.Close()
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	upstream, err := frameworkruntime.NewFramework(ctx, e.Registry, cfg.Config.DeepCopy(),
		frameworkruntime.WithClientSet(e.Client),
		frameworkruntime.WithInformerFactory(scope),
		frameworkruntime.WithSharedDRAManager(e.Devices.DRA),
		frameworkruntime.WithSharedCSIManager(e.Devices.CSI),
		frameworkruntime.WithSnapshotSharedLister(e.Snapshot),
		frameworkruntime.WithPodNominator(e.Nominator),
		frameworkruntime.WithPodActivator(e.Queue),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()))
	must(t, err)
	want := queue.HintMap{}
	for _, ext := range upstream.EnqueueExtensions() {
		events, err := ext.EventsToRegister(ctx)
		must(t, err)
		for _, ev := range events {
			want[ev.Event] = append(want[ev.Event], queue.Hint{Plugin: ext.Name(), Fn: ev.QueueingHintFn})
		}
	}
	got := p.Queue.Hints
	if g, w := interests(got), interests(want); !slices.Equal(g, w) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(g, "\n  "), strings.Join(w, "\n  "))
	}
	if len(got) < 20 || !slices.Contains(slices.Collect(maps.Keys(got)), event(fwk.Node, fwk.All)) {
		t.Errorf("the table has %d events only", len(got))
	}
	must(t, upstream.Close())
}
