// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("Queues on the secure port", func() {
	It("are counted by the leader, for those with livesched-viewer in the whole cluster", func(ctx context.Context) {
		for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
			if object.GetName() == "livesched-viewer" {
				createUntilEnd(ctx, object)
			}
		}
		viewer, limited := serviceAccount(ctx, "views-queues", "", ""), serviceAccount(ctx, "views-a-namespace", "", "")
		bindRole(ctx, "views-queues", "livesched-viewer",
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "views-queues"})
		createUntilEnd(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "views-a-namespace"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "livesched-viewer"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace,
				Name: "views-a-namespace"}},
		})
		expectMay(ctx, "system:serviceaccount:"+namespace+":views-queues",
			authorizationv1.ResourceAttributes{Verb: "list", Group: "livesched.io", Resource: "queues"})

		named := profile("mine")
		named.Spec.SchedulerName = "my-scheduler"
		gated := objects.Pod("default", "gated", "my-scheduler", "1", "1Gi")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		create(ctx, named, objects.Node("n", "8", "16Gi", nil),
			objects.Pod("default", "large", "my-scheduler", "64", "1Gi"), gated)
		leader := runAnswering(func(*app.Options) {}) + "queues"
		Eventually(func(g Gomega) {
			answer := getAs(ctx, viewer, leader)
			g.Expect(answer.Code).To(Equal(http.StatusOK), answer.Body)
			var got v1alpha1.QueueList
			g.Expect(json.Unmarshal([]byte(answer.Body), &got)).To(Succeed())
			g.Expect(got.Kind).To(Equal("QueueList"))
			g.Expect(got.Items).
				To(HaveExactElements(v1alpha1.Queue{Profile: "mine", SchedulerName: "my-scheduler", Unschedulable: 1,
					Gated: 1}))
		}).WithContext(ctx).Should(Succeed())

		answer := getAs(ctx, limited, leader)
		Expect(answer.Code).To(Equal(http.StatusForbidden))
		Expect(answer.Body).To(
			ContainSubstring(`cannot list resource \"queues\" in API group \"livesched.io\" at the cluster scope`))

		By("asking a replica that follows")
		createUntilEnd(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "queues"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("somebody"), RenewTime: ptr.To(metav1.NowMicro()),
				LeaseDurationSeconds: ptr.To[int32](3600),
			},
		})
		follower := runAnswering(func(o *app.Options) {
			o.LeaderElect, o.LeaderElectionNamespace, o.LeaderElectionName = true, namespace, "queues"
		}) + "queues"
		Eventually(func(g Gomega) {
			answer := requestWith(ctx, viewer, follower, "X-Livesched-Pass-On", "never")
			g.Expect(answer.Code).To(Equal(http.StatusServiceUnavailable), answer.Body)
			g.Expect(answer.Body).To(ContainSubstring("this replica does not schedule pods: another one leads"))
			answer = getAs(ctx, viewer, follower)
			g.Expect(answer.Code).To(Equal(http.StatusServiceUnavailable), answer.Body)
			g.Expect(answer.Body).To(ContainSubstring("livesched in pod " + namespace + "/somebody leads"))
		}).WithContext(ctx).Should(Succeed())
	})
})

// runAnswering runs livesched for the rest of a spec, and returns the URL of what it answers.
func runAnswering(change func(*app.Options)) string {
	GinkgoHelper()
	o := testcluster.Options()
	o.Secure.Port, o.Secure.BindAddress = freePort(), "127.0.0.1"
	change(o)
	run, err := cluster.Run(context.Background(), GinkgoLogr, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })
	return "https://" + net.JoinHostPort(o.Secure.BindAddress, strconv.Itoa(o.Secure.Port)) +
		"/apis/livesched.io/v1alpha1/"
}
