// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/controlplane/process"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// system is the namespace of livesched.
const system = "livesched-system"

var _ = Describe("explain", func() {
	var port int

	// The roles and the ConfigMap exist as config/ has them.
	BeforeEach(func(ctx context.Context) {
		for _, name := range []string{"viewer_role.yaml", "client_role.yaml", "serving_certs.yaml"} {
			text, err := os.ReadFile(filepath.Join(testcluster.Root(), "config", "rbac", name))
			Expect(err).NotTo(HaveOccurred())
			object := &unstructured.Unstructured{}
			Expect(utilyaml.Unmarshal(text, &object.Object)).To(Succeed())
			createForSpec(ctx, object)
		}
		var err error
		port, err = process.FreePort()
		Expect(err).NotTo(HaveOccurred())
	})

	// inAPod runs livesched as if it ran in a pod, with a port that a kubelet forwards.
	inAPod := func(ctx context.Context) {
		GinkgoHelper()
		startKubelet(ctx, "livesched-node")
		startLivesched(ctx, func(o *liveschedapp.Options) {
			o.Secure.Port, o.LeaderElectionNamespace, o.RevisionNamespace = port, system, kept
		})
		runs := pod(hostName(), port)
		createForSpec(ctx, runs)
		runs.Status.Phase = corev1.PodRunning
		Expect(k8s.Status().Update(ctx, runs)).To(Succeed())
		createForSpec(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "livesched"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(hostName() + "_2c1f7a8e")},
		})
	}

	It("asks livesched through a forwarded port, with the credentials of the user", func(ctx context.Context) {
		inAPod(ctx)
		// livesched's pod takes 1 of 4 CPUs of its node; the others are reserved.
		large := objects.Pod("default", "large", "mine", "4", "1Gi")
		create(ctx, profile("mine"), large)
		for name, memory := range map[string]string{"web-1": "16Gi", "web-2": "32Gi"} {
			node := objects.Node(name, "2", memory, map[string]string{"karpenter.sh/nodepool": "web"})
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule}}
			create(ctx, node)
		}
		user := newUser(ctx, "explains")

		By("naming the rights that are missing, one after the other")
		got := kubectlAs(ctx, user, "explain", "pod/large")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(And(
			ContainSubstring(`cannot list resource "pods" in API group "" in the namespace "livesched-system"`),
			ContainSubstring("the Role livesched-client in livesched-system permits it"),
		))
		finds := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: system,
			Name: "finds"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"", "coordination.k8s.io"}, Resources: []string{"pods", "leases", "configmaps"},
				Verbs: []string{"get", "list"}},
		}}
		createForSpec(ctx, finds)
		bind(ctx, user, system, rbacv1.RoleRef{Kind: "Role", Name: finds.Name})
		Eventually(func() string { return kubectlAs(ctx, user, "explain", "pod/large").errOut }).WithContext(ctx).
			Should(And(
				ContainSubstring(
					`cannot get resource "pods/portforward" in API group "" in the namespace "livesched-system"`),
				ContainSubstring("the Role livesched-client in livesched-system permits it"),
			))
		bind(ctx, user, system, rbacv1.RoleRef{Kind: "Role", Name: "livesched-client"})
		Eventually(func() string { return kubectlAs(ctx, user, "explain", "pod/large").errOut }).WithContext(ctx).
			Should(
				MatchRegexp(`cannot get resource "podexplanations" in API group "livesched.io" in the namespace ` +
					`"default".*: the ClusterRole livesched-viewer permits it`))

		By("explaining")
		user = newUser(ctx, "views") // livesched keeps the refusal for ten seconds
		bind(ctx, user, system, rbacv1.RoleRef{Kind: "Role", Name: "livesched-client"})
		bind(ctx, user, "default", rbacv1.RoleRef{Kind: "ClusterRole", Name: "livesched-viewer"})
		expectMay(ctx, user, "default", "livesched.io", "podexplanations")
		expectMay(ctx, user, system, "", "configmaps")
		explain := func(args ...string) outcome { return kubectlAs(ctx, user, append([]string{"explain"}, args...)...) }
		Eventually(func() string {
			got = explain("pod/large")
			return got.out
		}).WithContext(ctx).Should(And(
			MatchRegexp(`Would help, each tried in a copy of the cluster:\n(    .*\n)*    - Free 1 cpu on one\s+node`),
			MatchRegexp(`Profile\s+mine, attempt`), // livesched may be asked before the first one
		), func() string { return got.errOut })
		Expect(got.code).To(BeZero())
		Expect(got.out).To(And(HavePrefix("default/large has been pending for "),
			Not(ContainSubstring("livesched-node"))))
		Expect(got.out).To(MatchRegexp(`(?m)^2 +web +taint dedicated=web:NoSchedule; lacks 2 cpu$`))
		Expect(got.out).To(MatchRegexp(`(?m)^1 +- +lacks 1 cpu$`))
		Expect(explain("pod/large", "-o", "wide").out).
			To(And(ContainSubstring("UntoleratedTaint"), ContainSubstring(nodesAreHidden)))
		GinkgoWriter.Println(got.out)
		var explanation v1alpha1.PodExplanation
		Expect(yaml.Unmarshal([]byte(explain("pod", "large", "-n", "default", "-o", "yaml").out), &explanation)).
			To(Succeed())
		Expect(explanation.Kind).To(Equal("PodExplanation"))
		Expect(explanation.Metadata.UID).To(Equal(large.UID))
		Expect(explain("pod/nobody")).To(Equal(outcome{code: 2, errOut: "error: pods \"nobody\" not found\n"}))
		Expect(explain("pod/large", "-n", system).errOut).To(ContainSubstring(`in the namespace "livesched-system"`))

		By("explaining a PodGroup")
		got = explain("podgroup/train")
		Expect(got.errOut).To(ContainSubstring(`cannot list resource "pods"`))
		lists := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: "lists"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		}}
		createForSpec(ctx, lists)
		bind(ctx, user, "default", rbacv1.RoleRef{Kind: "Role", Name: lists.Name})
		Eventually(func() string { return explain("podgroup/train").errOut }).WithContext(ctx).Should(
			HavePrefix(`error: no pod of the namespace default is in a PodGroup "train"`))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(large), large)).To(Succeed())
		large.Labels = map[string]string{podgroup.Label: "train"}
		Expect(k8s.Update(ctx, large)).To(Succeed())
		got = explain("podgroup", "train")
		Expect(got.out).
			To(HavePrefix("Pod group train has 1 pod: 0 on nodes, 1 pending.\n\ndefault/large has been pending for "),
				got.errOut)
		var list struct{ Items []v1alpha1.PodExplanation }
		Expect(yaml.Unmarshal([]byte(explain("pg/train", "-o", "yaml").out), &list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(list.Items[0].Metadata.UID).To(Equal(large.UID))

		By("simulating")
		binpack := file("apiVersion: livesched.io/v1alpha1\nkind: SchedulerProfile\nmetadata: {name: mine}\nspec:\n  " +
			"pluginConfig:\n" +
			"  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}\n")
		got = kubectlAs(ctx, user, "simulate", "-f", binpack, "-n", "default", "--pods", "all", "--fail-on",
			"unplaced>0")
		GinkgoWriter.Println(got.out)
		Expect(got.errOut).To(Equal("--fail-on \"unplaced>0\" holds: unplaced is 1\n"))
		Expect(got.code).To(Equal(1))
		Expect(got.out).To(HavePrefix("Pods decided again: 1, on 3 nodes.\n"))
		Expect(columns(got.out, "unplaced")).To(Equal([]string{"unplaced", "1", "1", "1"}))
		Expect(kubectlAs(ctx, user, "simulate", "-f", binpack).errOut).
			To(And(ContainSubstring("at the cluster scope"), ContainSubstring("livesched-viewer"),
				ContainSubstring("with -n NAMESPACE, a RoleBinding in that namespace is enough")))
		Expect(got.out).To(ContainSubstring("Unplaced: default/large: 0/3 nodes are available: "),
			"a reason without names of nodes")
		more := file("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: more, namespace: default}\nspec:\n  " +
			"template:\n    spec:\n" +
			"      schedulerName: mine\n      containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]\n")
		// On a busy machine the time for the verdict may be over before a node was emptied.
		Eventually(func() string {
			got = kubectlAs(ctx, user, "capacity", "-f", more)
			return got.out
		}).WithContext(ctx).Should(ContainSubstring("The next one: FitsWhenFreed."),
			func() string { return got.errOut })
		GinkgoWriter.Println(got.out)
		Expect(got.out).To(HavePrefix("Room for 3 more pods, on 1 of 3 nodes; profile mine@"), got.errOut)
		pairs := file("apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: pair, namespace: " +
			"default}\nspec: {minMember: 2}\n---\n" +
			"apiVersion: v1\nkind: Pod\nmetadata: {name: one, namespace: default, labels: " +
			"{scheduling.x-k8s.io/pod-group: pair}}\nspec:\n" +
			"  schedulerName: mine\n  containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]\n")
		got = kubectlAs(ctx, user, "capacity", "-f", pairs)
		GinkgoWriter.Println(got.out)
		Expect(got.out).To(HavePrefix("Room for 1 more group of 2 pods, on 1 of 3 nodes; profile mine@"), got.errOut)
		Expect(got.out).To(MatchRegexp(`The next group does not fit: pod group default/one: 1 of 2 pods that must ` +
			`be\s+placed together fit; .*0/3 nodes are available: `))
		Expect(got.out).
			To(And(ContainSubstring("Pod group one: 2 pods must be placed together, and 1 fits now; 2 are ready."),
				Not(ContainSubstring("livesched-node"))))
		var simulation v1alpha1.Simulation
		Expect(yaml.Unmarshal([]byte(kubectlAs(ctx, user, "simulate", "-f", binpack, "-n", "default", "-o", "yaml").
			out), &simulation)).To(Succeed())
		Expect(simulation.Status.Nodes).To(Equal(int32(3)))

		expectSimulations(ctx, large)

		By("taking a snapshot, and replaying it")
		taken := filepath.Join(GinkgoT().TempDir(), "snapshot.gz")
		Expect(kubectlAs(ctx, user, "snapshot", "--file", taken).errOut).To(And(
			ContainSubstring(`cannot get resource "snapshots" in API group "livesched.io" at the cluster scope`),
			HaveSuffix("the ClusterRole livesched-debugger permits it, with a ClusterRoleBinding\n")))
		Expect(taken).NotTo(BeAnExistingFile())
		got = kubectl(ctx, "snapshot", "--file", taken)
		Expect(got.out).To(MatchRegexp(`^Wrote \S+snapshot.gz \(\d.* kB, redacted\)\n$`), got.errOut)
		got = kubectl(ctx, "replay", taken)
		GinkgoWriter.Println(got.out)
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(And(HavePrefix("Redacted snapshot of "), ContainSubstring("3 nodes, "),
			MatchRegexp(`(?m)^different +0 +-$`)))
		Expect(kubectl(ctx, "snapshot", "--redact=false", "--force", "--file", taken).out).
			To(ContainSubstring("it has the names and labels of your cluster"))
		got = kubectl(ctx, "replay", taken, "-f", binpack, "--pods", "pending", "--fail-on", "unplaced>0")
		Expect(got.code).To(Equal(1), got.errOut)
		Expect(columns(got.out, "unplaced")).To(Equal([]string{"unplaced", "1", "1", "1"}))
		// On a busy machine the time for suggestions may be over before one is found.
		Eventually(func() string { return kubectl(ctx, "replay", taken, "--explain", "default/large").out }).
			WithContext(ctx).Should(ContainSubstring("    - Free 1 cpu on one node"))

		By("redacting with a file that has the names")
		names := filepath.Join(filepath.Dir(taken), "names.tsv")
		got = kubectl(ctx, "snapshot", "--file", taken, "--pseudonyms", names, "--force")
		Expect(got.out).To(MatchRegexp(`^Wrote \S+snapshot.gz \(\d.* kB, redacted\)\nWrote \S+names.tsv \(\d+ `+
			`pseudonyms, for you alone\)\n$`), got.errOut)
		Expect(os.ReadFile(names)).To(MatchRegexp(`(?m)^x[a-z2-7]{13}\tlarge$`))
		Expect(kubectl(ctx, "replay", taken, "--explain", "default/large").errOut).
			To(ContainSubstring("there is no pod default/large"))
		Eventually(func() string {
			return kubectl(ctx, "replay", taken, "--pseudonyms", names, "--explain", "default/large").out
		}).WithContext(ctx).
			Should(And(HavePrefix("default/large "), ContainSubstring("    - Free 1 cpu on one node")))
		Expect(kubectl(ctx, "replay", taken, "--pseudonyms", names).out).
			To(And(HavePrefix("Redacted snapshot of "), ContainSubstring("mine@"),
				MatchRegexp(`(?m)^different +0 +-$`)))

		By("explaining the pending pods of a namespace and of what owns or selects them")
		expectKinds(ctx, large)

		By("explaining why a pod is on its node")
		web := objects.Pod("default", "web", "mine", "1", "1Gi")
		web.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": "web"}
		web.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		create(ctx, web)
		Eventually(func() string { return kubectl(ctx, "explain", "pod/web").out }).WithContext(ctx).Should(And(
			MatchRegexp(`^default/web is on node web-\d, placed by the profile mine\.\n`),
			ContainSubstring("The pod fitted on 2 of 3 nodes."), ContainSubstring("Decided "),
		))
		Expect(columns(kubectl(ctx, "explain", "pod/web").out, "NODE")).To(ContainElements("TOTAL", "Fit"))
		GinkgoWriter.Println(kubectl(ctx, "explain", "pod/web").out)

		By("comparing a node with the others")
		Expect(kubectl(ctx, "explain", "pod/large", "--node", "web-1").out).
			To(HavePrefix("default/large does not fit on node web-1 now.\n  - "))
		Expect(kubectl(ctx, "explain", "pod/web", "--node", "web-1").out).
			To(MatchRegexp(`^default/web (fits on|is on) node web-1`))
		Expect(kubectl(ctx, "explain", "pod/web", "--node", "nosuch").errOut).To(ContainSubstring("nosuch"))

		By("listing decisions")
		expectDecisions(ctx, user, web, large)

		By("not sending credentials to what is not livesched")
		var published corev1.ConfigMap
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: system, Name: "livesched-serving-certs"}, &published)).
			To(Succeed())
		published.Data = map[string]string{hostName(): selfSigned()}
		Expect(k8s.Update(ctx, &published)).To(Succeed())
		Expect(explain("pod/large").errOut).
			To(ContainSubstring("cannot be verified, so your credentials were not sent"))
	})

	It("says why it cannot reach livesched", func(ctx context.Context) {
		got := kubectl(ctx, "explain", "pod/large")
		Expect(got.errOut).To(ContainSubstring("no pod of livesched runs in namespace livesched-system (label " +
			"app.kubernetes.io/name=livesched)"))
		startKubelet(ctx, "livesched-node")
		old := pod("livesched-old", port)
		createForSpec(ctx, old)
		old.Status.Phase = corev1.PodRunning
		Expect(k8s.Status().Update(ctx, old)).To(Succeed())
		got = kubectl(ctx, "explain", "pod/large")
		Expect(got.errOut).To(And(ContainSubstring("livesched-old cannot be verified"),
			ContainSubstring("no certificate is published")))
		var published corev1.ConfigMap
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: system, Name: "livesched-serving-certs"}, &published)).
			To(Succeed())
		published.Data = map[string]string{"livesched-old": selfSigned()}
		Expect(k8s.Update(ctx, &published)).To(Succeed())
		got = kubectl(ctx, "explain", "pod/large")
		Expect(got.errOut).To(And(ContainSubstring("livesched-old cannot be reached"),
			ContainSubstring("connection refused")))
		Expect(k8s.Delete(ctx, &published)).To(Succeed())
		got = kubectl(ctx, "explain", "pod/large")
		Expect(got.errOut).To(ContainSubstring("there is no ConfigMap livesched-system/livesched-serving-certs: " +
			"apply config/rbac of this version"))
	})
})

// nodesAreHidden is printed for users who may not list nodes.
const nodesAreHidden = "Node names are hidden: you may not list nodes."

// expectKinds expects that explain finds a pod that is pending by its namespace, by labels, and by
// what owns or selects it.
func expectKinds(ctx context.Context, pending *corev1.Pod) {
	GinkgoHelper()
	got := kubectl(ctx, "explain", "-n", "default")
	GinkgoWriter.Println(got.out)
	Expect(got.out).To(And(HavePrefix("1 pending pod in namespace default; profile mine.\n"),
		ContainSubstring("pod/large")), got.errOut)
	Expect(kubectl(ctx, "explain", "-A").out).To(ContainSubstring("NAMESPACE"))
	Expect(kubectl(ctx, "explain", "-l", "app=nosuch").errOut).
		To(Equal("No pending pods with app=nosuch in namespace default.\n"))
	Expect(kubectl(ctx, "explain", "deploy/nosuch").errOut).To(ContainSubstring(`deployments.apps "nosuch" not found`))
	Expect(kubectl(ctx, "explain", "deply/web").errOut).To(ContainSubstring(`the API server has no type "deply"`))
	Expect(kubectl(ctx, "explain", "node/web-1").errOut).To(ContainSubstring("is in no namespace"))

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train"}}
	service.Spec.Selector, service.Spec.Ports = map[string]string{podgroup.Label: "train"},
		[]corev1.ServicePort{{Port: 80}}
	createForSpec(ctx, service)
	Expect(kubectl(ctx, "explain", "service/train").out).To(HavePrefix("default/large has been pending for "))

	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nightly"}}
	cron.Spec.Schedule, cron.Spec.Suspend = "0 0 * * *", ptr.To(true)
	cron.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	createForSpec(ctx, cron)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nightly-1"},
		Spec: cron.Spec.JobTemplate.Spec}
	job.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	createForSpec(ctx, job)
	Expect(kubectl(ctx, "explain", "cronjob/nightly").errOut).
		To(Equal("No pending pods of cronjob/nightly in namespace default.\n"))
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pending), pending)).To(Succeed())
	pending.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	Expect(k8s.Update(ctx, pending)).To(Succeed())
	Expect(kubectl(ctx, "explain", "cronjob", "nightly").out).To(HavePrefix("default/large has been pending for "))
	var list struct{ Items []v1alpha1.PodExplanation }
	Expect(yaml.Unmarshal([]byte(kubectl(ctx, "explain", "-o", "yaml").out), &list)).To(Succeed())
	Expect(list.Items).To(HaveLen(1))
}

// hostName returns the host name of this machine, which livesched takes for the name of its pod.
func hostName() string {
	GinkgoHelper()
	host, err := os.Hostname()
	Expect(err).NotTo(HaveOccurred())
	return host
}

// pod returns a pod of livesched.
func pod(name string, port int) *corev1.Pod {
	p := objects.Pod(system, name, "", "1", "1Gi")
	p.Labels = map[string]string{"app.kubernetes.io/name": "livesched"}
	p.Spec.NodeName = "livesched-node"
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "https-metrics", ContainerPort: int32(port)}}
	return p
}

// createForSpec creates an object until the end of the spec.
func createForSpec(ctx context.Context, object client.Object) {
	GinkgoHelper()
	create(ctx, object)
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
	})
}

// newUser creates a service account until the end of the spec.
func newUser(ctx context.Context, name string) *corev1.ServiceAccount {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
	createForSpec(ctx, account)
	return account
}

// bind gives a user a role in a namespace until the end of the spec.
func bind(ctx context.Context, user *corev1.ServiceAccount, namespace string, role rbacv1.RoleRef) {
	GinkgoHelper()
	role.APIGroup = rbacv1.GroupName
	createForSpec(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "test-"}, RoleRef: role,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: user.Namespace, Name: user.Name}},
	})
}

// expectMay waits until the API server permits a user to get a resource.
func expectMay(ctx context.Context, user *corev1.ServiceAccount, namespace, group, resource string) {
	GinkgoHelper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + user.Namespace + ":" + user.Name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Group: group,
			Resource: resource, Name: "livesched-serving-certs"},
	}}
	Eventually(func(g Gomega) {
		g.Expect(k8s.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeTrue())
	}).WithContext(ctx).Should(Succeed())
}

// selfSigned returns a certificate that no livesched serves.
func selfSigned() string {
	GinkgoHelper()
	certificate, _, err := certutil.GenerateSelfSignedCertKey("another", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	return string(certificate)
}

// kubectlAs is kubectl with a token of a user.
func kubectlAs(ctx context.Context, user *corev1.ServiceAccount, args ...string) outcome {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{}
	Expect(k8s.SubResource("token").Create(ctx, user, request)).To(Succeed())
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	Expect(err).NotTo(HaveOccurred())
	for _, auth := range config.AuthInfos {
		auth.Token = request.Status.Token
	}
	text, err := clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return kubectl(ctx, append(args, "--kubeconfig", file(string(text)))...)
}
