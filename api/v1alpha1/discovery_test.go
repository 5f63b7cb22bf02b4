// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/livesched/livesched/api/v1alpha1"
)

var _ = Describe("The API", func() {
	DescribeTable("has short names and a category", func(resource, kind, shortName string) {
		api, err := discovery.NewDiscoveryClientForConfig(restConfig)
		Expect(err).NotTo(HaveOccurred())
		list, err := api.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		Expect(err).NotTo(HaveOccurred())
		var found *metav1.APIResource
		for i := range list.APIResources {
			if list.APIResources[i].Name == resource {
				found = &list.APIResources[i]
			}
		}
		Expect(found).NotTo(BeNil())
		Expect(found.Kind).To(Equal(kind))
		Expect(found.Namespaced).To(BeFalse())
		Expect(found.ShortNames).To(Equal([]string{shortName}))
		Expect(found.Categories).To(Equal([]string{"livesched"}))
	},
		Entry("profiles", "schedulerprofiles", "SchedulerProfile", "sprof"),
		Entry("policies", "schedulingpolicies", "SchedulingPolicy", "spol"),
	)

	It("accepts every sample", func(ctx context.Context) {
		samples, err := filepath.Glob(filepath.Join("..", "..", "config", "samples", "livesched_*.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(samples).NotTo(BeEmpty())
		for _, sample := range samples {
			By(filepath.Base(sample))
			text, err := os.ReadFile(sample)
			Expect(err).NotTo(HaveOccurred())
			Expect(create(ctx, &unstructured.Unstructured{Object: parse(string(text))})).To(Succeed())
		}
	})
})
