// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"net/http"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("The flow schemas of config/flowcontrol", Ordered, func() {
	BeforeAll(func(ctx context.Context) {
		createUntilEnd(ctx, manifests(filepath.Join(testcluster.Root(), "config", "flowcontrol"))...)
	})

	// The authorizer may refuse the requests: the API server assigns the priority before.
	DescribeTable("give livesched's requests the priority of kube-scheduler's:", func(
		ctx context.Context, schema, level string, request func(context.Context, clientset.Interface),
	) {
		wanted, priority := &flowcontrolv1.FlowSchema{}, &flowcontrolv1.PriorityLevelConfiguration{}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: schema}, wanted)).To(Succeed())
		Expect(k8s.Get(ctx, client.ObjectKey{Name: level}, priority)).To(Succeed())
		var last http.Header
		config := configAs(account)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil {
					last = response.Header
				}
				return response, err
			})
		})
		kube, err := clientset.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) { // the API server sees new schemas with a delay
			request(ctx, kube)
			g.Expect(last.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)).To(BeEquivalentTo(wanted.UID))
			g.Expect(last.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)).
				To(BeEquivalentTo(priority.UID))
		}).WithContext(ctx).Should(Succeed())
	},
		Entry("its lease", "livesched-leader-election", "leader-election", func(ctx context.Context,
			kube clientset.Interface) {
			_, _ = kube.CoordinationV1().Leases(namespace).Get(ctx, "livesched", metav1.GetOptions{})
		}),
		Entry("pods of a namespace", "livesched", "workload-high", func(ctx context.Context, kube clientset.Interface) {
			_, _ = kube.CoreV1().Pods("default").Get(ctx, "pod", metav1.GetOptions{})
		}),
		Entry("nodes", "livesched", "workload-high", func(ctx context.Context, kube clientset.Interface) {
			_, _ = kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
		}),
		Entry("discovery", "livesched", "workload-high", func(ctx context.Context, kube clientset.Interface) {
			_, _ = kube.Discovery().ServerVersion()
		}),
	)
})

// configAs returns a client configuration with the rights of a service account, and without a limit
// of its rate.
func configAs(account string) *rest.Config {
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1
	config.Impersonate = rest.ImpersonationConfig{UserName: account,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return config
}

// roundTripper is an [http.RoundTripper] that is a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
