// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/scenes"
)

// Pods are placed according to their own specs and to the pods on the nodes: these are the scenes
// that are played at the API. kube-scheduler plays them with the same outcome (see
// framework.Oracle); test/placement plays the others.
var _ = Describe("The node of a pod", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx context.Context) {
		// Namespaces cannot be deleted here: no controller would complete that.
		for _, namespace := range scenes.Namespaces() {
			Expect(client.IgnoreAlreadyExists(K8s.Create(ctx, namespace))).To(Succeed())
		}
		service, class := scenes.Service(), scenes.RuntimeClass()
		Create(ctx, service, class)
		DeferCleanup(func(ctx context.Context) {
			Expect(K8s.Delete(ctx, service)).To(Succeed())
			Expect(K8s.Delete(ctx, class)).To(Succeed())
		})
	})
	Stage(scenes.Profiles)

	for _, table := range scenes.Tables() {
		for _, scene := range table.Scenes {
			if scene.Played != scenes.InProcess {
				It(table.Name+": "+scene.Name, func(ctx context.Context) { play(ctx, scene) })
			}
		}
	}
	resizeSpecs()
})
