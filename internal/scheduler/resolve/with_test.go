// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

func TestWithReplacesAndAdds(t *testing.T) {
	old := metav1.NewTime(time.Unix(1, 0))
	in := Input{
		Profiles: []v1alpha1.SchedulerProfile{
			{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", Generation: 3, CreationTimestamp: old}}},
		Policies: []v1alpha1.SchedulingPolicy{
			{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 1, CreationTimestamp: old}}},
	}
	changed, added := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	changed.Spec.PercentageOfNodesToScore = ptr.To(int32(50))
	now := time.Unix(9, 0)
	out := in.With([]v1alpha1.SchedulerProfile{changed, added},
		[]v1alpha1.SchedulingPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "q"}}}, now)
	a, b := out.Profiles[0], out.Profiles[1]
	if len(out.Profiles) != 2 || a.UID != "a" || a.Generation != 4 || !a.CreationTimestamp.Equal(&old) ||
		a.Spec.PercentageOfNodesToScore == nil {
		t.Errorf("got %+v", a)
	}
	if b.Name != "b" || !b.CreationTimestamp.Time.Equal(now) || len(out.Policies) != 2 {
		t.Errorf("got %+v, %d policies", b, len(out.Policies))
	}
	if in.Profiles[0].Spec.PercentageOfNodesToScore != nil || in.Profiles[0].Generation != 3 {
		t.Error("the input has changed")
	}
}
