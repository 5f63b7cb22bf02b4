// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

const (
	visibilityPath = "/apis/visibility.livesched.io/v1alpha1/"
	questionsPath  = "/apis/livesched.io/v1alpha1/"
)

// installed creates the objects of directories of config/ until the end of the spec. Nothing routes
// cluster IPs here, but the API server calls a Service of type ExternalName by its name: the
// APIService is at a port of this machine.
func installed(ctx context.Context, port int, dirs ...string) {
	GinkgoHelper()
	var all []client.Object
	for _, dir := range dirs {
		all = append(all, manifests(filepath.Join(testcluster.Root(), "config", dir))...)
	}
	for i, object := range all {
		switch object.GetObjectKind().GroupVersionKind().Kind {
		case "Service":
			all[i] = &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
		case "APIService":
			fields := object.(*unstructured.Unstructured).Object
			Expect(unstructured.SetNestedField(fields, int64(port), "spec", "service", "port")).To(Succeed())
		}
	}
	create(ctx, all...)
	DeferCleanup(func(ctx context.Context) {
		for _, object := range all {
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, object))).To(Succeed())
		}
	})
	expectAuthorized(ctx, all)
}

// tokenOf returns the configuration of a client with the token of livesched's service account.
func tokenOf(ctx context.Context, name string) *rest.Config {
	GinkgoHelper()
	token, err := kubernetes.NewForConfigOrDie(cluster.Config).CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return withToken(token.Status.Token)
}

func withToken(token string) *rest.Config {
	config := rest.AnonymousClientConfig(cluster.Config)
	config.BearerToken = token
	return config
}

// replicaOf runs livesched as config/ does, for the rest of a spec or until stop, as the pod with a
// name. It returns the URL of its secure port.
func replicaOf(ctx context.Context, name string, port int, change func(*app.Options)) (url string, stop func()) {
	GinkgoHelper()
	pod := objects.Pod(namespace, name, "none", "1", "1Gi")
	pod.Labels = map[string]string{"app.kubernetes.io/name": "livesched"}
	pod.Spec.NodeName = "control-plane"
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "https-metrics", ContainerPort: int32(port)}}
	create(ctx, pod)
	DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed()) })
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1",
		PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}}}
	Expect(k8s.Status().Update(ctx, pod)).To(Succeed())

	o := testcluster.Options()
	o.Secure.Port, o.Secure.BindAddress, o.Host = port, "127.0.0.1", name
	o.LeaderElect, o.LeaderElectionNamespace = true, namespace
	change(o)
	run, err := testcluster.RunFor(context.Background(), GinkgoLogr, tokenOf(ctx, "livesched"), o)
	Expect(err).NotTo(HaveOccurred())
	ended := false
	stop = func() {
		if !ended {
			ended = true
			Expect(run.Stop(tolerated)).To(Succeed())
		}
	}
	DeferCleanup(stop)
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), stop
}

// apiService returns the name of the APIService.
func apiService() *unstructured.Unstructured {
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1",
		Kind: "APIService"})
	service.SetName("v1alpha1.visibility.livesched.io")
	return service
}

// viewerAndStranger returns the tokens of service accounts: one that may view, and one that may
// not.
func viewerAndStranger(ctx context.Context) (viewer, stranger string) {
	GinkgoHelper()
	viewer, stranger = serviceAccount(ctx, "asks-api-server", "livesched-viewer", "/ui/"),
		serviceAccount(ctx, "asks-in-vain", "", "")
	expectMay(ctx, "system:serviceaccount:"+namespace+":asks-api-server", authorizationv1.ResourceAttributes{
		Verb: "list", Group: "visibility.livesched.io", Resource: "pendingkinds"})
	return viewer, stranger
}

var _ = Describe("The visibility API, set up by config/visibility-api", func() {
	It("answers users of the API server, who reach nothing else", func(ctx context.Context) {
		port, began := freePort(), time.Now()
		installed(ctx, port, "rbac", "visibility-api")
		viewer, stranger := viewerAndStranger(ctx)
		create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil),
			objects.Pod("default", "large", "mine", "64", "1Gi"))
		url, stop := replicaOf(ctx, "livesched-0", port, func(o *app.Options) { o.Secure.Visibility.Enabled = true })
		get := func(config *rest.Config, path string) ([]byte, error) {
			text, err := kubernetes.NewForConfigOrDie(config).RESTClient().Get().RequestURI(path).DoRaw(ctx)
			if err == nil {
				return text, nil
			}
			refused := &apierrors.StatusError{} // client-go does not read the Status of a raw answer
			if json.Unmarshal(text, &refused.ErrStatus) != nil {
				return nil, err
			}
			return nil, refused
		}

		By("listing what the viewer may list, as the secure port does")
		Eventually(func(g Gomega) {
			text, err := get(withToken(viewer), visibilityPath+"pendingkinds")
			g.Expect(err).NotTo(HaveOccurred())
			var kinds v1alpha1.PendingKindList
			g.Expect(json.Unmarshal(text, &kinds)).To(Succeed())
			g.Expect(kinds.APIVersion).To(Equal("livesched.io/v1alpha1"))
			g.Expect(kinds.Kind).To(Equal("PendingKindList"))
			g.Expect(kinds.Items).To(HaveLen(1))
		}).WithContext(ctx).Should(Succeed())
		Eventually(func(g Gomega) { // the pod may be decided between two answers
			queues, err := get(withToken(viewer), visibilityPath+"queues")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(queues)).To(Equal(getAs(ctx, viewer, url+questionsPath+"queues").Body))
		}).WithContext(ctx).Should(Succeed())
		explanation, err := get(withToken(viewer), visibilityPath+"namespaces/default/podexplanations/large")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(explanation)).To(And(ContainSubstring("NodeResourcesFit"), Not(ContainSubstring(`"n"`))))
		_, err = get(withToken(viewer), visibilityPath+"namespaces/default/podexplanations/gone")
		Expect(err).To(Satisfy(apierrors.IsNotFound))

		By("simulating for the viewer")
		simulation, err := kubernetes.NewForConfigOrDie(withToken(viewer)).RESTClient().Post().
			RequestURI(visibilityPath+"namespaces/default/capacities").
			SetHeader("Content-Type", "application/json").
			Body([]byte(`{"apiVersion": "livesched.io/v1alpha1", "kind": "Capacity", "spec": {"pod": {"spec": {
				"schedulerName": "mine", "containers": [{"name": "a", "image": "a",
				"resources": {"requests": {"cpu": "1"}}}]}}}}`)).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred(), string(simulation))
		Expect(string(simulation)).To(ContainSubstring(`"pods":8`))

		By("naming the right that a stranger lacks, at the API server and at livesched")
		_, err = get(withToken(stranger), visibilityPath+"pendingkinds")
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(
			`cannot list resource "pendingkinds" in API group "visibility.livesched.io" at the cluster scope`))))
		createUntilEnd(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-visibility-alone"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{"visibility.livesched.io"}, Resources: []string{"pendingkinds"},
				Verbs: []string{"list"}}}})
		bindRole(ctx, "asks-in-vain", "test-visibility-alone",
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "asks-in-vain"})
		Eventually(func() error {
			_, err := get(withToken(stranger), visibilityPath+"pendingkinds")
			return err
		}).WithContext(ctx).Should(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(
			`cannot list resource "pendingkinds" in API group "livesched.io" at the cluster scope`))))

		By("answering whom an administrator impersonates")
		as := rest.CopyConfig(cluster.Config)
		as.Impersonate.UserName = "system:serviceaccount:" + namespace + ":asks-in-vain"
		_, err = get(as, visibilityPath+"queues")
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		_, err = get(cluster.Config, visibilityPath+"queues")
		Expect(err).NotTo(HaveOccurred())

		By("not believing a forged name")
		forged := requestWith(ctx, stranger, url+questionsPath+"pendingkinds", "X-Remote-User", "admin",
			"X-Remote-Group", "system:masters")
		Expect(forged).To(And(HaveField("Code", http.StatusForbidden),
			HaveField("Body", ContainSubstring("asks-in-vain"))))

		By("leaving the discovery of the API server complete")
		discovery := kubernetes.NewForConfigOrDie(withToken(viewer)).Discovery()
		Eventually(func(g Gomega) {
			_, lists, err := discovery.ServerGroupsAndResources()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(lists).To(ContainElement(And(
				HaveField("GroupVersion", "visibility.livesched.io/v1alpha1"),
				HaveField("APIResources", ContainElement(And(HaveField("Name", "pendingkinds"),
					HaveField("Kind", "PendingKind"), HaveField("Group", "livesched.io"), HaveField("Namespaced", true),
					HaveField("Verbs", metav1.Verbs{"list"})))))))
		}).WithContext(ctx).Should(Succeed())

		By("letting a namespace be deleted")
		doomed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test-doomed"}}
		create(ctx, doomed, objects.Pod("test-doomed", "a", "none", "1", "1Gi"))
		Expect(k8s.Delete(ctx, doomed)).To(Succeed())
		Eventually(func() error { return finish(ctx, doomed.Name) }).WithContext(ctx).Should(Succeed())
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(doomed), doomed)).To(Satisfy(apierrors.IsNotFound))

		Expect(forbidden(account, began)).To(BeEmpty())

		By("letting livesched's token change nothing of the APIService but caBundle")
		stolen, err := client.New(tokenOf(ctx, "livesched"), client.Options{Scheme: k8s.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		service := apiService()
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(service), service)).To(Succeed())
		Expect(unstructured.SetNestedField(service.Object, "kube-dns", "spec", "service", "name")).To(Succeed())
		Expect(stolen.Update(ctx, service)).To(And(Satisfy(apierrors.IsForbidden),
			MatchError(ContainSubstring("livesched may change only caBundle of an APIService"))))
		Expect(stolen.Delete(ctx, service)).To(Satisfy(apierrors.IsForbidden))
		Expect(k8s.Update(ctx, service, client.DryRunAll)).To(Succeed(), "the change is valid, and others may make it")

		By("making discovery incomplete, and the deletion of namespaces wait, while no replica runs")
		stop()
		expectUsed(ctx, manifests(filepath.Join(testcluster.Root(), "config", "visibility-api")), began)
		doomed = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test-waits"}}
		create(ctx, doomed)
		Eventually(func() error {
			_, _, err := discovery.ServerGroupsAndResources()
			return err
		}).WithContext(ctx).Should(MatchError(ContainSubstring("visibility.livesched.io/v1alpha1")))
		Expect(k8s.Delete(ctx, doomed)).To(Succeed())
		Expect(finish(ctx, doomed.Name)).To(MatchError(ContainSubstring("visibility.livesched.io/v1alpha1")))
		Expect(k8s.Delete(ctx, apiService())).To(Succeed())
		Eventually(func() error { return finish(ctx, doomed.Name) }).WithContext(ctx).Should(Succeed())
	})

	It("answers by way of the leader, whichever replica API server or browser reaches", func(ctx context.Context) {
		ports := []int{freePort(), freePort()}
		installed(ctx, ports[1], "rbac", "visibility-api")
		viewer, stranger := viewerAndStranger(ctx)
		create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil),
			objects.Pod("default", "large", "mine", "64", "1Gi"))
		both := func(o *app.Options) { o.Secure.Visibility.Enabled, o.Secure.UI = true, true }
		leader, stop := replicaOf(ctx, "livesched-0", ports[0], both)
		Eventually(func() int { return getAs(ctx, viewer, leader+questionsPath+"queues").Code }).
			Should(Equal(http.StatusOK))
		follower, _ := replicaOf(ctx, "livesched-1", ports[1], both)

		By("answering direct questions")
		Eventually(func(g Gomega) {
			got := getAs(ctx, viewer, follower+questionsPath+"pendingkinds")
			g.Expect(got.Code).To(Equal(http.StatusOK), got.Body)
			g.Expect(got.Body).To(ContainSubstring(`"kind":"PendingKindList"`))
		}).WithContext(ctx).Should(Succeed())
		load := getAs(ctx, viewer, follower+questionsPath+"loadsamples")
		Expect(load.Body).To(ContainSubstring(`"leading":true`))
		Expect(requestWith(ctx, viewer, follower+questionsPath+"loadsamples", "X-Livesched-Pass-On", "never").Body).
			To(ContainSubstring(`"leading":false`))
		explained := getAs(ctx, viewer, follower+questionsPath+"namespaces/default/podexplanations/large")
		Expect(explained.Body).To(And(ContainSubstring("NodeResourcesFit"), Not(ContainSubstring(`"n"`))))

		By("answering for nobody else")
		Expect(getAs(ctx, stranger, follower+questionsPath+"pendingkinds").Code).To(Equal(http.StatusForbidden))
		own := tokenOf(ctx, "livesched").BearerToken
		Expect(requestWith(ctx, viewer, leader+questionsPath+"pendingkinds", "X-Livesched-Passed-On-By", "livesched-1",
			"X-Remote-User", "admin", "X-Remote-Group", "system:masters")).To(And(
			HaveField("Code", http.StatusForbidden), HaveField("Body", ContainSubstring("cannot pass requests on"))))
		Expect(requestWith(ctx, own, leader+questionsPath+"pendingkinds", "X-Livesched-Passed-On-By", "livesched-1",
			"X-Remote-User", "system:serviceaccount:"+namespace+":asks-in-vain")).To(
			And(HaveField("Code", http.StatusForbidden), HaveField("Body", ContainSubstring("asks-in-vain"))))
		Expect(requestWith(ctx, own, leader+"/configz", "X-Livesched-Passed-On-By", "livesched-1",
			"X-Remote-User", "admin", "X-Remote-Group", "system:masters").Code).To(Equal(http.StatusForbidden))

		By("not passing on what a client has chosen the replica for, nor what was passed on")
		Expect(requestWith(ctx, viewer, follower+questionsPath+"queues", "X-Livesched-Pass-On", "never")).To(
			And(HaveField("Code", http.StatusServiceUnavailable),
				HaveField("Body", ContainSubstring("this replica does not schedule pods"))))
		Expect(requestWith(ctx, own, follower+questionsPath+"queues", "X-Livesched-Passed-On-By", "livesched-2",
			"X-Remote-User", "system:serviceaccount:"+namespace+":asks-api-server")).To(
			And(HaveField("Code", http.StatusServiceUnavailable),
				HaveField("Body", ContainSubstring("another one has begun to lead"))))

		By("showing the pages of the dashboard")
		Eventually(func(g Gomega) {
			g.Expect(getAs(ctx, viewer, follower+"/ui/parts/kinds").Body).
				To(ContainSubstring(`href="/ui/pods/default/large"`))
			g.Expect(getAs(ctx, viewer, follower+"/ui/parts/health").Body).To(ContainSubstring("leader"))
		}).WithContext(ctx).Should(Succeed())
		Expect(getAs(ctx, viewer, follower+"/ui/pods/default/large").Body).To(ContainSubstring("cpu"))

		By("answering the API server")
		Eventually(func(g Gomega) {
			text, err := kubernetes.NewForConfigOrDie(withToken(viewer)).RESTClient().Get().
				AbsPath(visibilityPath + "pendingkinds").DoRaw(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(text)).To(ContainSubstring(`"kind":"PendingKindList"`))
		}).WithContext(ctx).Should(Succeed())

		By("answering itself when it leads")
		stop()
		Eventually(func() int { return getAs(ctx, viewer, follower+questionsPath+"queues").Code }).
			WithContext(ctx).Should(Equal(http.StatusOK))
	})

	It("names a leader that cannot be reached", func(ctx context.Context) {
		installed(ctx, freePort(), "rbac")
		viewer, _ := viewerAndStranger(ctx)
		now := metav1.NowMicro()
		held := metav1.ObjectMeta{Namespace: namespace, Name: "test-held"}
		createUntilEnd(ctx, &coordinationv1.Lease{ObjectMeta: held,
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("livesched-7_2c1f"), AcquireTime: &now,
				RenewTime: &now, LeaseDurationSeconds: ptr.To[int32](3600)}})
		createUntilEnd(ctx, &rbacv1.Role{ObjectMeta: held,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
				Verbs: []string{"get", "list", "watch", "update"}}}},
			&rbacv1.RoleBinding{ObjectMeta: held,
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "test-held"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "livesched"}}})
		url, _ := replicaOf(ctx, "livesched-0", freePort(), func(o *app.Options) { o.LeaderElectionName = "test-held" })
		Eventually(func() answer { return getAs(ctx, viewer, url+questionsPath+"queues") }).WithContext(ctx).Should(And(
			HaveField("Code", http.StatusServiceUnavailable), HaveField("Body", ContainSubstring(
				"livesched in pod livesched-system/livesched-7 leads, and this replica could not pass the question on "+
					"to it: no such pod runs"))))
	})

	It("needs a certificate that the API server can verify", func() {
		code, text := run("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "--visibility-api",
			"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(freePort()))
		Expect(code).To(Equal(1))
		Expect(text).To(ContainSubstring("livesched: --visibility-api: the API server accepts only a certificate " +
			"that it can verify, and livesched has no namespace to keep one in, since it does not run in a pod: set " +
			"--leader-election-namespace, or --tls-cert-file"))
	})
})

// requestWith is getAs with headers: names and values in turn.
func requestWith(ctx context.Context, token, url string, headers ...string) answer {
	client := httpsClient(&tls.Config{InsecureSkipVerify: true})
	client.Transport = withHeaders{headers, bearer{token, client.Transport}}
	return getWith(ctx, client, url)
}

// withHeaders adds headers to requests.
type withHeaders struct {
	headers []string
	next    http.RoundTripper
}

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for i := 0; i < len(h.headers); i += 2 {
		r.Header.Add(h.headers[i], h.headers[i+1])
	}
	return h.next.RoundTrip(r)
}

// finish does what kube-controller-manager does to a namespace that is deleted. The API server's
// discovery must be complete for that.
func finish(ctx context.Context, name string) error {
	all, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		return err
	}
	metadata, err := metadata.NewForConfig(cluster.Config)
	if err != nil {
		return err
	}
	return deletion.NewNamespacedResourcesDeleter(ctx, all.CoreV1().Namespaces(), metadata, all.CoreV1(),
		all.Discovery().ServerPreferredNamespacedResources, corev1.FinalizerKubernetes).Delete(ctx, name)
}
