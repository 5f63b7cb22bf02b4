// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

// counting returns the Answers of a leader with a queue.
func counting() (*Answers, *queue.Queue, *clocktesting.FakeClock) {
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	schedmetrics.Register()
	q := queue.New(queue.Config{Clock: now})
	q.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {}}},
		sets.New("mine"))
	leading := &atomic.Bool{}
	leading.Store(true)
	return &Answers{Leading: leading, Queue: q, Clock: now, Profiles: profile.NewStore(),
		Log: decisionlog.New(100)}, q, now
}

// of returns a pod of a Job, which was created at a second.
func of(job string, i int, second int64, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := objects.PodOf("mine", fmt.Sprintf("%s-%d", job, i), changes...)
	pod.Namespace, pod.UID = "ns", types.UID(pod.Name)
	pod.CreationTimestamp = metav1.Unix(second, 0)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job, Controller: ptr.To(true)}}
	return pod
}

func TestPendingKinds(t *testing.T) {
	a, q, now := counting()
	for i := range 3 {
		q.Add(logr.Discard(), of("train", 10-i, 100-int64(i)))
	}
	q.Add(logr.Discard(), of("old", 1, 5))
	q.Add(logr.Discard(), of("new", 1, 6, objects.CPU("3")))
	other := of("other", 1, 7)
	other.Namespace = "elsewhere"
	q.Add(logr.Discard(), other)
	n := a.Log.Append(&decisionlog.Decision{Pod: "train-8", Result: decisionlog.Unschedulable})
	a.Log.Explain(n, "0/1 nodes are available")

	summary := func(list *v1alpha1.PendingKindList) (lines []string) {
		for i := range list.Items {
			k := &list.Items[i]
			lines = append(lines, fmt.Sprint(k.Namespace, " ", k.Owner, " ", k.Pod, " ", k.Pods, " ", k.Active, " ",
				k.Since.Unix(), " ", k.Result, " ", k.Message, " ", k.Requests.Cpu()))
		}
		return append(lines, fmt.Sprint(list.Kinds, " ", list.Pods))
	}
	check := func(name, namespace string, limit int, want ...string) {
		t.Helper()
		list, err := a.PendingKinds(namespace, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, summary(list)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	const (
		train = "ns job/train train-8 3 3 98 Unschedulable 0/1 nodes are available 100m"
		old   = "ns job/old old-1 1 1 5   100m"
		later = "ns job/new new-1 1 1 6   3"
		far   = "elsewhere job/other other-1 1 1 7   100m"
	)
	check("all", "", 100, train, old, later, far, "4 6")
	check("of a namespace", "ns", 100, train, old, later, "3 5")
	check("the largest", "ns", 1, train, "3 5")

	q.Delete(logr.Discard(), of("old", 1, 5))
	check("those that were counted a moment ago", "", 1, train, "4 6")
	now.Step(kindsFor)
	check("those that are left", "", 1, train, "3 5")
	if len(a.kinds.counted.keys) != 5 {
		t.Errorf("%d keys are kept for 5 pods", len(a.kinds.counted.keys))
	}
}

func TestPendingPods(t *testing.T) {
	a, q, now := counting()
	for i := range 12 {
		q.Add(logr.Discard(), of("train", i, 100-int64(i%3)))
	}
	q.Add(logr.Discard(), of("other", 1, 5))
	all, err := a.PendingKinds("", 10)
	if err != nil || all.Kinds != 2 || all.Items[0].ID == all.Items[1].ID {
		t.Fatalf("%v: %+v", err, all)
	}
	train := all.Items[0].ID
	get := func(namespace, id string, limit int) *v1alpha1.PendingKindList {
		t.Helper()
		list, err := a.PendingPods(namespace, id, limit)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	list := get("ns", train, 3)
	if list.Kinds != 1 || list.Pods != 12 || list.Items[0].ID != train || list.Items[0].Active != 12 {
		t.Errorf("%+v", list)
	}
	// The oldest come first, then those with the shorter names.
	want := []v1alpha1.PendingPod{
		{Name: "train-2", Since: metav1.Unix(98, 0), Place: "Active"},
		{Name: "train-5", Since: metav1.Unix(98, 0), Place: "Active"},
		{Name: "train-8", Since: metav1.Unix(98, 0), Place: "Active"},
	}
	if diff := cmp.Diff(want, list.Items[0].Pending); diff != "" {
		t.Error(diff)
	}
	if all, err := a.PendingKinds("", 10); err != nil || all.Items[0].Pending != nil || all.Items[0].Pods != 12 {
		t.Errorf("the list of kinds has changed: %+v", all)
	}
	for _, none := range []*v1alpha1.PendingKindList{get("elsewhere", train, 3), get("ns", "none", 3)} {
		if none.Kinds != 0 || none.Pods != 0 || none.Items == nil || len(none.Items) != 0 {
			t.Errorf("%+v", none)
		}
	}

	// Pods are those that were counted, like their kinds.
	for i := range 11 {
		q.Delete(logr.Discard(), of("train", i, 0))
	}
	q.Add(logr.Discard(), of("train", 20, 200))
	if list := get("ns", train, 100); list.Pods != 12 || len(list.Items[0].Pending) != 12 {
		t.Errorf("%+v", list)
	}
	now.Step(kindsFor)
	if list := get("ns", train, 10); list.Pods != 2 || list.Items[0].Pending[1].Name != "train-20" ||
		list.Items[0].Since != metav1.Unix(98, 0) {
		t.Errorf("%+v", list)
	}
	for _, i := range []int{11, 20} {
		q.Delete(logr.Discard(), of("train", i, 0))
	}
	now.Step(kindsFor)
	if list := get("ns", train, 10); list.Pods != 0 || len(list.Items) != 0 {
		t.Errorf("%+v", list)
	}
	a.Leading.Store(false)
	if _, err := a.PendingPods("ns", train, 10); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a replica that does not lead: %v", err)
	}
}

// Keys are computed once for a pod, and anew when its spec changes.
func TestTheKindOfAPodFollowsItsSpec(t *testing.T) {
	a, q, now := counting()
	before := of("train", 1, 1)
	q.Add(logr.Discard(), before)
	if _, err := a.PendingKinds("", 1); err != nil {
		t.Fatal(err)
	}
	after := before.DeepCopy()
	after.Generation, after.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = 2, resource.MustParse("7")
	q.Update(logr.Discard(), before, after)
	q.Add(logr.Discard(), of("train", 2, 1))
	now.Step(kindsFor)
	if list, err := a.PendingKinds("", 10); err != nil || list.Kinds != 2 {
		t.Errorf("%v: %+v", err, list)
	}
}

// The ten thousandth pod costs as much as the first one, and little when it is counted again.
func BenchmarkPendingKinds(b *testing.B) {
	a, q, now := counting()
	const pods = 10_000
	for i := range pods {
		q.Add(logr.Discard(), of(fmt.Sprint("job-", i%100), i, int64(i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		now.Step(kindsFor)
		if list, err := a.PendingKinds("", 100); err != nil || list.Kinds != 100 {
			b.Fatal(err, list.Kinds)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
}

func TestAnswersThatTakeLongAreKeptLonger(t *testing.T) {
	a, _, now := counting()
	for took, want := range map[time.Duration]time.Duration{
		0: kindsFor, 10 * time.Millisecond: kindsFor, 40 * time.Millisecond: 8 * time.Second, time.Second: keptAtMost,
	} {
		began := now.Now()
		now.Step(took)
		if got := a.keepUntil(began, kindsFor).Sub(now.Now()); got != want {
			t.Errorf("an answer that takes %v is kept for %v, want %v", took, got, want)
		}
	}
}
