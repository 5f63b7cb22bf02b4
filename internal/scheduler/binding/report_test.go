// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestRefused(t *testing.T) {
	pod := &corev1.Pod{}
	for _, test := range []struct {
		name    string
		status  *fwk.Status
		code    fwk.Code
		message string
		plugins []string
		pending []string
	}{
		{"a rejection becomes the error of an unschedulable pod",
			fwk.NewStatus(fwk.Unschedulable, "no").WithPlugin("P"),
			fwk.Unschedulable, "0/1 nodes are available: 1 no.", []string{"P"}, nil},
		{"an unresolvable rejection keeps its code", fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "never").
			WithPlugin("P"),
			fwk.UnschedulableAndUnresolvable, "0/1 nodes are available: 1 never.", []string{"P"}, nil},
		{"a pending plugin makes the pod pending", fwk.NewStatus(fwk.Pending, "soon").WithPlugin("P"),
			fwk.Pending, "0/1 nodes are available: 1 soon.", nil, []string{"P"}},
		{"an error passes unchanged", fwk.AsStatus(errors.New("broken")), fwk.Error, "broken", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Refused(pod, "n1", test.status)
			if got.Code() != test.code || got.Message() != test.message {
				t.Errorf("got %v %q", got.Code(), got.Message())
			}
			var fitError *schedframework.FitError
			if !errors.As(got.AsError(), &fitError) {
				if len(test.plugins)+len(test.pending) > 0 {
					t.Error("it is not a FitError")
				}
				return
			}
			if !fitError.Diagnosis.UnschedulablePlugins.HasAll(test.plugins...) ||
				!fitError.Diagnosis.PendingPlugins.HasAll(test.pending...) {
				t.Errorf("unschedulable by %v, pending by %v", fitError.Diagnosis.UnschedulablePlugins,
					fitError.Diagnosis.PendingPlugins)
			}
		})
	}
}

func TestTheLabelOfAttemptsIsCapped(t *testing.T) {
	for n, want := range map[int]string{1: "1", 14: "14", 15: "15+", 1000: "15+"} {
		if got := attempts(n); got != want {
			t.Errorf("%d attempts have the label %q", n, got)
		}
	}
}
