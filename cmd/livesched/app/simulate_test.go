// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("Simulations on the secure port", func() {
	// binpack is the profile "mine" with a preference for full nodes.
	const binpack = `{"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]}},
	  "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}`

	// versions returns the versions of all objects that a simulation could change.
	versions := func(ctx context.Context) map[string]string {
		GinkgoHelper()
		found := map[string]string{}
		var pods corev1.PodList
		var nodes corev1.NodeList
		var profiles v1alpha1.SchedulerProfileList
		Expect(k8s.List(ctx, &pods)).To(Succeed())
		Expect(k8s.List(ctx, &nodes)).To(Succeed())
		Expect(k8s.List(ctx, &profiles)).To(Succeed())
		for i := range pods.Items {
			found["pod "+pods.Items[i].Name] = pods.Items[i].ResourceVersion
		}
		for i := range nodes.Items {
			found["node "+nodes.Items[i].Name] = nodes.Items[i].ResourceVersion
		}
		for i := range profiles.Items {
			found["profile "+profiles.Items[i].Name] = profiles.Items[i].ResourceVersion
		}
		return found
	}

	It("are for those who may create them in the namespace, and change nothing", func(ctx context.Context) {
		for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
			if object.GetName() == "livesched-viewer" {
				createUntilEnd(ctx, object)
			}
		}
		viewer, stranger := serviceAccount(ctx, "simulates", "", ""), serviceAccount(ctx, "simulates-nothing", "", "")
		subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "simulates"}
		createUntilEnd(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "test-simulates"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "livesched-viewer"},
			Subjects:   []rbacv1.Subject{subject},
		})
		for _, resource := range []string{"simulations", "capacities"} {
			expectMay(ctx, "system:serviceaccount:"+namespace+":simulates", authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: "create", Group: "livesched.io", Resource: resource,
			})
		}

		one, two, large := objects.Pod("default", "one", "mine", "1", "1Gi"),
			objects.Pod("default", "two", "mine", "1", "1Gi"), objects.Pod("default", "large", "mine", "64", "1Gi")
		create(ctx, profile("mine"), objects.Node("n1", "8", "16Gi", nil), objects.Node("n2", "8", "16Gi", nil), one,
			two, large)
		o := testcluster.Options()
		o.Secure.Port, o.Secure.BindAddress = freePort(), "127.0.0.1"
		run, err := cluster.Run(context.Background(), GinkgoLogr, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })
		base := "https://" + net.JoinHostPort(o.Secure.BindAddress, strconv.Itoa(o.Secure.Port)) +
			"/apis/livesched.io/v1alpha1/"
		expectBound(ctx, one)
		expectBound(ctx, two)
		expectPodScheduled(ctx, large, corev1.ConditionFalse)
		Expect(one.Spec.NodeName).NotTo(Equal(two.Spec.NodeName))

		simulation := v1alpha1.Simulation{
			TypeMeta: metav1.TypeMeta{APIVersion: "livesched.io/v1alpha1", Kind: "Simulation"},
			Spec: v1alpha1.SimulationSpec{
				Profiles: []v1alpha1.SchedulerProfile{*objects.Profile("mine", binpack)},
				Pods:     v1alpha1.PodSelection{Type: v1alpha1.PodsAll},
			},
		}
		var before map[string]string
		var got v1alpha1.Simulation
		Eventually(func(g Gomega) {
			before = versions(ctx)
			answer := postAs(ctx, viewer, base+"namespaces/default/simulations", simulation)
			g.Expect(answer.Code).To(Equal(http.StatusOK), answer.Body)
			g.Expect(json.Unmarshal([]byte(answer.Body), &got)).To(Succeed())
			g.Expect(got.Status.Pods).To(Equal(int32(3)), "the informers have the pods")
			g.Expect(versions(ctx)).To(Equal(before))
		}).WithContext(ctx).Should(Succeed())
		Expect(got.Status.Actual.Unplaced).To(Equal(int32(1)))
		Expect(got.Status.Current.NodesUsed).To(Equal(int32(2)))
		Expect(got.Status.New.NodesUsed).To(Equal(int32(1)))
		Expect(got.Status.New.Unplaced).To(Equal(int32(1)))
		Expect(got.Status.New.Moved).To(Equal(int32(1)))
		Expect(got.Status.Profiles).
			To(HaveExactElements(And(HaveField("SchedulerName", "mine"), HaveField("Pods", int32(3)))))

		By("counting pods")
		like := objects.Pod("default", "more", "mine", "3", "1Gi")
		capacity := v1alpha1.Capacity{TypeMeta: metav1.TypeMeta{APIVersion: "livesched.io/v1alpha1", Kind: "Capacity"},
			Spec: v1alpha1.CapacitySpec{Pod: *like}}
		Eventually(func(g Gomega) {
			before = versions(ctx)
			answer := postAs(ctx, viewer, base+"namespaces/default/capacities", capacity)
			g.Expect(answer.Code).To(Equal(http.StatusOK), answer.Body)
			g.Expect(json.Unmarshal([]byte(answer.Body), &capacity)).To(Succeed())
			g.Expect(versions(ctx)).To(Equal(before))
		}).WithContext(ctx).Should(Succeed())
		Expect(capacity.Status.Pods).To(Equal(int32(4)))
		Expect(capacity.Status.Next.Groups).
			To(HaveExactElements(And(HaveField("Nodes", int32(2)), HaveField("Example", ""))))

		By("refusing what is invalid or not permitted")
		broken := simulation
		broken.Spec.Profiles = []v1alpha1.SchedulerProfile{
			*objects.Profile("mine", `{"plugins": {"score": {"enabled": [{"name": "Nobody"}]}}}`)}
		nodes := simulation
		nodes.Spec.Nodes.Remove = []string{"n1"}
		for _, refused := range []struct {
			token, path string
			body        v1alpha1.Simulation
			code        int
			message     string
		}{
			{stranger, "namespaces/default/simulations", simulation, http.StatusForbidden,
				`cannot create resource "simulations" in API group "livesched.io" in the namespace "default"`},
			{viewer, "simulations", simulation, http.StatusForbidden,
				`cannot create resource "simulations" in API group "livesched.io" at the cluster scope`},
			{viewer, "namespaces/" + namespace + "/simulations", simulation, http.StatusForbidden,
				`in the namespace "livesched-system"`},
			{viewer, "namespaces/default/simulations", nodes, http.StatusForbidden, "may list nodes"},
			{viewer, "namespaces/default/simulations", broken, http.StatusUnprocessableEntity,
				`spec.plugins.score.enabled[0].name: Unsupported value: unknown plugin "Nobody"`},
		} {
			answer := postAs(ctx, refused.token, base+refused.path, refused.body)
			var status metav1.Status
			Expect(json.Unmarshal([]byte(answer.Body), &status)).To(Succeed(), answer.Body)
			Expect(answer.Code).To(Equal(refused.code), answer.Body)
			Expect(status.Message).To(ContainSubstring(refused.message))
		}
	})
})

// postAs posts an object with a token. It accepts every certificate.
func postAs(ctx context.Context, token, url string, object any) answer {
	GinkgoHelper()
	text, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	client := httpsClient(&tls.Config{InsecureSkipVerify: true})
	client.Transport = bearer{token, client.Transport}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	Expect(err).NotTo(HaveOccurred())
	response, err := client.Do(request)
	if err != nil {
		return answer{Body: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return answer{Code: response.StatusCode, Body: string(body)}
}
