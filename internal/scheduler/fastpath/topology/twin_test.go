// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

var (
	twinSeed  = flag.Uint64("twin-seed", 0, "seed of the twins' test; 0 picks one at random")
	twinSteps = flag.Int("twin-steps", 10000, "steps of the twins' test")
)

// class is a pod's class with its twins.
type class struct {
	profile *profile
	pod     *corev1.Pod
	crosses [2]Tracker
	read    uint64
	// groups are from the last comparison; updated are the slots that were updated since.
	groups  [2]grouping
	updated map[cache.Slot]bool
}

// tried counts the cases, so that the test does not pass without them.
type tried struct {
	verdicts, scored, spreadScores, affinityScores, irrelevant, rebuilt int
	grouped, kept, moved, beside, besideRefused                         int
	refusals                                                            map[string]int
}

// run is one run of the test.
type run struct {
	*cluster
	tried
	profiles []*profile
	classes  []*class
}

// TestTwinsMatchThePlugins changes a random cluster and, at every step and for some classes of
// pods, compares the twins with upstream's plugins on every node: codes, messages, and scores over
// a random choice of nodes.
func TestTwinsMatchThePlugins(t *testing.T) {
	seed := *twinSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-twin-seed=%d", seed)
	c := newCluster(t, newGenerator(seed))
	r := &run{cluster: c, profiles: profiles(t, c), tried: tried{refusals: map[string]int{}}}
	if c.chance(25) {
		c.maxNodes, c.maxPods = 80, 500
	}
	for range c.maxNodes / 2 {
		c.addNode(c.node(c.name("node")))
	}
	for step := range *twinSteps {
		for range 1 + c.IntN(3) {
			c.step()
		}
		c.refresh()
		r.renew()
		for range 2 {
			r.compare(t, pick(c.generator, r.classes), fmt.Sprintf("seed %d step %d", seed, step))
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%+v", r.tried)
	for _, n := range []int{r.verdicts, r.scored, r.spreadScores, r.affinityScores, r.irrelevant, r.rebuilt, r.grouped,
		r.kept, r.moved, r.beside, r.besideRefused} {
		if n < *twinSteps/100 {
			t.Errorf("the run tried too little of something: %+v", r.tried)
			break
		}
	}
	if len(r.refusals) != 5 {
		t.Errorf("the run saw %d of 5 ways to refuse a node: %v", len(r.refusals), r.refusals)
	}
}

// renew makes a class now and then, which replaces another when there are enough.
func (r *run) renew() {
	if len(r.classes) > 0 && !r.chance(10) {
		return
	}
	made := &class{profile: pick(r.generator, r.profiles), pod: r.pod(), updated: map[cache.Slot]bool{}}
	if len(r.classes) < 12 {
		r.classes = append(r.classes, made)
		return
	}
	r.classes[r.IntN(len(r.classes))] = made
}

// sync updates the twins of a class as the fast path does.
func (r *run) sync(t *testing.T, k *class) {
	changes, ok := r.snapshot.Log().Since(k.read)
	k.read = r.snapshot.Log().End()
	for i, cross := range k.crosses {
		if !ok || cross != nil && cross.Stale() {
			k.crosses[i] = r.build(t, k, i)
			r.rebuilt++
			continue
		}
		if cross == nil {
			continue
		}
		for _, change := range changes {
			placed := change.Kind == cache.PodAdded || change.Kind == cache.PodRemoved
			if placed && change.Pod != 0 && !cross.Relevant(r.shapes[change.Pod]) {
				r.irrelevant++
				continue
			}
			cross.Update(change.Slot)
			k.updated[change.Slot] = true
		}
	}
}

func (r *run) build(t *testing.T, k *class, which int) Tracker {
	t.Helper()
	var cross Tracker
	var err error
	if which == 0 {
		cross, err = k.profile.sources.Spread(k.profile.spread, k.pod)
	} else {
		cross, err = k.profile.sources.Affinity(k.profile.affinity, k.pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cross
}

// compare compares both sides on all nodes.
func (r *run) compare(t *testing.T, k *class, where string) {
	r.sync(t, k)
	ctx := silent(t)
	fits := make([]bool, r.snapshot.Slots())
	for i, cross := range k.crosses {
		for slot, want := range verdicts(ctx, t, k.profile.plugins[i], r.snapshot, k.pod) {
			slot := cache.Slot(slot)
			if !r.snapshot.Alive(slot) {
				continue
			}
			got := cross == nil || accepts(cross, slot)
			r.verdicts++
			if cross != nil {
				r.compareRefusal(t, cross.Refusal(slot), want, where)
			}
			if got != want.IsSuccess() {
				t.Errorf("%s: %s of %s on %s: fits: %t, plugin: %v", where, k.profile.plugins[i].Name(), k.pod.Name,
					r.snapshot.Info(slot).Node().Name, got, want)
			}
			fits[slot] = (i == 0 || fits[slot]) && want.IsSuccess()
			if !want.IsSuccess() {
				r.refusals[want.Message()]++
			}
		}
	}
	r.compareKept(t, k, fits, where)
	r.compareBeside(t, k, where)
	r.compareScores(t, k, r.feasible(fits), where)
	r.compareGroups(t, k, where)
}

// compareRefusal compares the status of a twin with the plugin's, which lacks its name.
func (r *run) compareRefusal(t *testing.T, got, want *fwk.Status, where string) {
	if got.Code() != want.Code() || got.Message() != want.Message() {
		t.Errorf("%s: the status is %v (%v), the plugin's is %v (%v)", where, got, got.Code(), want, want.Code())
	}
}

// accepts reports whether a twin accepts one node.
func accepts(cross Tracker, slot cache.Slot) bool { return len(cross.Keep([]cache.Slot{slot})) == 1 }

// compareKept makes the twins filter a list of nodes, which must have the same result as filtering
// each node.
func (r *run) compareKept(t *testing.T, k *class, fits []bool, where string) {
	kept := r.order()
	want := slices.DeleteFunc(slices.Clone(kept), func(slot cache.Slot) bool { return !fits[slot] })
	for _, cross := range k.crosses {
		if cross != nil {
			kept = cross.Keep(kept)
		}
	}
	if !slices.Equal(kept, want) {
		t.Errorf("%s: %s fits the slots %v, of a list it keeps %v", where, k.pod.Name, want, kept)
	}
}

// compareBeside adds pods to one node after the other, as if they were nominated to it.
func (r *run) compareBeside(t *testing.T, k *class, where string) {
	pods := make([]fwk.PodInfo, 1+r.IntN(2))
	for i := range pods {
		info, err := schedframework.NewPodInfo(r.pod())
		if err != nil {
			t.Fatal(err)
		}
		pods[i] = info
	}
	for i, cross := range k.crosses {
		if cross == nil {
			continue
		}
		of := cross.Beside(pods)
		for slot, want := range verdictsBeside(silent(t), t, k.profile.plugins[i], r.snapshot, k.pod, pods) {
			slot := cache.Slot(slot)
			if !r.snapshot.Alive(slot) || !accepts(cross, slot) {
				continue
			}
			r.beside++
			if !want.IsSuccess() {
				r.besideRefused++
			}
			if got := cross.KeepsBeside(slot, &of); got != want.IsSuccess() {
				t.Errorf("%s: %s of %s on %s beside others: fits: %t, plugin: %v", where, k.profile.plugins[i].Name(),
					k.pod.Name, r.snapshot.Info(slot).Node().Name, got, want)
			}
		}
	}
}

// feasible chooses the nodes to score: those that pass both plugins, or any nodes.
func (r *run) feasible(fits []bool) []cache.Slot {
	var slots []cache.Slot
	arbitrary := r.chance(50)
	share := 1 + r.IntN(100)
	for _, slot := range r.order() {
		if arbitrary && r.chance(share) || !arbitrary && fits[slot] {
			slots = append(slots, slot)
		}
	}
	return slots
}

func (r *run) compareScores(t *testing.T, k *class, feasible []cache.Slot, where string) {
	if len(feasible) == 0 {
		return
	}
	for i, cross := range k.crosses {
		want := normalized(silent(t), t, k.profile.plugins[i], r.snapshot, k.pod, feasible)
		got := make([]int64, len(feasible))
		for i := range got {
			got[i] = -9 // any earlier value
		}
		if cross == nil || !cross.Score(feasible, nil, got) {
			clear(got)
		}
		if want == nil {
			want = make([]int64, len(feasible))
		}
		r.scored++
		if slices.Max(want) != slices.Min(want) {
			*[]*int{&r.spreadScores, &r.affinityScores}[i]++
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s of %s: scores %v, the plugin gives %v", where, k.profile.plugins[i].Name(), k.pod.Name,
				got, want)
		}
	}
}
