// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/sidebyside"
)

// TestPodsAreBoundWithAsyncAPICalls builds the default profile with the feature gate, and binds a
// pod: without a dispatcher, DefaultBinder sends the request itself.
func TestPodsAreBoundWithAsyncAPICalls(t *testing.T) {
	for _, gate := range []bool{false, true} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
			kubefeatures.SchedulerAsyncAPICalls, gate)
		ctx := klog.NewContext(t.Context(), logr.Discard())
		side, err := sidebyside.NewLivesched(ctx, sidebyside.NewObjects(), &sidebyside.Configuration{Parallelism: 1,
			Profile: configv1.KubeSchedulerProfile{SchedulerName: ptr.To(schedulerName)}}, sidebyside.FastPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		side.Requests.Take()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "pod"},
			Spec: corev1.PodSpec{SchedulerName: schedulerName}}
		status := side.Profile.Framework.RunBindPlugins(ctx, schedframework.NewCycleState(), pod, "node")
		if !status.IsSuccess() {
			t.Errorf("gate %v: %v", gate, status)
		}
		if got := side.Requests.Take(); !slices.Equal(got, []string{"create pods"}) {
			t.Errorf("gate %v: the requests to the API server are %q", gate, got)
		}
		side.Close()
	}
}
