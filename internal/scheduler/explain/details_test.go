// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/test/objects"
)

func claiming(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// detailsOf returns what refuses the pod, and the details of each group.
func detailsOf(x explain.Explanation) []string {
	var out []string
	for _, r := range x.Pending.PodRefusals {
		out = append(out, fmt.Sprintf("pod: %s %s: %s", r.Plugin, r.Reason, r.Detail))
	}
	for _, g := range x.Pending.Groups {
		var refusals []string
		for _, r := range g.Refusals {
			refusals = append(refusals, fmt.Sprintf("%s: %s", r.Reason, r.Detail))
		}
		out = append(out, fmt.Sprintf("%d %s", g.Nodes, strings.Join(refusals, ", ")))
	}
	return out
}

func TestWhatRefusesThePodItselfIsSaidOnce(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "small", "4", "8Gi")
	c.node("n2", "small", "1", "8Gi")
	immediate := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"},
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)}
	c.must(c.objects.Put(immediate))
	c.must(c.objects.Put(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("now")},
	}))
	for _, test := range []struct {
		claim   string
		message string
		suggest string
		want    []string
	}{
		{"nope", "The pod cannot be scheduled on any node: the PersistentVolumeClaim nope does not exist.",
			"Create the PersistentVolumeClaim nope.", []string{
				"pod: VolumeRestrictions ClaimNotFound: the PersistentVolumeClaim nope does not exist",
				"pod: VolumeBinding ClaimNotFound: the PersistentVolumeClaim nope does not exist",
				"pod: VolumeZone ClaimNotFound: the PersistentVolumeClaim nope does not exist",
				"pod: NodeVolumeLimits ClaimNotFound: the PersistentVolumeClaim nope does not exist",
				"1 InsufficientResource: ",
			}},
		{"data", "The pod cannot be scheduled on any node: the PersistentVolumeClaim data is not bound.", "", []string{
			"pod: VolumeBinding ClaimUnbound: the PersistentVolumeClaim data is not bound",
			"pod: VolumeZone ClaimUnbound: the PersistentVolumeClaim data is not bound",
			"1 InsufficientResource: ",
		}},
	} {
		x := c.explain(explain.Pending{Pod: pod("p", "2", "1Gi", claiming(test.claim))})
		if diff := cmp.Diff(test.want, detailsOf(x)); diff != "" {
			t.Errorf("%s: %s", test.claim, diff)
		}
		if x.Verdict != v1alpha1.VerdictNeverFits || x.Message != test.message || x.Feasible != 0 {
			t.Errorf("%s: got %s: %s", test.claim, x.Verdict, x.Message)
		}
		var suggested []string
		for _, s := range x.Pending.Suggestions {
			suggested = append(suggested, s.Description)
			if s.Verified || s.Type != v1alpha1.SuggestionCreateClaim {
				t.Errorf("%s: got %+v", test.claim, s)
			}
		}
		if got := strings.Join(suggested, " "); got != test.suggest {
			t.Errorf("%s: got the suggestions %q, want %q", test.claim, got, test.suggest)
		}
	}
}

func TestClaimsAreNamed(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "small", "4", "8Gi", inZone("a"))
	c.node("n2", "small", "4", "8Gi", inZone("b"))
	claim := func(name, volume string, mode corev1.PersistentVolumeAccessMode) {
		c.must(c.objects.Put(&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume,
				AccessModes: []corev1.PersistentVolumeAccessMode{mode}},
		}))
	}
	affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{expression(corev1.LabelHostname, corev1.NodeSelectorOpIn,
			"n1")},
	}}}}
	c.must(c.objects.Put(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{NodeAffinity: affinity}}))
	c.must(c.objects.Put(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "zonal",
		Labels: map[string]string{corev1.LabelTopologyZone: "b"}}}))
	claim("data", "pv", corev1.ReadWriteOnce)
	claim("alone", "pv", corev1.ReadWriteOncePod)
	claim("backup", "zonal", corev1.ReadWriteOnce)
	c.run(pod("uses-it", "1", "1Gi", claiming("alone")), "n1")
	x := c.explain(explain.Pending{Pod: pod("p", "5", "1Gi", claiming("data"))})
	want := []string{"1 InsufficientResource: ",
		"1 InsufficientResource: , VolumeOnOtherNode: the PersistentVolumeClaim data"}
	if diff := cmp.Diff(want, detailsOf(x)); diff != "" {
		t.Error(diff)
	}
	x = c.explain(explain.Pending{Pod: pod("p", "1", "1Gi", claiming("alone"), claiming("backup"))})
	want = []string{
		"1 VolumeInUse: the PersistentVolumeClaim alone, VolumeInOtherZone: one of the PersistentVolumeClaims alone " +
			"and backup",
		"1 VolumeInUse: the PersistentVolumeClaim alone, VolumeOnOtherNode: one of the PersistentVolumeClaims alone " +
			"and backup",
	}
	got := detailsOf(x)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func inZone(name string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels[corev1.LabelTopologyZone] = name }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
}

func selecting(labels map[string]string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = labels }
}

// requiring adds terms of required node affinity.
func requiring(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func expression(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

// forNode is what the DaemonSet controller demands.
func forNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		ownedBy("DaemonSet", "agent")(p)
		requiring(corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{expression(metav1.ObjectNameField, corev1.NodeSelectorOpIn,
				name)}})(p)
	}
}

func podTerm(app, key string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{
		{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
}

func near(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: podTerm(app, key)}}
	}
}

func awayFrom(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: podTerm(app, key)}}
	}
}

func spreading(app, key string, change ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		constraint := corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}
		for _, c := range change {
			c(&constraint)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, constraint)
	}
}

func withHostPort(port int32, protocol corev1.Protocol) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports,
			corev1.ContainerPort{ContainerPort: port, HostPort: port, Protocol: protocol})
	}
}

func all(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, change := range changes {
			change(p)
		}
	}
}

// TestDetails explains pods in a cluster of three zones: a with nodes a1 and a2, b with b1, and c
// with c1, which is tainted, cordoned and full.
func TestDetails(t *testing.T) {
	const zone, host = corev1.LabelTopologyZone, corev1.LabelHostname
	large := func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = objects.Requests("6", "1Gi").Requests }
	for _, test := range []struct {
		name   string
		pod    func(*corev1.Pod)
		runs   map[string]func(*corev1.Pod) // by node
		want   []string
		absent string
	}{
		{name: "taints and what else", pod: large, want: []string{
			"3 InsufficientResource: ",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, InsufficientResource: "}},
		{name: "a resource that no node has", pod: usingGPUs("2"), want: []string{
			"3 InsufficientResource: no nvidia.com/gpu (2 requested)",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, InsufficientResource: no " +
				"nvidia.com/gpu (2 requested)"}},
		{name: "a label that no node has", pod: selecting(map[string]string{"disk": "ssd", zone: "z"}), want: []string{
			"3 NodeAffinityMismatch: no node has the label disk; topology.kubernetes.io/zone is a or b, not z",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, NodeAffinityMismatch: no node " +
				"has the label disk; topology.kubernetes.io/zone is c, not z"}},
		{name: "a label that some nodes have", pod: all(large, selecting(map[string]string{"arch": "arm64"})),
			want: []string{
				"1 InsufficientResource: ", "3 NodeAffinityMismatch: does not match arch=arm64"}},
		{name: "a label that the only node with it has another value of",
			pod: selecting(map[string]string{"arch": "riscv"}), want: []string{
				"1 NodeAffinityMismatch: arch is arm64, not riscv", "2 NodeAffinityMismatch: no label arch",
				"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, NodeAffinityMismatch: no " +
					"label arch"}},
		{name: "node affinity",
			pod: requiring(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				expression(zone, corev1.NodeSelectorOpNotIn, "a", "b", "c"),
				expression("arch", corev1.NodeSelectorOpDoesNotExist),
			}}), want: []string{
				"1 NodeAffinityMismatch: topology.kubernetes.io/zone is a, but the pod requires " +
					"topology.kubernetes.io/zone not in (a, b or c); has the label arch",
				"2 NodeAffinityMismatch: topology.kubernetes.io/zone is a or b, but the pod requires " +
					"topology.kubernetes.io/zone not in (a, b or c)",
				"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, NodeAffinityMismatch: " +
					"topology.kubernetes.io/zone is c, but the pod requires topology.kubernetes.io/zone not in (a, b " +
					"or c)"}},
		{name: "terms of node affinity", pod: requiring(
			corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{expression(zone, corev1.NodeSelectorOpIn, "x", "y"),
					expression("cores", corev1.NodeSelectorOpGt, "8")}},
			corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{expression("disk", corev1.NodeSelectorOpExists)}},
		), want: []string{
			"3 NodeAffinityMismatch: does not match topology.kubernetes.io/zone in (x or y) and cores>8 or disk",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, NodeAffinityMismatch: does not " +
				"match topology.kubernetes.io/zone in (x or y) and cores>8 or disk"}},
		{name: "names of nodes", pod: selecting(map[string]string{host: "z9"}), absent: "a1", want: []string{
			"3 NodeAffinityMismatch: kubernetes.io/hostname is not z9",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, NodeAffinityMismatch: " +
				"kubernetes.io/hostname is not z9"}},
		{name: "a pod of a DaemonSet", pod: all(large, forNode("b1")), want: []string{
			"1 InsufficientResource: ", "3 NodeAffinityMismatch: does not match metadata.name=b1"}},
		{name: "host ports", pod: all(withHostPort(8080, corev1.ProtocolTCP), withHostPort(53, corev1.ProtocolUDP)),
			runs: map[string]func(*corev1.Pod){
				"a1": withHostPort(8080, corev1.ProtocolTCP),
				"a2": all(withHostPort(8080, corev1.ProtocolTCP), withHostPort(53, corev1.ProtocolUDP)),
				"b1": withHostPort(53, corev1.ProtocolUDP),
			}, want: []string{
				"1 HostPortInUse: host port 8080/TCP is in use",
				"1 HostPortInUse: host ports 8080/TCP and 53/UDP are in use",
				"1 HostPortInUse: host port 53/UDP is in use",
				"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule"}},
		{name: "own anti-affinity per zone", pod: all(labelled("app", "ah"),
			awayFrom("ah", zone)), runs: map[string]func(*corev1.Pod){
			"a1": labelled("app", "ah"), "b1": labelled("app", "ah"), "c1": labelled("app", "ah"),
		}, want: []string{
			"3 PodAntiAffinity: at most one pod of app=ah per topology.kubernetes.io/zone; all 3 zones have one",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, PodAntiAffinity: at most one pod " +
				"of app=ah per topology.kubernetes.io/zone; all 3 zones have one"}},
		{name: "anti-affinity to others", pod: awayFrom("db", zone), runs: map[string]func(*corev1.Pod){
			"a1": labelled("app", "db"), "b1": labelled("app", "db"),
		}, want: []string{
			"3 PodAntiAffinity: no pod of app=db may be in the same topology.kubernetes.io/zone; a and b have one",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule"}},
		{name: "anti-affinity per node", pod: awayFrom("db", host), absent: "a1", runs: map[string]func(*corev1.Pod){
			"a1": labelled("app", "db"), "a2": labelled("app", "db"), "b1": labelled("app", "db"),
		}, want: []string{
			"3 PodAntiAffinity: no pod of app=db may be in the same kubernetes.io/hostname; 3 nodes have one",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule"}},
		{name: "the anti-affinity of others", pod: labelled("app", "web"), runs: map[string]func(*corev1.Pod){
			"a1": all(ownedBy("StatefulSet", "db"), awayFrom("web", zone)),
			"b1": all(awayFrom("web", zone), func(p *corev1.Pod) {
				p.Namespace = "secret"
				p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].Namespaces = []string{
					"default"}
			}),
		}, absent: "b1", want: []string{
			"3 AntiAffinityOfOtherPods: the rules of pods of StatefulSet/db and pods of another namespace keep " +
				"app=web out of their topology.kubernetes.io/zone",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule"}},
		{name: "affinity to pods that are nowhere", pod: near("db", zone), want: []string{
			"3 PodAffinityNotSatisfied: no node of any topology.kubernetes.io/zone runs a pod of app=db",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, PodAffinityNotSatisfied: no node " +
				"of any topology.kubernetes.io/zone runs a pod of app=db"}},
		{name: "affinity to pods elsewhere", pod: near("db", zone), runs: map[string]func(*corev1.Pod){
			"c1": labelled("app", "db")}, want: []string{
			"3 PodAffinityNotSatisfied: no pod of app=db in the same topology.kubernetes.io/zone",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule"}},
		{name: "affinity by a label that nodes lack", pod: near("db", "rack"), want: []string{
			"3 PodAffinityNotSatisfied: no label rack",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, PodAffinityNotSatisfied: no " +
				"label rack"}},
		{name: "spread over zones", pod: all(labelled("app", "web"),
			spreading("web", zone)), runs: map[string]func(*corev1.Pod){
			"a1": labelled("app", "web"), "b1": labelled("app", "web"),
		}, want: []string{
			"3 TopologySpread: maxSkew 1 of app=web per topology.kubernetes.io/zone: a and b with 1, c with the " +
				"fewest, 0 (the closest node there: cordoned, taint dedicated=db:NoSchedule)",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule"}},
		{name: "the second of two constraints", pod: all(labelled("app", "web"), spreading("other", host),
			spreading("web", zone)), runs: map[string]func(*corev1.Pod){
			"a1": labelled("app", "web"), "b1": labelled("app", "web"),
		}, want: []string{
			"3 TopologySpread: maxSkew 1 of app=web per topology.kubernetes.io/zone: a and b with 1, c with the " +
				"fewest, 0 (the closest node there: cordoned, taint dedicated=db:NoSchedule)",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule"}},
		{name: "spread over too few domains", pod: all(labelled("app", "web"),
			spreading("web", zone, func(c *corev1.TopologySpreadConstraint) { c.MinDomains = ptr.To[int32](4) })),
			runs: map[string]func(*corev1.Pod){"a1": labelled("app", "web"), "b1": labelled("app", "web"),
				"c1": labelled("app", "web")}, want: []string{
				"3 TopologySpread: maxSkew 1 of app=web per topology.kubernetes.io/zone: there are 3 zones, fewer " +
					"than minDomains 4",
				"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, TopologySpread: maxSkew 1 of " +
					"app=web per topology.kubernetes.io/zone: there are 3 zones, fewer than minDomains 4"}},
		{name: "spread by a label that nodes lack", pod: spreading("web", "rack"), want: []string{
			"3 TopologyLabelMissing: no label rack",
			"1 Cordoned: cordoned, UntoleratedTaint: taint dedicated=db:NoSchedule, TopologyLabelMissing: no label " +
				"rack"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.node("a1", "x", "4", "8Gi", inZone("a"), func(n *corev1.Node) { n.Labels["arch"] = "arm64" })
			c.node("a2", "x", "4", "8Gi", inZone("a"))
			c.node("b1", "y", "4", "8Gi", inZone("b"))
			c.node("c1", "y", "4", "8Gi", inZone("c"), func(n *corev1.Node) {
				n.Spec.Unschedulable = true
				n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
			})
			for node, change := range test.runs {
				c.run(pod("runs-on-"+node, "100m", "1Gi", change), node)
			}
			x := c.explain(explain.Pending{Pod: pod("p", "1", "1Gi", test.pod)})
			got := detailsOf(x)
			slices.Sort(got)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if text := strings.Join(got, " "); test.absent != "" && strings.Contains(text, test.absent) {
				t.Errorf("%q is named: %s", test.absent, text)
			}
		})
	}
}
