// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/suggest"
	"github.com/livesched/livesched/internal/words"
)

var explained = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// printed returns what is printed on a terminal of 80 columns, and fails if a line is longer.
func printed(t *testing.T, e *v1alpha1.PodExplanation, wide bool) string {
	t.Helper()
	var out strings.Builder
	if err := Explanation(terminal.Plain(&out, 80), e, explained, wide); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if !wide && len([]rune(strings.TrimRight(line, "\n"))) > 80 {
			t.Errorf("longer than 80: %s", line)
		}
	}
	return out.String()
}

func expectPrinted(t *testing.T, e *v1alpha1.PodExplanation, wide bool, want string) {
	t.Helper()
	if d := cmp.Diff(strings.TrimPrefix(want, "\n"), printed(t, e, wide)); d != "" {
		t.Error(d)
	}
}

// gpuPod is an explanation with most of the fields.
func gpuPod() *v1alpha1.PodExplanation {
	return &v1alpha1.PodExplanation{
		Metadata:      metav1.ObjectMeta{Namespace: "ux", Name: "gpu1"},
		Verdict:       v1alpha1.VerdictNeverFits,
		Message:       "The pod would fit on none of 119 nodes, even if no other pods were on them.",
		SchedulerName: "spread", Profile: "spread", Revision: "b47874bsgc", Nodes: 119,
		Pending: &v1alpha1.PendingExplanation{
			Reason: "Unschedulable", Since: metav1.NewTime(explained.Add(-3 * time.Second)), Attempts: 1, Alike: 1312,
			NextTry: metav1.NewTime(explained.Add(4*time.Minute + 56*time.Second)),
			Groups: []v1alpha1.NodeGroup{
				{Nodes: 3, Pools: []string{"gpu"}, Example: "gpu-1", Refusals: []v1alpha1.Refusal{
					{Plugin: "TaintToleration", Reason: v1alpha1.ReasonUntoleratedTaint,
						Detail:   "taint nvidia.com/gpu=present:NoSchedule",
						Messages: []string{"node(s) had untolerated taint(s)"}},
				}},
				{Nodes: 79, Pools: []string{"small", "large"}, Refusals: []v1alpha1.Refusal{noGPU()}},
				{Nodes: 37, Pools: []string{"medium"}, Refusals: []v1alpha1.Refusal{noGPU()}},
			},
			Suggestions: []v1alpha1.Suggestion{
				{Type: v1alpha1.SuggestionTolerate, Description: "Let the pod tolerate the taint " +
					"nvidia.com/gpu=present:NoSchedule of 3 nodes of the pool gpu.", Verified: true},
				{Type: v1alpha1.SuggestionAddNode, Description: "Add a node like the nodes of the pool gpu."},
			},
			WaitsFor: []v1alpha1.EventAwaited{
				{Event: "AssignedPod/Delete", Plugins: []string{"NodeResourcesFit"}},
				{Event: "Node/UpdateNodeTaint", Plugins: []string{"TaintToleration"}},
				{Event: "Node/Add", Plugins: []string{"NodeResourcesFit"}},
			},
		},
	}
}

func noGPU() v1alpha1.Refusal {
	return v1alpha1.Refusal{Plugin: "NodeResourcesFit", Reason: v1alpha1.ReasonInsufficientResource,
		Detail:  "no nvidia.com/gpu (1 requested)",
		ShortBy: []v1alpha1.Shortage{{Resource: "nvidia.com/gpu", Quantity: resource.MustParse("1"), Nodes: 79}}}
}

func TestThePrintedExplanationOfAPendingPod(t *testing.T) {
	expectPrinted(t, gpuPod(), false, `
ux/gpu1 has been pending for 3s: no node fits (of 119). Profile spread, attempt
  1.
  The pod would fit on none of 119 nodes, even if no other pods were on them.
  Would help, each tried in a copy of the cluster:
    - Let the pod tolerate the taint nvidia.com/gpu=present:NoSchedule of 3
      nodes of the pool gpu.
  Might help, not tried:
    - Add a node like the nodes of the pool gpu.
NODES   POOL                   WHY NOT
3       gpu                    taint nvidia.com/gpu=present:NoSchedule
116     small, large, medium   no nvidia.com/gpu (1 requested)
  1,312 other pods wait for the same reason.
  Tried again when a node is added or changes or a pod ends; at the latest in
  4m56s.
`)
}

func TestTheWideExplanationHasEverything(t *testing.T) {
	text := printed(t, gpuPod(), true)
	for _, want := range []string{
		"Verdict NeverFits; profile spread@b47874bsgc; condition PodScheduled: Unschedulable.", "gpu-1",
		"TaintToleration", "UntoleratedTaint", "InsufficientResource",
		"Waits for: AssignedPod/Delete, Node/Add (NodeResourcesFit); Node/UpdateNodeTaint (TaintToleration)",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestEachVerdictHasAHeadline(t *testing.T) {
	since := metav1.NewTime(explained.Add(-time.Minute))
	later := metav1.NewTime(explained.Add(time.Minute))
	for verdict, test := range map[v1alpha1.Verdict]struct {
		message string
		pending v1alpha1.PendingExplanation
		want    string
	}{
		v1alpha1.VerdictFitsWhenFreed: {"None of 5 nodes has room for the pod. It would fit if other pods ended.",
			v1alpha1.PendingExplanation{}, `
ml/a has been pending for 60s: no node can take it now (of 5). Profile mine.
  None of 5 nodes has room for the pod. It would fit if other pods ended.
`},
		v1alpha1.VerdictGroupDoesNotFit: {"",
			v1alpha1.PendingExplanation{PodGroup: &v1alpha1.PodGroupFit{Name: "train", Needed: 64, Ready: 64, Fit: 12}},
			`
ml/a has been pending for 60s: its pod group does not fit. Profile mine.
  Pod group train: 64 pods must be placed together, and 12 fit now; 64 are
  ready.
`},
		v1alpha1.VerdictWaitingForTurn: {"The pod fits on 2 of 5 nodes now.",
			v1alpha1.PendingExplanation{NextTry: later}, `
ml/a has been pending for 60s: it fits, and waits for its turn. Profile mine.
  The pod fits on 2 of 5 nodes now.
  Tried again at the latest in 60s.
`},
		v1alpha1.VerdictWaitingForVictims: {"A pod that is preempted for this pod has not ended.",
			v1alpha1.PendingExplanation{
				NominatedNode: "n1",
				Victims: []v1alpha1.PodReference{{Namespace: "web", Name: "b", TerminatingSince: since,
					Finalizers: []string{"example.com/keep"}}},
			}, `
ml/a has been pending for 60s: it waits until preempted pods have ended. Profile
  mine.
  A pod that is preempted for this pod has not ended.
  Its node will be n1.
  - web/b, terminating for 60s, held by the finalizers example.com/keep
`},
		v1alpha1.VerdictBinding: {"A node was chosen.",
			v1alpha1.PendingExplanation{NominatedNode: "n1", NextTry: later}, `
ml/a has been pending for 60s: it is being bound to its node. Profile mine.
  A node was chosen.
  Its node will be n1.
`},
		v1alpha1.VerdictGated: {"The PreEnqueue plugin DynamicResources holds the pod.", v1alpha1.PendingExplanation{
			GatingPlugin: "DynamicResources", GatingMessage: "waiting for resource claim x", NextTry: later,
			WaitsFor: []v1alpha1.EventAwaited{{Event: "resource.k8s.io/ResourceClaim/Add"}},
		}, `
ml/a has been pending for 60s: it is held back, and not tried. Profile mine.
  The PreEnqueue plugin DynamicResources holds the pod.
  Waiting for resource claim x.
  Looked at again when a device or its claim changes.
`},
		v1alpha1.VerdictNoProfile: {`No SchedulerProfile has the scheduler name "typo".`,
			v1alpha1.PendingExplanation{Gates: []string{"example.com/a"}}, `
ml/a has been pending for 60s: no profile schedules it. Profile mine.
  No SchedulerProfile has the scheduler name "typo".
  Scheduling gates: example.com/a.
`},
		v1alpha1.VerdictOtherScheduler: {"", v1alpha1.PendingExplanation{}, `
ml/a has been pending for 60s: another scheduler is responsible. Profile mine.
`},
		v1alpha1.VerdictUnknown: {"The plugin X failed.", v1alpha1.PendingExplanation{}, `
ml/a has been pending for 60s: livesched could not find out why. Profile mine.
  The plugin X failed.
`},
		v1alpha1.VerdictNeverFits: {"", v1alpha1.PendingExplanation{
			PodRefusals: []v1alpha1.Refusal{{Plugin: "VolumeBinding", Reason: v1alpha1.ReasonClaimNotFound,
				Messages: []string{`persistentvolumeclaim "nope" not found`}}},
		}, `
ml/a has been pending for 60s: no node fits (of 5). Profile mine.
  The pod itself: persistentvolumeclaim "nope" not found.
`},
		"OfANewerVersion": {"", v1alpha1.PendingExplanation{}, `
ml/a has been pending for 60s: OfANewerVersion. Profile mine.
`},
	} {
		t.Run(string(verdict), func(t *testing.T) {
			test.pending.Since = since
			expectPrinted(t, &v1alpha1.PodExplanation{
				Metadata: metav1.ObjectMeta{Namespace: "ml", Name: "a"}, Verdict: verdict, Message: test.message,
				Profile: "mine", Nodes: 5, Pending: &test.pending,
			}, false, test.want)
		})
	}
}

// TestARefusalOfThePodIsPrintedOnce has one refusal of several plugins, and one that the message
// has.
func TestARefusalOfThePodIsPrintedOnce(t *testing.T) {
	said, missing := []string{`the quota of the team is used up`}, []string{`persistentvolumeclaim "nope" not found`}
	var out strings.Builder
	refusals := []v1alpha1.Refusal{
		{Plugin: "Quota", Reason: v1alpha1.ReasonRefused, Messages: said},
		{Plugin: "VolumeBinding", Reason: v1alpha1.ReasonClaimNotFound, Messages: missing},
		{Plugin: "VolumeZone", Reason: v1alpha1.ReasonClaimNotFound, Messages: missing},
	}
	message := "The pod cannot be scheduled on any node now: the quota of the team is used up."
	printPodRefusals(&out, message, refusals, false)
	if d := cmp.Diff("  The pod itself: persistentvolumeclaim \"nope\" not found.\n", out.String()); d != "" {
		t.Error(d)
	}
	out.Reset()
	printPodRefusals(&out, message, refusals, true)
	if got := strings.Count(out.String(), "The pod itself: "); got != len(refusals) {
		t.Errorf("the wide output has %d refusals: %s", got, &out)
	}
}

func TestTheWordsOfARefusal(t *testing.T) {
	cpu := v1alpha1.Shortage{Resource: "cpu", Quantity: resource.MustParse("60"), Nodes: 6,
		Most: ptr.To(resource.MustParse("64"))}
	for want, r := range map[string]v1alpha1.Refusal{
		"lacks at least 60 cpu (6 nodes), at most 64": {ShortBy: []v1alpha1.Shortage{cpu}},
		"lacks 1Gi memory": {
			ShortBy: []v1alpha1.Shortage{{Resource: "memory", Quantity: resource.MustParse("1Gi"), Nodes: 4}}},
		"no nvidia.com/gpu (1 requested)": noGPU(),
		"no license": {Plugin: "Ours", Reason: v1alpha1.ReasonRefused,
			Messages: []string{"no license."}},
		"reserved for pods nominated to the node": {Detail: "reserved for pods nominated to the node",
			Messages: []string{"Insufficient cpu"}},
		"refused by the plugin Ours": {Plugin: "Ours"},
	} {
		if got := words.Refusal(&r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestManyGroupsOfNodesAreLimited(t *testing.T) {
	var groups []v1alpha1.NodeGroup
	for i := range 20 {
		groups = append(groups,
			v1alpha1.NodeGroup{Nodes: 2, Pools: []string{fmt.Sprint("p", i)},
				Refusals: []v1alpha1.Refusal{{Detail: fmt.Sprint("label ", i)}}})
	}
	var same v1alpha1.NodeGroup
	for i := range 60 {
		same.Pools = append(same.Pools, fmt.Sprint("pool-", i))
	}
	same.Nodes, same.Partial, same.Refusals = 60, true, []v1alpha1.Refusal{{Detail: "cordoned"}}
	text := printed(t, &v1alpha1.PodExplanation{
		Pending: &v1alpha1.PendingExplanation{Groups: append([]v1alpha1.NodeGroup{same}, groups...)}}, false)
	for _, want := range []string{
		"60      pool-0, pool-1 and 58 more   cordoned; and other reasons on some of them\n",
		"  13 more groups of nodes (26 nodes): -o wide\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestThePrintedExplanationOfABoundPod(t *testing.T) {
	e := &v1alpha1.PodExplanation{
		Metadata: metav1.ObjectMeta{Namespace: "ml", Name: "a"}, Verdict: v1alpha1.VerdictBound,
		SchedulerName: "spread", Profile: "spread", Revision: "b47874bsgc",
		Feasible: 4812, Message: "The pod fitted on 4812 of 5000 nodes.",
		Bound: &v1alpha1.BoundExplanation{
			Node: "n17", Basis: v1alpha1.BasisRecorded, Changes: 1412, Tied: 36,
			Decided: metav1.NewTime(explained.Add(-time.Hour)),
			Top: []v1alpha1.NodeScore{
				{Node: "n17", Total: 1450,
					Scores: map[string]int64{"PodTopologySpread": 1000, "TaintToleration": 300,
						"NodeResourcesFit": 62}},
				{Total: 1361, Scores: map[string]int64{"PodTopologySpread": 900, "TaintToleration": 300,
					"NodeResourcesFit": 71}},
			},
		},
	}
	expectPrinted(t, e, false, `
ml/a is on node n17, placed by the profile spread.
  The pod fitted on 4812 of 5000 nodes.
  Decided 60m ago. 1,412 changes of nodes and pods since the decision.
NODE       TOTAL   Spread   Fit
n17        1450    1000     62
(hidden)   1361    900      71
  Equal on these nodes: Taint 300.
  Node names are hidden: you may not list nodes.
`)
	if text := strings.Join(strings.Fields(printed(t, e, true)), " "); !strings.Contains(text,
		"nodes with the highest total: 36; decision: Recorded.") {
		t.Error(text)
	}
}

func TestThePrintedComparisonOfANode(t *testing.T) {
	e := &v1alpha1.PodExplanation{Metadata: metav1.ObjectMeta{Namespace: "ml", Name: "a"},
		Pending: &v1alpha1.PendingExplanation{}}
	e.Node = &v1alpha1.NodeExplanation{Name: "n1", Refusals: []v1alpha1.Refusal{noGPU(), {Detail: "cordoned"}}}
	expectPrinted(t, e, false, `
ml/a does not fit on node n1 now.
  - no nvidia.com/gpu (1 requested)
  - cordoned
  It fits on no other node either.
`)
	e.Node = &v1alpha1.NodeExplanation{
		Name: "n1", Fits: true, Rank: 3,
		Score: &v1alpha1.NodeScore{Node: "n1", Total: 150,
			Scores: map[string]int64{"NodeResourcesFit": 50, "ImageLocality": 100}},
		Best: &v1alpha1.NodeScore{Node: "n2", Total: 190,
			Scores: map[string]int64{"NodeResourcesFit": 90, "ImageLocality": 100}},
	}
	expectPrinted(t, e, false, `
ml/a fits on node n1 now.
  Its total is 150, rank 3; the highest is 190.
NODE   TOTAL   Fit
n2     190     90
n1     150     50
  Equal on these nodes: Image 100.
`)
}

// TestNothingIsInvented prints random explanations: no line is too long, and each row of the table
// has words of the explanation.
func TestNothingIsInvented(t *testing.T) {
	reasons := []string{"cordoned", "no label disk", "taint a=b:NoSchedule", "host port 80/TCP is in use", "no license"}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		e := gpuPod()
		e.Pending.Groups, e.Pending.Suggestions = nil, nil
		given := map[string]bool{}
		for range random.IntN(12) {
			g := v1alpha1.NodeGroup{Nodes: random.Int32N(5000) + 1, Partial: random.IntN(5) == 0}
			for i := range random.IntN(40) + 1 {
				g.Pools = append(g.Pools, strings.Repeat("pool-", 1+random.IntN(12))+fmt.Sprint(i))
			}
			for range random.IntN(3) + 1 {
				text := reasons[random.IntN(len(reasons))]
				given[text] = true
				if random.IntN(2) == 0 {
					g.Refusals = append(g.Refusals, v1alpha1.Refusal{Plugin: "P", Detail: text})
				} else {
					g.Refusals = append(g.Refusals, v1alpha1.Refusal{Plugin: "P", Messages: []string{text}})
				}
			}
			e.Pending.Groups = append(e.Pending.Groups, g)
		}
		text := strings.Join(strings.Fields(printed(t, e, false)), " ")
		for _, reason := range reasons {
			if strings.Contains(text, reason) && !given[reason] {
				t.Fatalf("seed %d: %q is invented:\n%s", seed, reason, text)
			}
		}
		merged := mergeGroups(e.Pending.Groups)
		if len(merged) > 0 {
			for part := range strings.SplitSeq(merged[0].why, "; ") {
				if part != "and other reasons on some of them" && !slices.Contains(reasons, part) {
					t.Fatalf("seed %d: %q", seed, part)
				}
			}
		}
	}
}

func TestTheWordsForEvents(t *testing.T) {
	for want, events := range map[string][]string{
		"a node is added":                    {"Node/Add"},
		"a node changes or a pod ends":       {"AssignedPod/Delete", "Node/UpdateNodeLabel"},
		"a pod ends or changes":              {"Pod/Delete", "Pod/UpdatePodLabel"},
		"a claim or volume is added":         {"PersistentVolumeClaim/Add"},
		"the pod itself changes":             {"TargetPod/UpdatePodToleration"},
		"storage changes":                    {"storage.k8s.io/CSINode/Add"},
		"its PodGroup changes":               {"scheduling.k8s.io/PodGroup/All"},
		"anything in the cluster changes":    {"*/All"},
		"a quotas.example.com/Quota changes": {"quotas.example.com/Quota/Update"},
		"a node is added or changes":         {"Node/All"},
		"a device or its claim changes":      {"resource.k8s.io/DeviceClass/Add"},
		"":                                   nil,
	} {
		var awaited []v1alpha1.EventAwaited
		for _, event := range events {
			awaited = append(awaited, v1alpha1.EventAwaited{Event: event})
		}
		if got := suggest.OneOf(eventWords(awaited)); got != want {
			t.Errorf("%v: got %q, want %q", events, got, want)
		}
	}
}

func TestThePrintedPodGroup(t *testing.T) {
	for want, g := range map[string]v1alpha1.PodGroupFit{
		"Pod group train: 64 pods must be placed together, and 12 fit now; 70 are ready.": {
			Name: "train", Needed: 64, Ready: 70, Fit: 12, Tried: []v1alpha1.DomainFit{{Fit: 12}},
		},
		"Pod group train: 1 pod must be placed together, and 0 fit now; 1 is ready.": {Name: "train", Needed: 1,
			Ready: 1},
		"Pod group train: 64 pods must be placed together, and 12 fit now in rack=a; 1,000 are ready. Tried: 12 in " +
			"rack=a, 8 in rack=b, " +
			"2 in the cluster. The time was up: more may fit.": {
			Name: "train", Needed: 64, Ready: 1000, Fit: 12, Domain: "rack=a", Incomplete: true,
			Tried: []v1alpha1.DomainFit{{Domain: "rack=a", Fit: 12}, {Domain: "rack=b", Fit: 8}, {Fit: 2}},
		},
	} {
		if got := words.PodGroup(&g, true); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
