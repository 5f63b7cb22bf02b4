// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestTheInstanceOfAShadowChangesNothing(t *testing.T) {
	fs := &fakes{}
	e := newTestEnv(t, fs.registry(nil))
	cfg := *e.resolve(t, object("mine", "AFirst"))
	cfg.Name, cfg.Shadow = "next", &resolve.Shadow{Profile: "mine", SamplePercent: 100}
	shadow, err := e.builder().Build(e.ctx, &cfg)
	must(t, err)
	handle := fs.made[0].handle
	if handle.(*Handle).ProfileName() != "mine" || shadow.Framework.ProfileName() != "mine" ||
		shadow.SchedulerName() != "mine" || !shadow.IsShadow() {
		t.Errorf("plugins see the profiles %q and %q", handle.(*Handle).ProfileName(), shadow.Framework.ProfileName())
	}
	if len(e.sources.held()) != 0 {
		t.Errorf("events are required of %v", e.sources.held())
	}

	pod := queued(t, "pod", 0)
	err = handle.ClientSet().CoreV1().Pods("default").Delete(e.ctx, "pod", metav1.DeleteOptions{})
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Errorf("the client deleted a pod: %v", err)
	}
	handle.AddNominatedPod(logr.Discard(), pod.PodInfo,
		&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n"})
	if nominated := e.Nominator.NominatedPodsForNode("n"); len(nominated) != 0 {
		t.Errorf("a pod is nominated: %v", nominated)
	}

	shadow.Discard(logr.Discard())
	<-shadow.Closed()
	e.expectNothingLeft(t)
}

func TestAFixedNominatorShowsNominationsAndChangesNone(t *testing.T) {
	pod := queued(t, "pod", 0)
	n := fixedNominator{nominated{pod.PodInfo}}
	n.AddNominatedPod(logr.Discard(), pod.PodInfo, nil)
	n.DeleteNominatedPodIfExists(pod.Pod)
	n.UpdateNominatedPod(logr.Discard(), pod.Pod, pod.PodInfo)
	if shown := n.NominatedPodsForNode("n"); len(shown) != 1 {
		t.Errorf("nominated are %v", shown)
	}
}

// nominated is a nominator with one nomination, which fails if it is changed.
type nominated struct{ info fwk.PodInfo }

func (n nominated) NominatedPodsForNode(string) []fwk.PodInfo { return []fwk.PodInfo{n.info} }
func (nominated) Nominations(*corev1.Pod, uint64) framework.NominationChanges {
	return framework.NominationChanges{}
}
func (nominated) NodeOf(types.UID) string                                       { return "" }
func (nominated) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) { panic("changed") }
func (nominated) DeleteNominatedPodIfExists(*corev1.Pod)                        { panic("changed") }
func (nominated) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo)      { panic("changed") }

func TestAProcessThatRunsNoShadowsRefusesThem(t *testing.T) {
	e := newTestEnv(t, nil)
	e.shadows = nil
	cfg := *e.resolve(t, object("mine"))
	cfg.Shadow = &resolve.Shadow{Profile: "other"}
	if _, err := e.builder().Build(e.ctx, &cfg); err == nil {
		t.Error("a shadow was built")
	}
	e.expectNothingLeft(t)
}
