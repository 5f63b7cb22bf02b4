// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// killsVariable is the environment variable with the number of kills. The default suits every run
// of the suite.
const (
	killsVariable = "LIVESCHED_TEST_KILLS"
	defaultKills  = 8
)

// Profiles and policies change as fast as the API server allows, some changes are invalid, and
// livesched is killed at a random time. Then nothing changes until the next livesched has shown its
// active revisions: by the status and, because the status itself is under test, by the placement of
// a pod. Each generation of a profile requires another zone, and the policy determines which of the
// two nodes in the zone.
var _ = Describe("A livesched that is killed while profiles and policies change", func() {
	It("activates the revisions that the status named, and the status names the active revisions",
		func(ctx context.Context) {
			kills := defaultKills
			if text := os.Getenv(killsVariable); text != "" {
				var err error
				kills, err = strconv.Atoi(text)
				Expect(err).NotTo(HaveOccurred())
			}
			w := newChangingWorld(ctx, rand.New(rand.NewSource(GinkgoRandomSeed())))
			// At least one kill must happen while a profile runs on a last good spec. On a slow
			// machine there are few changes between two kills.
			for n := 0; n < kills || w.keptLastGood == 0; n++ {
				w.changeUntilKilled(ctx)
				w.expectRestored(ctx, fmt.Sprintf("kill %d", n+1))
			}
			GinkgoWriter.Printf("%d kills and %d more while starting; %d changes, %d of them invalid; profiles found "+
				"on a last good spec: %d; statuses found behind the spec: %d\n",
				w.round, w.whileStarting, w.changes, w.invalid, w.keptLastGood, w.unreported)
			Expect(w.changes).To(BeNumerically(">", kills))
		}, NodeTimeout(20*time.Minute))
})

const (
	zones        = 16
	zoneLabel    = "zone"
	changingPods = "100m"
)

// changingWorld records the applied specs by generation, as the API server has returned them.
type changingWorld struct {
	random *rand.Rand
	// livesched runs between expectRestored and changeUntilKilled.
	livesched *command
	round     int
	// specs has the meaning of specs by kind/name and generation.
	specs map[string]map[int64]meaning
	// Counters of what happened.
	changes, invalid, whileStarting, keptLastGood, unreported int
}

// meaning is the effect of a spec.
type meaning struct {
	valid bool
	// zone is the zone of a profile's pods, packs selects the node in the zone by the policy, and
	// policy is the policy that the profile builds on.
	zone   int
	packs  bool
	policy string
}

var (
	changingProfiles = []string{"p0", "p1", "p2"}
	changingPolicies = []string{"q0", "q1"}
)

func newChangingWorld(ctx context.Context, random *rand.Rand) *changingWorld {
	w := &changingWorld{random: random, specs: map[string]map[int64]meaning{}}
	for zone := range zones {
		labels := map[string]string{zoneLabel: strconv.Itoa(zone)}
		filler := objects.Pod("default", fmt.Sprintf("filler-%d", zone), "somebody-else", "4", "8Gi")
		filler.Spec.NodeName = nodeOf(zone, true)
		create(ctx, objects.Node(nodeOf(zone, true), "8", "16Gi", labels),
			objects.Node(nodeOf(zone, false), "8", "16Gi", labels), filler)
	}
	w.start(ctx)
	for _, name := range changingPolicies {
		object := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m := w.fill(&object.Spec)
		create(ctx, object)
		w.note("policy", object, m)
	}
	for _, name := range changingProfiles {
		object := profile(name)
		m := w.fillProfile(object)
		create(ctx, object)
		w.note("profile", object, m)
	}
	return w
}

func nodeOf(zone int, busy bool) string {
	if busy {
		return fmt.Sprintf("busy-%d", zone)
	}
	return fmt.Sprintf("idle-%d", zone)
}

func (w *changingWorld) start(ctx context.Context) {
	GinkgoHelper()
	w.livesched = livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false")
	w.livesched.expectReady(ctx)
}

func (w *changingWorld) note(kind string, object client.Object, m meaning) {
	key := kind + "/" + object.GetName()
	if w.specs[key] == nil {
		w.specs[key] = map[int64]meaning{}
	}
	w.specs[key][object.GetGeneration()] = m
}

// fill makes a random spec of a policy. One in three is invalid.
func (w *changingWorld) fill(spec *v1alpha1.SchedulingPolicySpec) meaning {
	m := meaning{valid: w.changes == 0 || w.random.Intn(3) > 0, packs: w.random.Intn(2) == 0}
	provider := v1alpha1.DefaultProvider
	if m.packs {
		provider = v1alpha1.ClusterAutoscalerProvider
	}
	// The parallelism makes most specs different.
	*spec = v1alpha1.SchedulingPolicySpec{
		AlgorithmSource:      &v1alpha1.AlgorithmSource{Provider: &provider},
		Parallelism:          ptr.To(int32(1 + w.random.Intn(50))),
		RevisionHistoryLimit: ptr.To(int32(1 + w.random.Intn(5))),
	}
	if !m.valid {
		spec.QueueSort = &v1alpha1.QueueSort{Name: "NoSuchPlugin"}
	}
	return m
}

// fillProfile makes a random spec of a profile, with another zone. One in three is invalid.
func (w *changingWorld) fillProfile(object *v1alpha1.SchedulerProfile) meaning {
	m := meaning{valid: w.changes == 0 || w.random.Intn(3) > 0, zone: w.random.Intn(zones),
		policy: changingPolicies[w.random.Intn(len(changingPolicies))]}
	args, err := json.Marshal(
		map[string]any{"addedAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
			"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{
				map[string]any{"key": zoneLabel, "operator": "In", "values": []any{strconv.Itoa(m.zone)}},
			}}},
		}}})
	Expect(err).NotTo(HaveOccurred())
	object.Spec = v1alpha1.SchedulerProfileSpec{
		PolicyRef:            v1alpha1.PolicyReference{Name: m.policy},
		PluginConfig:         []v1alpha1.PluginConfig{{Name: "NodeAffinity", Args: runtime.RawExtension{Raw: args}}},
		RevisionHistoryLimit: ptr.To(int32(1 + w.random.Intn(5))),
	}
	if !m.valid {
		object.Spec.PluginConfig = append(object.Spec.PluginConfig, v1alpha1.PluginConfig{Name: "NoSuchPlugin"})
	}
	return m
}

// change changes one object.
func (w *changingWorld) change(ctx context.Context) {
	GinkgoHelper()
	var m meaning
	Expect(retry.RetryOnConflict(testcluster.Patience, func() error {
		if w.random.Intn(3) == 0 {
			object := &v1alpha1.SchedulingPolicy{}
			if err := k8s.Get(ctx, client.ObjectKey{Name: changingPolicies[w.random.Intn(len(changingPolicies))]},
				object); err != nil {
				return err
			}
			m = w.fill(&object.Spec)
			err := k8s.Update(ctx, object)
			if err == nil {
				w.note("policy", object, m)
			}
			return err
		}
		object := &v1alpha1.SchedulerProfile{}
		if err := k8s.Get(ctx, client.ObjectKey{Name: changingProfiles[w.random.Intn(len(changingProfiles))]},
			object); err != nil {
			return err
		}
		m = w.fillProfile(object)
		err := k8s.Update(ctx, object)
		if err == nil {
			w.note("profile", object, m)
		}
		return err
	})).To(Succeed())
	w.changes++
	if !m.valid {
		w.invalid++
	}
}

// changeUntilKilled changes objects while livesched runs, and kills it. Then it may make changes
// while no livesched runs, and may kill the next livesched during its start.
func (w *changingWorld) changeUntilKilled(ctx context.Context) {
	GinkgoHelper()
	w.killWithin(400*time.Millisecond, func() { w.change(ctx) })
	if w.random.Intn(2) == 0 {
		for range 1 + w.random.Intn(3) {
			w.change(ctx)
		}
	}
	if w.random.Intn(3) == 0 {
		w.livesched = livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false")
		w.killWithin(1500*time.Millisecond, func() {})
		w.whileStarting++
	}
	w.round++
}

// killWithin kills livesched at a random time, and calls meanwhile until the process has ended.
func (w *changingWorld) killWithin(while time.Duration, meanwhile func()) {
	GinkgoHelper()
	c := w.livesched
	timer := time.AfterFunc(time.Duration(w.random.Int63n(int64(while))), func() {
		defer GinkgoRecover()
		Expect(c.cmd.Process.Kill()).To(Succeed())
	})
	defer timer.Stop()
	for {
		meanwhile()
		select {
		case <-c.ended:
			Expect(c.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()).To(Equal(syscall.SIGKILL), c.output.String())
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// expectRestored starts livesched, and compares its active revisions with what the previous one had
// reported and stored.
func (w *changingWorld) expectRestored(ctx context.Context, what string) {
	GinkgoHelper()
	By(what)
	said, stored := w.said(ctx), map[string][]history.Revision{}
	for name, p := range said {
		all, err := history.List(ctx, k8s, metav1.NamespaceDefault, history.KindProfile, name)
		Expect(err).NotTo(HaveOccurred())
		stored[name] = history.Of(all, p.UID)
		if p.Status.Active != nil {
			Expect(stored[name]).
				To(ContainElement(Satisfy(func(r history.Revision) bool { return covers(&r, p.Status.Active) })),
					"%s: status names generation %d of %s on %+v, which is not stored", what,
					p.Status.Active.Generation, name, p.Status.Active.Policy)
		}
	}
	policies := w.lastGoodPolicies(ctx)

	w.start(ctx)
	w.settle(ctx)
	for name, p := range w.said(ctx) {
		before, mean := said[name], w.specs["profile/"+name]
		Expect(p.Generation).To(Equal(before.Generation), "nothing changes")
		present := mean[p.Generation]
		policy, usable := policies[present.policy]
		active := p.Status.Active
		told := fmt.Sprintf(
			"%s: %s, generation %d (%+v), policy generation %d; before: active %+v, stored %v; now: active %+v",
			what, name,
			p.Generation, present, policy, shown(before.Status.Active), storedShown(stored[name]), shown(active))
		if before.Status.ObservedGeneration != before.Generation {
			w.unreported++
		}
		if present.valid && usable {
			Expect(active).NotTo(BeNil(), told)
			Expect(active.Generation).To(Equal(p.Generation), told)
			Expect(active.Policy.Generation).To(Equal(policy), told)
			Expect(meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProgrammed)).To(BeTrue(), told)
		} else {
			w.keptLastGood++
			Expect(meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionAccepted)).To(BeTrue(), told)
			w.expectKept(before, active, stored[name], told)
		}
		if active != nil {
			w.expectPlacedBy(ctx, name, active, told)
		}
	}
}

// expectKept expects the newest stored revision. The status names it, unless the process was killed
// before it wrote the status.
func (w *changingWorld) expectKept(before *v1alpha1.SchedulerProfile, active *v1alpha1.ActiveProfile,
	stored []history.Revision, told string) {
	GinkgoHelper()
	if len(stored) == 0 {
		Expect(active).To(BeNil(), told)
		return
	}
	newest := stored[len(stored)-1]
	Expect(active).NotTo(BeNil(), told)
	Expect(active.Generation).To(Equal(newest.Generation), told)
	Expect(active.Policy.Name).To(Equal(newest.Policy.Name), told)
	Expect(active.Policy.Generation).To(Equal(newest.Policy.Generation), told)
	if was := before.Status.Active; was != nil && before.Status.ObservedGeneration == before.Generation &&
		was.Revision == newest.Hash {
		Expect(active).To(Equal(was), told)
	}
	if was := before.Status.Active; was != nil {
		Expect(active.Generation).To(BeNumerically(">=", was.Generation), told)
	}
}

// expectPlacedBy expects a pod on the node that the active revision determines.
func (w *changingWorld) expectPlacedBy(ctx context.Context, name string, active *v1alpha1.ActiveProfile, told string) {
	GinkgoHelper()
	spec, ok := w.specs["profile/"+name][active.Generation]
	Expect(ok).To(BeTrue(), told)
	Expect(spec.valid).To(BeTrue(), told)
	policy, ok := w.specs["policy/"+active.Policy.Name][active.Policy.Generation]
	Expect(ok).To(BeTrue(), told)
	Expect(policy.valid).To(BeTrue(), told)
	Expect(active.Policy.Name).To(Equal(spec.policy), told)
	pod := objects.Pod("default", fmt.Sprintf("%s-%d", name, w.round), name, changingPods, "200Mi")
	create(ctx, pod)
	expectBound(ctx, pod)
	Expect(pod.Spec.NodeName).To(Equal(nodeOf(spec.zone, policy.packs)), told)
	Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
}

// said returns the profiles with their status.
func (w *changingWorld) said(ctx context.Context) map[string]*v1alpha1.SchedulerProfile {
	GinkgoHelper()
	all := map[string]*v1alpha1.SchedulerProfile{}
	for _, name := range changingProfiles {
		p := profile(name)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		all[name] = p
	}
	return all
}

// lastGoodPolicies returns the generations of the policies that are active after a restart, by
// name: the current one if it is valid, else the last stored one. It omits policies without either.
func (w *changingWorld) lastGoodPolicies(ctx context.Context) map[string]int64 {
	GinkgoHelper()
	all := map[string]int64{}
	for _, name := range changingPolicies {
		p := &v1alpha1.SchedulingPolicy{}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
		stored, err := history.List(ctx, k8s, metav1.NamespaceDefault, history.KindPolicy, name)
		Expect(err).NotTo(HaveOccurred())
		stored = history.Of(stored, p.UID)
		if w.specs["policy/"+name][p.Generation].valid {
			all[name] = p.Generation
		} else if len(stored) > 0 {
			all[name] = stored[len(stored)-1].Generation
		}
	}
	return all
}

// settle waits until livesched has reported on all objects.
func (w *changingWorld) settle(ctx context.Context) {
	GinkgoHelper()
	for i := range 2 {
		marker := &v1alpha1.SchedulingPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("marker-%d-%d", w.round, i)}}
		create(ctx, marker)
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(marker), marker)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(marker.Status.Conditions, v1alpha1.ConditionProgrammed)).To(BeTrue())
		}).WithContext(ctx).Should(Succeed(), w.livesched.output.String)
	}
}

// covers reports whether a stored revision is the one that the status names, possibly with a later
// generation.
func covers(r *history.Revision, active *v1alpha1.ActiveProfile) bool {
	return r.Hash == active.Revision && r.Generation >= active.Generation && r.Policy != nil &&
		r.Policy.Name == active.Policy.Name && r.Policy.Generation >= active.Policy.Generation
}

func shown(active *v1alpha1.ActiveProfile) string {
	if active == nil {
		return "none"
	}
	return fmt.Sprintf("%s of generation %d on generation %d of %s", active.Revision, active.Generation,
		active.Policy.Generation, active.Policy.Name)
}

func storedShown(all []history.Revision) []string {
	var texts []string
	for _, r := range all {
		texts = append(texts, fmt.Sprintf("%d: %s of generation %d on generation %d of %s", r.Number, r.Hash,
			r.Generation, r.Policy.Generation, r.Policy.Name))
	}
	return texts
}
