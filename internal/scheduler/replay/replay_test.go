// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/replay"
	"github.com/livesched/livesched/internal/scheduler/replay/report"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// step does something at random, mostly a decision, which may be about a group.
func (w *world) step() {
	w.Helper()
	switch chance := w.random.IntN(100); {
	case chance < 10:
		w.randomGroup()
	case chance < 60:
		pod := w.newPod()
		w.put(pod)
		w.place(pod)
	case chance < 70 && len(w.pending) > 0:
		i := w.random.IntN(len(w.pending))
		pod := w.pending[i]
		w.pending = slices.Delete(w.pending, i, i+1)
		w.place(pod)
	case chance < 90 && len(w.assumed) > 0:
		i := w.random.IntN(len(w.assumed))
		w.confirm(w.assumed[i])
		w.assumed = slices.Delete(w.assumed, i, i+1)
	case chance < 91:
		w.decideInVain()
	case chance < 94:
		w.addNode()
	case chance < 95 && len(w.running) > 0:
		i := w.random.IntN(len(w.running))
		w.must(w.objects.Remove(w.running[i]))
		w.must(w.Cache.RemovePod(logr.Discard(), w.running[i]))
		w.running = slices.Delete(w.running, i, i+1)
		w.undisturbed = 0
	case chance < 96:
		w.relabel()
	case chance < 97:
		pod := w.newPod()
		pod.Spec.NodeName, pod.Spec.SchedulerName = w.nodes[0].Name, "another"
		w.put(pod)
		w.must(w.Cache.AddPod(logr.Discard(), pod))
		w.undisturbed = 0
	}
}

// place decides a pod, and assumes it if it fits.
func (w *world) place(pod *corev1.Pod) {
	w.Helper()
	if assumed := w.decide(pod, decisionlog.Binding); assumed != nil {
		w.assumed = append(w.assumed, assumed)
		return
	}
	w.pending = append(w.pending, pod)
}

// decideInVain decides a pod that is not bound: that fails, or another pod of its group fits
// nowhere, so that it is not even assumed.
func (w *world) decideInVain() {
	w.Helper()
	pod := w.newPod()
	w.put(pod)
	w.decide(pod, pick(w.random, decisionlog.BindFailed, decisionlog.Unschedulable))
	w.pending = append(w.pending, pod)
}

// relabel changes a node.
func (w *world) relabel() {
	w.Helper()
	i := w.random.IntN(len(w.nodes))
	changed := w.nodes[i].DeepCopy()
	changed.Labels["example.com/pool"] = w.name("pool")
	w.put(changed)
	w.Cache.UpdateNode(logr.Discard(), w.nodes[i], changed)
	w.nodes[i] = changed
	w.undisturbed = 0
}

func TestEveryDecisionSinceTheLatestOtherChangeIsReproduced(t *testing.T) {
	seed := rand.Uint64()
	for run := range uint64(6) {
		for _, path := range []sidebyside.Path{sidebyside.FastPath, sidebyside.ScalarPath} {
			t.Run(fmt.Sprintf("%s, seed %d", path, seed+run), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, seed+run, path, nil)
				w.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default",
					Labels: map[string]string{"kind": "shared"}}},
					&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
				for range 8 {
					w.addNode()
				}
				for range 6 {
					for range 30 {
						w.step()
					}
					for _, redacted := range []bool{false, true} {
						snapshot := w.snapshot(redacted)
						result := w.replay(snapshot)
						for _, d := range result.Different {
							t.Errorf("redacted=%v: decision %d about %s differs: then %s, now %s", redacted,
								d.Decision.Number, d.Pod, d.Then, d.Now)
						}
						left := result.Left[report.Changed] + result.Left[report.PodGone]
						if result.Same < w.undisturbed || result.Same+left != result.Decisions ||
							result.Decisions != w.all {
							t.Errorf("redacted=%v: %+v; %d of %d decisions should be reproduced", redacted, result,
								w.undisturbed, w.all)
						}
					}
				}
			})
		}
	}
}

// placed is a world with two nodes and some pods on them.
func placed(t *testing.T) (*world, *corev1.Pod) {
	t.Helper()
	w := newWorld(t, 1, sidebyside.FastPath, nil)
	w.addNode()
	w.addNode()
	var last *corev1.Pod
	for range 3 {
		w.place(w.plainPod())
		last = w.assumed[len(w.assumed)-1]
		w.confirm(last)
	}
	return w, last
}

// TestWhatDiffersIsReported changes what was recorded.
func TestWhatDiffersIsReported(t *testing.T) {
	w, last := placed(t)
	for name, change := range map[string]func(*capture.Decision){
		"another node, which is not one of the best": func(d *capture.Decision) { d.Node = "nowhere" },
		"another number of nodes":                    func(d *capture.Decision) { d.Feasible++ },
		"another total":                              func(d *capture.Decision) { d.Total++ },
		"another number of best nodes":               func(d *capture.Decision) { d.Tied++ },
		"a pod that fitted nowhere": func(d *capture.Decision) {
			d.Result, d.Node = "Unschedulable", ""
		},
	} {
		snapshot := w.snapshot(false)
		change(&snapshot.Decisions[2])
		if snapshot.Decisions[2].Node == "" { // it was not placed by the decision that is said to have failed
			snapshot.Header.Changes--
			i := slices.IndexFunc(snapshot.Pods, func(p *corev1.Pod) bool { return p.UID == last.UID })
			snapshot.Pods[i].Spec.NodeName = ""
			snapshot.Pending, snapshot.Pods = append(snapshot.Pending, snapshot.Pods[i]),
				slices.Delete(snapshot.Pods, i, i+1)
		}
		result := w.replay(snapshot)
		if len(result.Different) != 1 || result.Same != 2 {
			t.Errorf("%s: %+v", name, result)
			continue
		}
		if d := result.Different[0]; d.Decision.Number != 3 || d.Pod == "" || d.Then == d.Now {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestAPartialDecisionHasCountsOfItsOwn: how many nodes fit and are best depends on which were
// evaluated.
func TestAPartialDecisionHasCountsOfItsOwn(t *testing.T) {
	w, _ := placed(t)
	for name, test := range map[string]struct {
		change func(*capture.Decision)
		same   int
	}{
		"other counts":  {func(d *capture.Decision) { d.Feasible, d.Tied = 1, 1 }, 3},
		"another total": {func(d *capture.Decision) { d.Total++ }, 2},
		"another node":  {func(d *capture.Decision) { d.Node = "nowhere" }, 2},
	} {
		snapshot := w.snapshot(false)
		snapshot.Decisions[2].Partial = true
		test.change(&snapshot.Decisions[2])
		if result := w.replay(snapshot); result.Same != test.same || len(result.Different) != 3-test.same {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

// TestWhatCannotBeReproducedHasAReason changes a snapshot so that the last decision cannot be made
// again.
func TestWhatCannotBeReproducedHasAReason(t *testing.T) {
	w, last := placed(t)
	find := func(s *capture.Snapshot) *corev1.Pod {
		for _, pod := range s.Pods {
			if pod.UID == last.UID {
				return pod
			}
		}
		t.Fatal("the pod is not in the snapshot")
		return nil
	}
	differ := func(s *capture.Snapshot) { s.Decisions[2].Total++ }
	for reason, change := range map[report.Reason]func(*capture.Snapshot){
		report.PodGone: func(s *capture.Snapshot) {
			s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return p.UID == last.UID })
		},
		report.DecisionFailed: func(s *capture.Snapshot) { s.Decisions[2].Result = "Failed" },
		report.OtherProfile:   func(s *capture.Snapshot) { s.Decisions[2].Revision = "older" },
		report.Nominated:      func(s *capture.Snapshot) { s.Decisions[2].Nominated = true },
		report.InDomain:       func(s *capture.Snapshot) { s.Decisions[2].InDomain = true }, // of an older version
		report.Changed:        func(s *capture.Snapshot) { s.Header.Changes++ },
		report.NoDevices: func(s *capture.Snapshot) {
			s.Header.Redacted = true
			find(s).Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		},
		report.Selected: func(s *capture.Snapshot) {
			differ(s)
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: last.Namespace, Name: "s",
				CreationTimestamp: metav1.NewTime(s.Decisions[2].Time)}}
			service.Spec.Selector = map[string]string{"app": last.Labels["app"]}
			s.Objects = append(s.Objects, service)
		},
		report.Claims: func(s *capture.Snapshot) {
			differ(s)
			find(s).Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
			}}}
		},
		report.Extenders: func(s *capture.Snapshot) {
			s.Policies[0].Spec.Extenders = []v1alpha1.Extender{
				{URLPrefix: "https://extender.svc", FilterVerb: "filter"}}
			s.Header.Redacted = true // the revision is another one
		},
		report.Sampled: func(s *capture.Snapshot) {
			s.Profiles[0].Spec.PercentageOfNodesToScore = ptr.To(int32(50))
			s.Header.Redacted, s.Decisions[2].Evaluated = true, 1
		},
	} {
		snapshot := w.snapshot(false)
		change(snapshot)
		result := w.replay(snapshot)
		if result.Left[reason] == 0 || len(result.Different) > 0 || reason.Describe() == "" {
			t.Errorf("%s: %+v", reason, result)
		}
	}
	if len(report.Reasons) != 11 {
		t.Errorf("there are %d reasons", len(report.Reasons))
	}
}

// While a profile is rolled out, its object has the spec of the canary: the decisions of that
// revision are made again, and those of the stable one are left out.
func TestTheDecisionsOfACanaryAreMadeAgain(t *testing.T) {
	w, _ := placed(t)
	snapshot := w.snapshot(false)
	stable := snapshot.Header.Profiles[0]
	stable.Revision, stable.Reproducible = "stable", false
	for _, profiles := range [][]capture.Profile{
		{stable, snapshot.Header.Profiles[0]}, {snapshot.Header.Profiles[0], stable},
	} {
		snapshot := w.snapshot(false)
		snapshot.Header.Profiles = profiles
		snapshot.Decisions[1].Revision = "stable"
		result := w.replay(snapshot)
		if result.Same != 2 || result.Left[report.OtherProfile] != 1 || len(result.Different) > 0 {
			t.Errorf("%+v", result)
		}
	}
}

func TestFeatureGatesThatKubernetesHasRemovedAreIgnored(t *testing.T) {
	w := newWorld(t, 1, sidebyside.FastPath, nil)
	w.addNode()
	snapshot := w.snapshot(false)
	for gate, known := range map[string]bool{"GangScheduling": true, "WorkloadAwarePreemption": true, "New": false} {
		snapshot.Header.FeatureGates = map[string]bool{gate: true}
		state, err := replay.Open(t.Context(), snapshot)
		if (err == nil) != known {
			t.Errorf("%s: %v", gate, err)
		}
		if err == nil {
			state.Close()
		}
	}
}

func TestAProfileThatCannotBeUsedIsNamed(t *testing.T) {
	w, _ := placed(t)
	snapshot := w.snapshot(false)
	plugin := v1alpha1.Plugin{Name: "OutOfTree"}
	snapshot.Profiles[0].Spec.Plugins = &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{plugin}}}
	s := w.state(snapshot)
	if err := s.Unusable()["mine"]; err == nil || !strings.Contains(err.Error(), "OutOfTree") {
		t.Errorf("got %v", err)
	}
	result, err := s.Decide(t.Context())
	if err != nil || result.Left[report.OtherProfile] != 3 {
		t.Errorf("got %+v, %v", result, err)
	}
}

// TestANewProfileIsSimulated compares the profile of a snapshot with one that packs pods.
func TestANewProfileIsSimulated(t *testing.T) {
	for _, redacted := range []bool{false, true} {
		w, _ := placed(t)
		snapshot := w.snapshot(redacted)
		s := w.state(snapshot)
		packed := *objects.Profile(snapshot.Profiles[0].Name,
			`{"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
		  "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}`)
		changes, err := s.Changes([]v1alpha1.SchedulerProfile{packed}, nil)
		w.must(err)
		k, err := s.Fork(t.Context())
		w.must(err)
		defer k.Close()
		status, err := simulate.Run(t.Context(), k, simulate.Request{
			Pods:    simulate.Selection{Type: v1alpha1.PodsAll, Limit: simulate.MaxPods, Labels: labels.Everything()},
			Pending: snapshot.Pending, Changes: changes,
		})
		w.must(err)
		if status.Pods != 3 || status.New == nil || status.New.Unplaced != 0 {
			t.Errorf("redacted=%v: %+v", redacted, status)
		}
	}
	w, _ := placed(t)
	s := w.state(w.snapshot(false))
	for name, test := range map[string]struct {
		profile v1alpha1.SchedulerProfile
		want    string
	}{
		"a profile of another name": {*objects.Profile("other", "{}"),
			"change no profile of the snapshot, which are: mine"},
		"an invalid profile": {*objects.Profile("mine", `{"plugins": {"score": {"enabled": [{"name": "Nobody"}]}}}`),
			"Nobody"},
	} {
		if _, err := s.Changes([]v1alpha1.SchedulerProfile{test.profile}, nil); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestClaimsAreThoseOfTheSnapshot decides a pod whose volume is on one of two nodes: the volume
// binder knows volumes from the handlers of its informers.
func TestClaimsAreThoseOfTheSnapshot(t *testing.T) {
	w, _ := placed(t)
	snapshot := w.snapshot(false)
	at := snapshot.Nodes[1].Labels[corev1.LabelHostname]
	volume, claim := objects.VolumeOn("volume", "local", at), objects.ClaimOf("claim", "local")
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
		Name: claim.Name, UID: "claim"}
	volume.ResourceVersion, claim.ResourceVersion, claim.UID = "1", "2", "claim"
	claim.Spec.VolumeName, claim.Status.Phase = volume.Name, corev1.ClaimBound
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	snapshot.Objects = append(snapshot.Objects, volume, claim)
	pod := objects.PodOf("mine", "pending", objects.UsingClaim("claim"))
	pod.Namespace, pod.UID = claim.Namespace, "pending"
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	snapshot.Pending = append(snapshot.Pending, pod)
	snapshot.Nominations = append(snapshot.Nominations, capture.Nomination{Pod: pod.UID, Node: snapshot.Nodes[0].Name})

	k, err := w.state(snapshot).Fork(t.Context())
	w.must(err)
	defer k.Close()
	cfg, err := k.Profile("mine")
	w.must(err)
	instance, err := k.Instance(t.Context(), cfg)
	w.must(err)
	d, err := k.Decide(t.Context(), instance, pod)
	if err != nil || d.SuggestedHost != snapshot.Nodes[1].Name || d.FeasibleNodes != 1 {
		t.Errorf("the pod is on %q of %d nodes, %v; its volume is on %s", d.SuggestedHost, d.FeasibleNodes, err, at)
	}
}
