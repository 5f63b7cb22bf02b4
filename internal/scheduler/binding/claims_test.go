// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
)

// cachedClaims implements Claims.
type cachedClaims struct {
	*fixture
	claim *resourcev1.ResourceClaim
}

func (c cachedClaims) ClaimsOf(*corev1.Pod) ([]*resourcev1.ResourceClaim, bool) {
	return []*resourcev1.ResourceClaim{c.claim}, true
}

func (c cachedClaims) AssumeClaim(claim *resourcev1.ResourceClaim) error {
	c.note("claim %s is reserved for %d", claim.UID, len(claim.Status.ReservedFor))
	return nil
}

func TestDevicesStayTakenIfTheAnswerToTheirAllocationGetsLost(t *testing.T) {
	broken := fwk.AsStatus(errors.New("connection reset by peer"))
	unreserved := []string{"second unreserves, assumed", "first unreserves, assumed",
		`failed: running PreBind plugin "first": connection reset by peer`}
	for name, test := range map[string]struct {
		uid              string
		allocated, known bool
		status           *fwk.Status
		want             []string
	}{
		"the claim is allocated": {"a", true, false, broken,
			append([]string{"read", "read", "claim a is reserved for 0, assumed"}, unreserved...)},
		"it is not":                  {"a", false, false, broken, append([]string{"read", "read"}, unreserved...)},
		"another claim has its name": {"b", true, false, broken, append([]string{"read", "read"}, unreserved...)},
		"plugins know that it is":    {"a", true, true, broken, append([]string{"read", "read"}, unreserved...)},
		"etcd has lost the allocation": {"a", false, true, broken,
			append([]string{"read", "read", "claim a is reserved for 0, assumed"}, unreserved...)},
		"the plugin has refused the pod": {"a", true, false, fwk.NewStatus(fwk.Unschedulable, "no"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.cycle.Pod.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "a"}}
			allocation := &resourcev1.AllocationResult{}
			if test.known {
				claim.Status.Allocation = allocation
			}
			f.Claims = cachedClaims{f, claim}
			client, reads := &fake.Clientset{}, 0
			client.AddReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				f.log = append(f.log, "read")
				if reads++; reads == 1 {
					return true, nil, errors.New("connection reset by peer")
				}
				stored := claim.DeepCopy()
				stored.UID, stored.Status.Allocation = types.UID(test.uid), nil
				if test.allocated {
					stored.Status.Allocation = allocation
				}
				return true, stored, nil
			})
			f.Client = client
			f.first.preBind = func(context.Context) *fwk.Status { return test.status }
			f.Run(f.ctx, f.cycle)
			if f.log[0] != "first prepares, assumed" {
				t.Errorf("it began with %s", f.log[0])
			}
			f.log = f.log[1:]
			if test.want != nil {
				f.expectLog(test.want...)
			} else if reads > 0 {
				t.Error("the claim was read")
			}
		})
	}
}

func TestClaimsAreNotReservedForAPodThatIsNotBound(t *testing.T) {
	broken := fwk.AsStatus(errors.New("connection reset by peer"))
	for name, test := range map[string]struct {
		// for whom the claim is reserved, as plugins see it, and as the API server has it.
		seen, stored []types.UID
		uid          types.UID
		want         []string
	}{
		"it was": {[]types.UID{"pod", "other"}, []types.UID{"other"}, "a",
			[]string{"read", "claim a is reserved for 1, assumed"}},
		"it still is":                   {[]types.UID{"pod"}, []types.UID{"pod"}, "a", []string{"read"}},
		"it was not":                    {[]types.UID{"other"}, nil, "a", nil},
		"another claim has its name":    {[]types.UID{"pod"}, nil, "b", []string{"read"}},
		"the informers know it already": {nil, nil, "a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			pod := f.cycle.Pod.Pod
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
			claimFor := func(uid types.UID, pods []types.UID) *resourcev1.ResourceClaim {
				claim := &resourcev1.ResourceClaim{}
				claim.Namespace, claim.Name, claim.UID = "default", "c", uid
				claim.Status.Allocation = &resourcev1.AllocationResult{}
				for _, of := range pods {
					if of == "pod" {
						of = pod.UID
					}
					claim.Status.ReservedFor = append(claim.Status.ReservedFor,
						resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: string(of), UID: of})
				}
				return claim
			}
			f.Claims = cachedClaims{f, claimFor("a", test.seen)}
			client := &fake.Clientset{}
			client.AddReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				f.log = append(f.log, "read")
				return true, claimFor(test.uid, test.stored), nil
			})
			f.Client = client
			f.first.preBind = func(context.Context) *fwk.Status { return broken }
			f.Run(f.ctx, f.cycle)
			want := []string{"first prepares, assumed"}
			if !slices.Contains(test.seen, "pod") {
				want = append(want, "read") // its devices may be lost
			}
			want = append(want, "second unreserves, assumed", "first unreserves, assumed")
			want = append(want, test.want...)
			f.expectLog(append(want, `failed: running PreBind plugin "first": connection reset by peer`)...)
		})
	}
}

func TestAPodIsNotBoundWhereItsClaimHasNoDevices(t *testing.T) {
	devicesOf := func(operator corev1.NodeSelectorOperator, node string) *resourcev1.AllocationResult {
		return &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: operator, Values: []string{node}}}}}}}
	}
	const (
		in                  = corev1.NodeSelectorOpIn
		mine, others, group = "mine", "others", "group"
		elsewhere           = "claim default/c now has devices that node n1 cannot use"
	)
	for name, test := range map[string]struct {
		allocation *resourcev1.AllocationResult
		// reserved is for whom the claim is reserved.
		reserved string
		noNode   bool
		wantErr  string
	}{
		"devices of the node":            {devicesOf(in, nodeName), mine, false, ""},
		"devices of another node":        {devicesOf(in, "n2"), mine, false, elsewhere},
		"of another node, for its group": {devicesOf(in, "n2"), group, false, elsewhere},
		"devices of all nodes":           {&resourcev1.AllocationResult{}, mine, false, ""},
		"no plugin reserved the claim":   {devicesOf(in, "n2"), others, false, ""},
		"the claim has no devices":       {nil, mine, false, ""},
		"the node is gone":               {devicesOf(in, "n2"), mine, true, "node n1 does not exist any more"},
		"an invalid selector": {devicesOf("Near", nodeName), mine, false,
			"the node selector of the devices of claim default/c is invalid: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if !test.noNode {
				f.Cache.AddNode(logr.Discard(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
			}
			pod := f.cycle.Pod.Pod
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group)}
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "a"}}
			claim.Status.Allocation = test.allocation
			user := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: test.reserved}
			switch test.reserved {
			case mine:
				user.UID = pod.UID
			case group:
				user.APIGroup, user.Resource = schedulingv1beta1.GroupName, "podgroups"
			}
			f.Claims = cachedClaims{f, claim}
			f.first.preBind = func(context.Context) *fwk.Status {
				claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{user}
				return nil
			}
			if bound := f.Run(f.ctx, f.cycle); bound != (test.wantErr == "") {
				t.Errorf("bound: %v", bound)
			}
			if !strings.Contains(f.failure.Message(), test.wantErr) {
				t.Errorf("the pod failed with %q, want %q", f.failure.Message(), test.wantErr)
			}
		})
	}
}

// TestAClaimThatWasReservedBeforeIsRead covers the claims that PreBind need not write: plugins may
// see an old version of them.
func TestAClaimThatWasReservedBeforeIsRead(t *testing.T) {
	const (
		released = "claim default/c is no longer reserved for the pod"
		assumed  = "claim %s is reserved for %d, assumed"
	)
	claimFor := func(uid types.UID, pods ...types.UID) *resourcev1.ResourceClaim {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: uid}}
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		for _, of := range pods {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor,
				resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: string(of), UID: of})
		}
		return claim
	}
	without := claimFor("a", "pod")
	without.Status.Allocation = nil
	elsewhere := claimFor("a", "pod")
	elsewhere.Status.Allocation.NodeSelector = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}}}}}}
	for name, test := range map[string]struct {
		stored  *resourcev1.ResourceClaim
		err     error
		wantErr string
		want    []string // what is noted
	}{
		"it still is": {stored: claimFor("a", "other", "pod"), want: []string{"read"}},
		"it is not any more": {stored: claimFor("a"), wantErr: released,
			want: []string{"read", fmt.Sprintf(assumed, "a", 0)}},
		"its devices are free": {stored: without, wantErr: released,
			want: []string{"read", fmt.Sprintf(assumed, "a", 1)}},
		"it has others": {stored: elsewhere, wantErr: "claim default/c now has devices that node n1 cannot use",
			want: []string{"read"}},
		"another claim has its name": {stored: claimFor("b", "pod"), wantErr: released,
			want: []string{"read", fmt.Sprintf(assumed, "b", 1)}},
		"there is no answer": {stored: claimFor("a", "pod"), err: errors.New("connection reset by peer"),
			wantErr: "reading claim default/c: connection reset by peer", want: []string{"read"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Cache.AddNode(logr.Discard(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
			pod := f.cycle.Pod.Pod
			pod.UID = "pod"
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
			f.Claims = cachedClaims{f, claimFor("a", "pod")}
			client := &fake.Clientset{}
			client.AddReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				f.log = append(f.log, "read")
				err := test.err
				test.err = nil // the next answers come
				return true, test.stored, err
			})
			f.Client = client
			if bound := f.Run(f.ctx, f.cycle); bound != (test.wantErr == "") {
				t.Errorf("bound: %v", bound)
			}
			if got := f.failure.Message(); got != test.wantErr {
				t.Errorf("the pod failed with %q, want %q", got, test.wantErr)
			}
			f.log = f.log[slices.Index(f.log, "read"):]
			if got := f.log[:min(len(f.log), len(test.want))]; !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestAPodIsNotBoundWithoutItsClaims covers the claims that DynamicResources takes as reserved, as
// they were when the pod was decided about. It does not look at them again in PreBind.
func TestAPodIsNotBoundWithoutItsClaims(t *testing.T) {
	for name, test := range map[string]struct {
		plugin  string
		claims  []*resourcev1.ResourceClaim // nil: one is not known
		wantErr string
	}{
		"the claim was released": {names.DynamicResources, []*resourcev1.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "c"}}}, "claim default/c is no longer reserved for the pod"},
		"the claim is gone":      {names.DynamicResources, nil, "a resource claim of the pod does not exist any more"},
		"no plugin reserves any": {"first", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Cache.AddNode(logr.Discard(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
			f.cycle.Pod.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
			f.first.name, f.Claims = test.plugin, claimsOf(test.claims)
			if bound := f.Run(f.ctx, f.cycle); bound != (test.wantErr == "") {
				t.Errorf("bound: %v", bound)
			}
			if got := f.failure.Message(); got != test.wantErr {
				t.Errorf("the pod failed with %q, want %q", got, test.wantErr)
			}
		})
	}
}

// claimsOf implements Claims.
type claimsOf []*resourcev1.ResourceClaim

func (c claimsOf) ClaimsOf(*corev1.Pod) ([]*resourcev1.ResourceClaim, bool) { return c, c != nil }

func (claimsOf) AssumeClaim(*resourcev1.ResourceClaim) error { return nil }

// TestWhatWasLostWithEtcdIsNotSeenAnyMore reads a claim in an earlier version than plugins see,
// although that was read later.
func TestWhatWasLostWithEtcdIsNotSeenAnyMore(t *testing.T) {
	claimAt := func(uid types.UID, version string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: uid,
			ResourceVersion: version}}
	}
	for name, test := range map[string]struct{ seen, read, want *resourcev1.ResourceClaim }{
		"an earlier version": {claimAt("a", "20"), claimAt("a", "10"), claimAt("a", "20")},
		"a later version":    {claimAt("a", "20"), claimAt("a", "30"), claimAt("a", "30")},
		"of another claim":   {claimAt("a", "20"), claimAt("b", "10"), claimAt("b", "10")},
	} {
		t.Run(name, func(t *testing.T) {
			assumed := &assumedClaims{}
			b := &Binder{Claims: assumed}
			test.read.Status.Allocation = &resourcev1.AllocationResult{}
			test.want.Status.Allocation = test.read.Status.Allocation
			b.assume(t.Context(), test.seen, test.read)
			if diff := cmp.Diff([]*resourcev1.ResourceClaim{test.want}, assumed.all); diff != "" {
				t.Errorf("assumed (-want +got)\n%s", diff)
			}
		})
	}
}

// assumedClaims implements Claims.
type assumedClaims struct{ all []*resourcev1.ResourceClaim }

func (*assumedClaims) ClaimsOf(*corev1.Pod) ([]*resourcev1.ResourceClaim, bool) { return nil, true }

func (a *assumedClaims) AssumeClaim(claim *resourcev1.ResourceClaim) error {
	a.all = append(a.all, claim)
	return nil
}
