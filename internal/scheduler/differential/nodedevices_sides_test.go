// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/test/sidebyside"
)

// deviceSides are kube-scheduler and livesched with the default profile. livesched has one instance
// for the scalar path, one for the fast path, and one for the fast path that finds all nodes. Each
// has the claims in its own assume cache.
type deviceSides struct {
	ctx     context.Context
	objects sidebyside.Objects
	theirs  *sidebyside.KubeScheduler
	mine    []*sidebyside.Livesched
}

// deviceDecision is the decision of kube-scheduler, with those of each instance of livesched.
type deviceDecision struct {
	sidebyside.Decision
	mine []sidebyside.Decision
	// onFastPath means that the fast path decided about claims, partial that it did not evaluate
	// all nodes.
	onFastPath, partial bool
}

func (d *deviceDecision) mentions(word string) bool { return strings.Contains(fmt.Sprint(d.Err), word) }

func newDeviceSides(t *testing.T, listed []runtime.Object) (deviceSides, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	s := deviceSides{ctx: ctx, objects: sidebyside.NewObjectsOf(listed...)}
	configuration := &sidebyside.Configuration{Parallelism: 1, Profile: configv1.KubeSchedulerProfile{
		SchedulerName: ptr.To(schedulerName), PercentageOfNodesToScore: ptr.To(int32(100))}}
	var err error
	if s.theirs, err = sidebyside.NewKubeScheduler(ctx, s.objects, configuration, nil); err != nil {
		t.Fatal(err)
	}
	for i, path := range []sidebyside.Path{sidebyside.ScalarPath, sidebyside.FastPath, sidebyside.FastPath} {
		side, err := sidebyside.NewLivesched(ctx, s.objects, configuration, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		side.EveryNode, side.Scored = i == 2, decisionlog.TopNodes
		s.mine = append(s.mine, side)
	}
	return s, cancel
}

func (s *deviceSides) close() {
	s.theirs.Close()
	for _, side := range s.mine {
		side.Close()
	}
}

// managers returns the managers of all sides, kube-scheduler's first.
func (s *deviceSides) managers() []fwk.ResourceClaimTracker {
	all := []fwk.ResourceClaimTracker{s.theirs.Framework.SharedDRAManager().ResourceClaims()}
	for _, side := range s.mine {
		all = append(all, side.Devices.ResourceClaims())
	}
	return all
}

// addClass makes all sides know which resource a class of devices backs. before is the class until
// now, nil for a new one.
func (s *deviceSides) addClass(before, class *resourcev1.DeviceClass) {
	all := []fwk.SharedDRAManager{s.theirs.Framework.SharedDRAManager()}
	for _, side := range s.mine {
		all = append(all, side.Devices)
	}
	for _, manager := range all {
		resolver := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
		if before == nil {
			resolver.OnAdd(class, true)
		} else {
			resolver.OnUpdate(before, class)
		}
	}
}

// awaitClaims waits until all sides have heard of the claims.
func (s *deviceSides) awaitClaims(t *testing.T, claims []*resourcev1.ResourceClaim) {
	t.Helper()
	known := func(context.Context) (bool, error) {
		for _, manager := range s.managers() {
			for _, claim := range claims {
				if _, err := manager.Get(claim.Namespace, claim.Name); err != nil {
					return false, nil //nolint:nilerr // it is not known yet
				}
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextTimeout(s.ctx, time.Millisecond, 30*time.Second, true, known); err != nil {
		t.Fatalf("waiting for the claims: %v", err)
	}
}

// decideAll lets all sides decide, and compares the decisions.
func (s *deviceSides) decideAll(t *testing.T, pod *corev1.Pod) *deviceDecision {
	t.Helper()
	d := &deviceDecision{Decision: s.theirs.Decide(pod)}
	for _, side := range s.mine {
		d.mine = append(d.mine, side.Decide(pod))
	}
	scalar, fast := s.mine[0].Result, s.mine[1].Result
	d.onFastPath, d.partial = fast.Class.ID != 0 && len(pod.Spec.ResourceClaims) > 0, fast.Partial
	for i, got := range d.mine {
		if (got.Err == nil) != (d.Err == nil) ||
			got.Err != nil && withoutChoice(got.Err.Error()) != withoutChoice(d.Err.Error()) {
			t.Fatalf("%s, path %d: kube-scheduler: %v, on %q; livesched: %v, on %q", pod.Name, i, d.Err, d.Host,
				got.Err, got.Host)
		}
		partial := i == 1 && d.partial && got.Feasible < d.Feasible
		if got.Err == nil && got.Feasible != d.Feasible && !partial {
			t.Fatalf("%s, path %d: the pod fits on %d nodes of kube-scheduler, on %d of livesched", pod.Name, i,
				d.Feasible, got.Feasible)
		}
	}
	if d.Err != nil {
		return d
	}
	if every := s.mine[2].Result; scalar.Total != every.Total || scalar.TiedNodes != every.TiedNodes ||
		scalar.FeasibleNodes > 1 && scalar.Total != fast.Total {
		t.Fatalf("%s: the total of %d nodes is %d on the scalar path, of %d is %d on the fast path; %d of the best "+
			"first", pod.Name, scalar.TiedNodes, scalar.Total, every.TiedNodes, every.Total, fast.Total)
	}
	s.compareNodes(t, pod, d)
	return d
}

// compareNodes filters nodes again, each side with the state of its decision, and compares the
// answers and what the devices would take. Of many nodes, it takes some.
func (s *deviceSides) compareNodes(t *testing.T, pod *corev1.Pod, d *deviceDecision) {
	t.Helper()
	nodes, err := s.theirs.Framework.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	step := max(1, len(nodes)/10)
	for i, node := range nodes {
		name := node.Node().Name
		if i%step != 0 && name != d.mine[1].Host && name != d.mine[2].Host {
			continue
		}
		want := s.theirs.Framework.RunFilterPlugins(s.ctx, d.State, pod, node)
		for i, side := range s.mine {
			info, err := side.Snapshot.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 { // the state of a decision on the fast path does not have what others know
				if d.mine[i].Host != name {
					continue
				}
				if !want.IsSuccess() {
					t.Fatalf("%s does not fit %s: %s", pod.Name, name, describe(want))
				}
				if len(pod.Spec.ResourceClaims) > 0 {
					s.compareTaken(t, pod, name, d, i)
				}
				s.tryReserve(t, pod, d, i)
				continue
			}
			got := side.Profile.Framework.RunFilterPlugins(s.ctx, d.mine[i].State, pod, info)
			if describe(want) != describe(got) {
				t.Fatalf("%s on %s: kube-scheduler: %s, livesched: %s", pod.Name, name, describe(want), describe(got))
			}
			if want.IsSuccess() {
				s.compareTaken(t, pod, name, d, i)
			}
		}
	}
}

// tryReserve reserves the devices of a decision, and gives them back.
func (s *deviceSides) tryReserve(t *testing.T, pod *corev1.Pod, d *deviceDecision, i int) {
	t.Helper()
	f, state, host := s.mine[i].Profile.Framework, d.mine[i].State, d.mine[i].Host
	if status := f.RunReservePluginsReserve(s.ctx, state, pod, host); !status.IsSuccess() {
		t.Fatalf("%s, path %d: reserving on %s: %s", pod.Name, i, host, describe(status))
	}
	f.RunReservePluginsUnreserve(s.ctx, state, pod, host)
}

// compareTaken compares what is written into the pod when it is assumed on a node.
func (s *deviceSides) compareTaken(t *testing.T, pod *corev1.Pod, node string, d *deviceDecision, i int) {
	t.Helper()
	want := dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(logr.Discard(), d.State, node)
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	takes := devices.TakeFromNode(logr.Discard(), d.mine[i].State, assumed)
	got := assumed.Status.NodeAllocatableResourceClaimStatuses
	if diff := cmp.Diff(want, got); diff != "" || takes != (len(want) > 0) {
		t.Fatalf("%s on %s, path %d takes (-kube-scheduler +livesched):\n%s", pod.Name, node, i, diff)
	}
}

// compareFork decides again on a fork of livesched with the fast path that finds all nodes, as a
// replay does.
func (s *deviceSides) compareFork(t *testing.T, pod *corev1.Pod, d *deviceDecision) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	k, err := s.mine[1].Forker.Fork(s.ctx)
	must(err)
	defer k.Close()
	cfg, err := k.Profile(schedulerName)
	must(err)
	instance, err := k.Instance(s.ctx, cfg)
	must(err)
	decider := k.NewDecider(func(int) int { return 0 }, fork.DeciderOptions{EveryNode: true})
	got, err := decider.DecideMember(s.ctx, instance, pod)
	if (err == nil) != (d.Host != "") || got.FeasibleNodes != d.Feasible {
		t.Fatalf("%s on a fork: %+v (%v); kube-scheduler finds %d nodes", pod.Name, got.Result, err, d.Feasible)
	}
}

// place puts a pod on the node of kube-scheduler, with the devices that kube-scheduler has chosen.
func (s *deviceSides) place(t *testing.T, pod *corev1.Pod, d *deviceDecision) *corev1.Pod {
	t.Helper()
	on := pod.DeepCopy()
	on.Spec.NodeName = d.Host
	on.Status.NodeAllocatableResourceClaimStatuses = dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(
		logr.Discard(), d.State, d.Host)
	reserved := s.reserve(t, on, d)
	for name, allocation := range reserved {
		s.allocate(t, on, name, allocation)
	}
	if err := s.theirs.Scheduler.Cache.AddPod(logr.Discard(), on); err != nil {
		t.Fatal(err)
	}
	for i, side := range s.mine {
		// As the scheduling loop assumes it: by its class, unless it takes more than that.
		assumed, class := pod.DeepCopy(), side.Result.Class
		assumed.Spec.NodeName = d.Host
		assumed.Status.NodeAllocatableResourceClaimStatuses = on.Status.NodeAllocatableResourceClaimStatuses
		var err error
		if class.ID != 0 && len(assumed.Status.NodeAllocatableResourceClaimStatuses) == 0 {
			err = side.Cache.AssumePodOfClass(logr.Discard(), assumed, class)
		} else {
			info, _ := schedframework.NewPodInfo(assumed) // the pods have no affinity terms
			err = side.Cache.AssumePod(logr.Discard(), info)
		}
		if err != nil {
			t.Fatalf("path %d: %v", i, err)
		}
		if err := side.Cache.AddPod(logr.Discard(), on); err != nil {
			t.Fatalf("path %d: %v", i, err)
		}
	}
	return on
}

// reserve returns the devices that kube-scheduler reserves for a pod, by the names of its claims.
func (s *deviceSides) reserve(t *testing.T, pod *corev1.Pod,
	d *deviceDecision) map[string]*resourcev1.AllocationResult {
	t.Helper()
	theirs, reserved := s.managers()[0], map[string]*resourcev1.AllocationResult{}
	allocated := func() sets.Set[structured.DeviceID] {
		all, err := theirs.ListAllAllocatedDevices()
		if err != nil {
			t.Fatal(err)
		}
		return all.Clone()
	}
	before := allocated()
	if status := s.theirs.Framework.RunReservePluginsReserve(s.ctx, d.State, pod, d.Host); !status.IsSuccess() {
		t.Fatal(status)
	}
	for i := range pod.Spec.ResourceClaims {
		claim, err := theirs.Get(pod.Namespace, *pod.Spec.ResourceClaims[i].ResourceClaimName)
		if err != nil {
			t.Fatal(err)
		}
		reserved[claim.Name] = theirs.GetPendingAllocation(claim.UID)
		theirs.MaybeRemoveClaimPendingAllocation(claim.UID, true)
	}
	if requestsGPUs(pod) { // and has no claims, which Unreserve would take for unallocated
		allocation := &resourcev1.AllocationResult{}
		for id := range allocated().Difference(before) {
			allocation.Devices.Results = append(allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
				Request: "device", Driver: id.Driver.String(), Pool: id.Pool.String(), Device: id.Device.String()})
		}
		reserved[spareOf(pod.Name)] = allocation
		s.theirs.Framework.RunReservePluginsUnreserve(s.ctx, d.State, pod, d.Host)
	}
	return reserved
}

// allocate tells all sides that a claim has the devices that kube-scheduler has reserved, unless it
// had some already.
func (s *deviceSides) allocate(t *testing.T, pod *corev1.Pod, name string, allocation *resourcev1.AllocationResult) {
	t.Helper()
	claim, err := s.managers()[0].Get(pod.Namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	claim = claim.DeepCopy()
	if claim.Status.Allocation == nil {
		claim.Status.Allocation = allocation
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
		Resource: "pods", Name: pod.Name, UID: pod.UID})
	s.update(t, claim)
}

// update makes a new version of a claim known to all sides.
func (s *deviceSides) update(t *testing.T, claim *resourcev1.ResourceClaim) {
	t.Helper()
	version, err := strconv.Atoi(claim.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	claim.ResourceVersion = strconv.Itoa(version + 1)
	for _, manager := range s.managers() {
		if err := manager.AssumeClaimAfterAPICall(claim); err != nil {
			t.Fatal(err)
		}
	}
}

// remove takes a pod off its node, and frees the devices that no other pod uses.
func (s *deviceSides) remove(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := s.theirs.Scheduler.Cache.RemovePod(logr.Discard(), pod); err != nil {
		t.Fatal(err)
	}
	for _, side := range s.mine {
		if err := side.Cache.RemovePod(logr.Discard(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.objects.Remove(pod); err != nil {
		t.Fatal(err)
	}
	names := []string{spareOf(pod.Name)}
	for i := range pod.Spec.ResourceClaims {
		names = append(names, *pod.Spec.ResourceClaims[i].ResourceClaimName)
	}
	for _, name := range names {
		claim, err := s.managers()[0].Get(pod.Namespace, name)
		if err != nil {
			t.Fatal(err)
		}
		claim = claim.DeepCopy()
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor,
			func(user resourcev1.ResourceClaimConsumerReference) bool { return user.UID == pod.UID })
		if len(claim.Status.ReservedFor) == 0 {
			claim.Status.Allocation = nil
		}
		s.update(t, claim)
	}
}
