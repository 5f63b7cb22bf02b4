// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	. "github.com/livesched/livesched/test/e2e/framework"
)

var _ = Describe("The revisions of a profile", func() {
	It("are deleted by the garbage collector when the profile is deleted", func(ctx context.Context) {
		startLivesched()
		CreateProfile(ctx, "goes", "")
		CreateProfile(ctx, "stays", "")
		Respec(ctx, "goes", "percentageOfNodesToScore: 50")
		of := func(name string) func() ([]history.Revision, error) {
			return func() ([]history.Revision, error) {
				return history.List(ctx, K8s, ownNamespace, history.KindProfile, name)
			}
		}
		Expect(of("goes")()).To(HaveLen(2))
		Expect(K8s.Delete(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "goes"}},
			client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		// The garbage collector discovers new kinds every 30 seconds.
		Eventually(of("goes")).WithTimeout(5 * time.Minute).WithPolling(500 * time.Millisecond).Should(BeEmpty())
		Expect(of("stays")()).To(HaveLen(1))
	})
})
