// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// Where no pod has a lower priority than the preemptor, upstream is not called, and would have
// returned the same.
func TestPreemptionWithoutVictimsMatchesUpstream(t *testing.T) {
	p := newEnvironment(t)
	r := rand.New(rand.NewPCG(20261121, 0))
	preemptors := map[int32]*corev1.Pod{}
	for _, priority := range []int32{0, 10} {
		preemptors[priority] = p.pending(priority)
	}
	answered, left := 0, 0
	for i := range 200 {
		nodes := 1 + r.IntN(6)
		lowest := p.randomResidents(r, i, nodes)
		must(t, p.cache.UpdateSnapshot(logr.Discard(), p.snapshot))
		statuses, version := randomStatuses(r, i, nodes), uint64(r.IntN(2)*i) // 0: must not be reused
		for priority, pod := range preemptors {
			where := fmt.Sprintf("world %d, priority %d", i, priority)
			pod := pod.DeepCopy()
			never := r.IntN(8) == 0
			if never {
				pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
			}
			message, ok := p.plugin.noVictims.message(&p.plugin.finder, version, pod, statuses)
			if want := lowest >= priority && !never; ok != want {
				t.Fatalf("%s: answered: %v, the lowest priority on nodes is %d", where, ok, lowest)
			}
			if !ok {
				left++
				continue
			}
			answered++
			again, _ := p.plugin.noVictims.message(&p.plugin.finder, version, pod, statuses)
			result, status := p.plugin.PostFilter(p.ctx, schedframework.NewCycleState(), pod, statuses)
			wantResult, want := p.plugin.DefaultPreemption.PostFilter(p.ctx, schedframework.NewCycleState(), pod,
				statuses)
			if status.Code() != want.Code() || status.Message() != want.Message() ||
				*result.NominatingInfo != *wantResult.NominatingInfo {
				t.Fatalf("%s:\n got %v %q\nwant %v %q", where, status.Code(), status.Message(), want.Code(),
					want.Message())
			}
			if message != want.Message() || again != want.Message() {
				t.Fatalf("%s: the answers are %q and %q", where, message, again)
			}
		}
		p.clearResidents(i, nodes)
	}
	if answered < 50 || left < 50 {
		t.Errorf("%d were answered, %d left to upstream: too few of one kind", answered, left)
	}
}

func residence(world, node int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("world-%d-node-%d", world, node)}}
}

// randomResidents makes nodes with pods, and returns the lowest priority of these.
func (p *environment) randomResidents(r *rand.Rand, world, nodes int) (lowest int32) {
	lowest = 1 << 30
	for node := range nodes {
		p.cache.AddNode(logr.Discard(), residence(world, node))
		for i := range r.IntN(3) {
			priority := int32(r.IntN(3)) * 10
			lowest = min(lowest, priority)
			name := fmt.Sprintf("world-%d-pod-%d-%d", world, node, i)
			must(p.t, p.cache.AddPod(logr.Discard(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
				Spec:       corev1.PodSpec{NodeName: residence(world, node).Name, Priority: ptr.To(priority)},
			}))
		}
	}
	return lowest
}

func (p *environment) clearResidents(world, nodes int) {
	for node := range nodes {
		info, err := p.snapshot.Get(residence(world, node).Name)
		must(p.t, err)
		for _, pod := range info.GetPods() {
			must(p.t, p.cache.RemovePod(logr.Discard(), pod.GetPod()))
		}
		must(p.t, p.cache.RemoveNode(logr.Discard(), residence(world, node)))
	}
}

// randomStatuses rejects nodes in ways that removing pods could resolve, or could not.
func randomStatuses(r *rand.Rand, world, nodes int) *schedframework.NodeToStatus {
	absent := []fwk.Code{fwk.Unschedulable, fwk.UnschedulableAndUnresolvable}[r.IntN(2)]
	statuses := schedframework.NewNodeToStatus(map[string]*fwk.Status{}, fwk.NewStatus(absent, "absent"))
	for node := range nodes {
		switch r.IntN(3) {
		case 0:
			statuses.Set(residence(world, node).Name, fwk.NewStatus(fwk.Unschedulable, "full"))
		case 1:
			statuses.Set(residence(world, node).Name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another"))
		}
	}
	return statuses
}
