// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// probes change one thing in a settled cluster, which must then settle again. While everything
// changes simultaneously, an event that fails to wake a pod goes unnoticed: another event wakes the
// pod.
var probes = []struct {
	name  string
	event func(ctx context.Context, a *actor) error
}{
	{"pods are deleted", func(ctx context.Context, a *actor) error {
		return a.some(isBound, func(pod *corev1.Pod) error {
			return raced(a.client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0)))
		})
	}},
	{"pods finish", func(ctx context.Context, a *actor) error {
		return a.some(occupies, func(pod *corev1.Pod) error {
			return raced(a.client.Status().
				Patch(ctx, pod.DeepCopy(),
					client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))))
		})
	}},
	{"pods shrink", func(ctx context.Context, a *actor) error {
		for range 10 {
			if err := resizePod(ctx, a); err != nil {
				return err
			}
		}
		return nil
	}},
	{"gates are lifted", func(ctx context.Context, a *actor) error {
		for range 10 {
			if err := ungatePod(ctx, a); err != nil {
				return err
			}
		}
		return nil
	}},
	{"pods are changed", func(ctx context.Context, a *actor) error {
		for range 10 {
			if err := updatePod(ctx, a); err != nil {
				return err
			}
		}
		return nil
	}},
	{"nodes heal", func(ctx context.Context, a *actor) error {
		return a.someNodes(ctx, func(node *corev1.Node) error { return change(ctx, a, node, heal) })
	}},
	{"nodes move", func(ctx context.Context, a *actor) error {
		return a.someNodes(ctx, func(node *corev1.Node) error {
			return change(ctx, a, node, func(node *corev1.Node) {
				node.Labels[corev1.LabelTopologyZone], node.Labels[colorLabel] = one(a, "a", "b", "c"),
					one(a, "red", "blue", "green")
			})
		})
	}},
	{"nodes grow", func(ctx context.Context, a *actor) error {
		for _, name := range roughNodes {
			if err := raced(a.resizeNode(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})); err != nil {
				return err
			}
		}
		return nil
	}},
	{"nodes come back", createNodes},
	{"claims are bound", func(ctx context.Context, a *actor) error {
		for range claims {
			if err := changeVolume(ctx, a); err != nil {
				return err
			}
		}
		return nil
	}},
	{"late claims come and go", func(ctx context.Context, a *actor) error {
		for range lateClaims {
			if err := errors.Join(changeLateClaim(ctx, a), changeDisk(ctx, a)); err != nil {
				return err
			}
		}
		return nil
	}},
	{"device claims come and go", func(ctx context.Context, a *actor) error {
		for range deviceClaims {
			if err := changeDeviceClaim(ctx, a); err != nil {
				return err
			}
		}
		return nil
	}},
	{"devices come back", createSlices},
	{"pods come", func(ctx context.Context, a *actor) error {
		for range 10 {
			if err := createPods(ctx, a); err != nil {
				return err
			}
		}
		return nil
	}},
}

// some applies a change to about a third of the pods that satisfy a condition.
func (a *actor) some(is func(*corev1.Pod) bool, do func(*corev1.Pod) error) error {
	for _, pod := range a.history.all(is) {
		if a.chance(33) {
			if err := do(pod); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *actor) someNodes(ctx context.Context, do func(*corev1.Node) error) error {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return err
	}
	for _, name := range nodeNames {
		if node := nodes[name]; node != nil && a.chance(50) {
			if err := raced(do(node)); err != nil {
				return err
			}
		}
	}
	return nil
}

// probe runs n of the probes.
func (w *world) probe(t *testing.T, a *actor, round, n int) {
	t.Helper()
	for _, i := range a.rng.Perm(len(probes))[:n] {
		p := probes[i]
		if err := p.event(t.Context(), a); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		w.settle(t, fmt.Sprintf("round %d, after %s", round, p.name))
	}
}
