// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/objects"
)

// byName sorts the queue by the names of the pods.
type byName struct{}

func (byName) Name() string { return "ByName" }

func (byName) Less(a, b fwk.QueuedEntityInfo) bool {
	return objects.Queued(a).Name < objects.Queued(b).Name
}

func sorting(schedulerName string, by fwk.QueueSortPlugin) *Instance {
	return &Instance{
		Config: &resolve.Profile{SchedulerName: schedulerName,
			QueueSort: resolve.QueueSort{Name: "By" + schedulerName}},
		Queue:   &queue.ProfileSettings{InitialBackoff: time.Second},
		plugins: &framework.Plugins{QueueSort: by},
	}
}

func queued(t *testing.T, name string, priority int32) *schedframework.QueuedPodInfo {
	t.Helper()
	info, err := schedframework.NewPodInfo(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Priority: ptr.To(priority)},
	})
	must(t, err)
	return &schedframework.QueuedPodInfo{PodInfo: info}
}

func TestMap(t *testing.T) {
	a, b, c := sorting("a", byName{}), sorting("b", byName{}), sorting("c", byName{})
	first, second := queued(t, "1st", 0), queued(t, "2nd", 10)

	t.Run("gives the queue the sort of the profile that won, and the settings of all", func(t *testing.T) {
		s := NewMap(map[string]*Instance{"a": a, "b": b}, "b").QueueSettings()
		if !s.Less(first, second) || s.Less(second, first) {
			t.Error("the queue is not sorted by name")
		}
		if s.Order != "Byb" {
			t.Errorf("the order is called %q, not by the sort of the profile that won", s.Order)
		}
		want := map[string]*queue.ProfileSettings{"a": a.Queue, "b": b.Queue}
		if !reflect.DeepEqual(s.Profiles, want) {
			t.Errorf("settings are of %v", s.Profiles)
		}
	})
	t.Run("gives the queue another order when only the arguments of the sort change", func(t *testing.T) {
		changed := sorting("b", byName{})
		changed.Config.QueueSort.Args = `{"descending":true}`
		before, after := NewMap(map[string]*Instance{"b": b}, "b").QueueSettings(),
			NewMap(map[string]*Instance{"b": changed}, "b").QueueSettings()
		if before.Order == after.Order {
			t.Errorf("both orders are called %q", before.Order)
		}
	})
	t.Run("leaves the order to the queue where no profile has won", func(t *testing.T) {
		for _, m := range []*Map{NewMap(nil, ""), NewMap(map[string]*Instance{"a": a}, ""),
			NewMap(map[string]*Instance{"a": a}, "gone")} {
			if s := m.QueueSettings(); s.Less != nil || s.Order != "" {
				t.Errorf("the queue gets the order %q", s.Order)
			}
		}
	})
	t.Run("keeps shadows apart from the profiles that schedule pods", func(t *testing.T) {
		shadow := sorting("a", byName{})
		shadow.Config.Name, shadow.Config.Shadow = "next", &resolve.Shadow{Profile: "a"}
		m := NewMap(map[string]*Instance{"a": a, "shadow/next": shadow}, "a")
		if !m.HasShadows() || m.ByID("shadow/next") != shadow || m.ByID("a") != a {
			t.Error("the shadow is not there")
		}
		if m.Len() != 1 || !slices.Equal(m.Names(), []string{"a"}) || m.Get("shadow/next") != nil ||
			len(m.QueueSettings().Profiles) != 1 {
			t.Error("the shadow schedules pods")
		}
		without := NewMap(map[string]*Instance{"a": a}, "a")
		if m.SameInstances(without) || without.HasShadows() || len(m.changeSince(without).Names) != 0 {
			t.Error("the shadow changes a profile, or nothing")
		}
	})
	t.Run("iterates in the order of the names", func(t *testing.T) {
		m := NewMap(map[string]*Instance{"c": c, "a": a, "b": b}, "a")
		if got := slices.Collect(m.All()); !slices.Equal(got, []*Instance{a, b, c}) || m.Len() != 3 {
			t.Errorf("got %d profiles in another order", len(got))
		}
		for p := range m.All() {
			if p != a {
				t.Error("the iteration went on")
			}
			break
		}
	})
	t.Run("has a canary after its profile, with its share", func(t *testing.T) {
		canary := sorting("a", byName{})
		canary.Config.Name, canary.Config.Canary = "a", true
		instances := map[string]*Instance{"a": a, "b": b, canary.Config.ID(): canary}
		m := NewMap(instances, "a").WithShares(map[string]Share{"a": {Owners: queue.Whole / 20}})
		if got := slices.Collect(m.Deciding()); !slices.Equal(got, []*Instance{a, canary, b}) {
			t.Errorf("got %d instances in another order", len(got))
		}
		if got := slices.Collect(m.All()); !slices.Equal(got, []*Instance{a, b}) {
			t.Errorf("got %d profiles in another order", len(got))
		}
		if _, share := m.Canary("a"); share.Percent() != 5 {
			t.Errorf("the share is %d %%", share.Percent())
		}
		more := NewMap(instances, "a").WithShares(map[string]Share{"a": {Owners: queue.Whole}})
		if !more.SameInstances(m) || more.SameShares(m) || !more.SameShares(more) {
			t.Error("a share is an instance, or the other way round")
		}
	})
	t.Run("does not change with the map that it was created from", func(t *testing.T) {
		profiles := map[string]*Instance{"a": a}
		m := NewMap(profiles, "a")
		profiles["b"] = b
		if m.Get("b") != nil {
			t.Error("a profile came in later")
		}
	})
	t.Run("equals one with the same instances and the same sorter only", func(t *testing.T) {
		m := NewMap(map[string]*Instance{"a": a, "b": b}, "a")
		for name, test := range map[string]struct {
			other *Map
			equal bool
		}{
			"the same":        {NewMap(map[string]*Instance{"a": a, "b": b}, "a"), true},
			"another sorter":  {NewMap(map[string]*Instance{"a": a, "b": b}, "b"), false},
			"one rebuilt":     {NewMap(map[string]*Instance{"a": a, "b": sorting("b", byName{})}, "a"), false},
			"one less":        {NewMap(map[string]*Instance{"a": a}, "a"), false},
			"one more":        {NewMap(map[string]*Instance{"a": a, "b": b, "c": c}, "a"), false},
			"other instances": {NewMap(map[string]*Instance{"c": c}, "c"), false},
		} {
			if got := m.SameInstances(test.other); got != test.equal {
				t.Errorf("%s: equal is %v", name, got)
			}
		}
	})
	t.Run("knows what changed: added, rebuilt and removed profiles", func(t *testing.T) {
		old := NewMap(map[string]*Instance{"a": a, "b": b, "c": c}, "a")
		next := NewMap(map[string]*Instance{"a": a, "b": sorting("b", byName{}), "d": sorting("d", byName{})}, "a")
		if got := next.changeSince(old).Names; !got.Equal(sets.New("b", "c", "d")) {
			t.Errorf("changed are %v", got)
		}
	})
}
