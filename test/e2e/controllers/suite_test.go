// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers tests livesched with the other components of a cluster:
// kube-controller-manager creates, disrupts and deletes pods, claims and volumes, and kwok does
// what kubelets do, so that bound pods run, pods of Jobs complete, and deleted pods end.
//
//	rollout, drain, daemonset,
//	workloads, disruption         pods of controllers; ledger_test.go checks the pods of a spec
//	volumes, provisioning, limits persistent volumes; provisioner_test.go stands in for the
//	                              provisioner of a CSI driver, limits_test.go for its attacher
//	devices, sharing              resource claims; a spec creates the ResourceSlices of a device
//	                              driver
//	claimwrites                   what livesched writes of resource claims, and what comes between
//	reserved                      volumes and devices that livesched has reserved while profiles
//	                              change and processes end
//
// Every spec has its own livesched, namespace and nodes. livesched has only the permissions of
// config/rbac. If LIVESCHED_TEST_KUBE_SCHEDULER names a kube-scheduler program, that program runs
// instead of livesched.
package controllers

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/controlplane"
	. "github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/testcluster"
)

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(400 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Scheduling with real controllers")
}

// mine is the scheduler name of the specs' pods.
const mine = "mine"

// controllerFlags shorten the periods in which kube-controller-manager checks for changes that no
// event reports.
var controllerFlags = []string{
	"--pvclaimbinder-sync-period=1s",             // claims that wait for a volume
	"--attach-detach-reconcile-sync-period=1s",   // volumes that no pod uses any more
	"--horizontal-pod-autoscaler-sync-period=1h", // no spec has an autoscaler
	// Deleted namespaces stay in the phase Terminating, and no pod can be created in them. To empty
	// one, this controller makes more than 50 requests, as many as a small spec. The suite deletes
	// leftovers itself.
	"--controllers=*,-namespace-controller",
}

var (
	// clients evicts pods, which the generic client cannot do.
	clients kubernetes.Interface
	// limited is the configuration of a client with the permissions of config/rbac.
	limited *rest.Config
	// before identifies the goroutines that ran before the suite.
	before goleak.Option

	// namespace is the namespace of the current spec.
	namespace string
)

var _ = BeforeSuite(func(ctx context.Context) {
	LogToGinkgo()
	before = goleak.IgnoreCurrent()
	cluster, err := testcluster.StartWith(ctx, controlplane.Options{
		Progress: os.Stderr, WithControllerManager: true, WithKwok: true, ControllerManagerFlags: controllerFlags,
		WithPodGroups: true,
		// This plugin is off by default, and on in some distributions. With it, a client that
		// creates a claim with a pod as its owner needs a permission for the pod.
		APIServerFlags: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	})
	Expect(err).NotTo(HaveOccurred())
	Attach(cluster)
	clients, err = kubernetes.NewForConfig(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	grant(ctx)
}, NodeTimeout(5*time.Minute))

var _ = AfterSuite(func() { StopCluster(before) })

// ownNamespace is the namespace in which config/ runs livesched.
const ownNamespace = "livesched-system"

// grant creates the roles and bindings of config/rbac that livesched needs here, and the namespace
// in which config/ runs it. The tests impersonate the service account.
func grant(ctx context.Context) {
	GinkgoHelper()
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}})
	for file, object := range map[string]client.Object{
		"role.yaml": role, "role_binding.yaml": binding,
		"revisions_role.yaml": &rbacv1.Role{}, "revisions_role_binding.yaml": &rbacv1.RoleBinding{},
	} {
		text, err := os.ReadFile(filepath.Join(testcluster.Root(), "config", "rbac", file))
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(text, object)).To(Succeed())
		Expect(K8s.Create(ctx, object)).To(Succeed())
	}
	account := binding.Subjects[0]
	limited = rest.CopyConfig(Cluster.Config)
	limited.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace,
			"system:authenticated"},
	}
}

var _ = BeforeEach(func(ctx context.Context) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Create(ctx, ns)
	namespace = ns.Name
	Eventually(func() error {
		return K8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).WithContext(ctx).Should(Succeed(), "the API server admits pods once the namespace has its service account")
})

// leftovers returns the kinds of objects that specs create in their namespace. Events and
// configuration maps stay.
func leftovers() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &batchv1.Job{},
		&policyv1.PodDisruptionBudget{},
		&corev1.PersistentVolumeClaim{}, &storagev1.CSIStorageCapacity{}, &resourcev1.ResourceClaimTemplate{},
		&resourcev1.ResourceClaim{},
	}
}

// The next spec begins when no pods, no resource claims and no nodes are left.
var _ = AfterEach(func(ctx context.Context) {
	if CurrentSpecReport().Failed() {
		describe(ctx)
	}
	// From now on, no pods can be created in the namespace. Pods are deleted before their owners,
	// because the garbage collector would make two more requests for each pod.
	Expect(K8s.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	Eventually(func(g Gomega) {
		// Without kwok, the grace period of a pod on a deleted node does not end.
		g.Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))).
			To(Succeed())
		g.Expect(podsOf(ctx)).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
	for _, kind := range leftovers() {
		Expect(K8s.DeleteAllOf(ctx, kind, client.InNamespace(namespace),
			client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	}
	Eventually(func() []resourcev1.ResourceClaim { return claimsOf(ctx) }).WithContext(ctx).Should(BeEmpty())
	Expect(K8s.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed())
	// see addNodes
	Expect(K8s.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(corev1.NamespaceNodeLease))).To(Succeed())
	Expect(K8s.DeleteAllOf(ctx, &v1alpha1.SchedulerProfile{})).To(Succeed())
	Expect(K8s.DeleteAllOf(ctx, &v1alpha1.SchedulingPolicy{})).To(Succeed())
})

// start runs a scheduler with the default plugins for the scheduler name "mine" until the end of
// the spec.
func start(ctx context.Context) {
	GinkgoHelper()
	if program := os.Getenv(Oracle); program != "" {
		StartOracle(program, testcluster.KubeScheduler{Profiles: map[string]string{mine: ""}})
		return
	}
	startLivesched()
	CreateProfile(ctx, mine, "")
}

// startLivesched runs a livesched without profiles until the end of the spec.
func startLivesched() { StartFor(limited, inOwnNamespace) }

// inOwnNamespace makes livesched keep revisions of profiles where its permissions allow that.
func inOwnNamespace(options *app.Options) { options.RevisionNamespace = ownNamespace }
