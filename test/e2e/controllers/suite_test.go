// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers tests livesched in a cluster in which everything else is real, too: a
// kube-controller-manager with all of its default controllers makes pods, claims and volumes,
// disrupts and collects them, and kwok plays the kubelets, so that bound pods run, those of a Job
// complete, and deleted ones vanish.
//
//	rollout, drain, daemonset, workloads, disruption   what the controllers of pods do with a scheduler; ledger_test.go follows the pods
//	volumes, provisioning, limits                      persistent volumes; the provisioner of a CSI driver is played by provisioner_test.go,
//	                                                   its attacher by limits_test.go
//	devices, sharing                                   resource claims; a device driver's part is the ResourceSlices that a spec creates
//	promise                                            volumes and devices that are promised while profiles change and processes end
//
// Every spec has a livesched, a namespace and nodes of its own. livesched has the rights that
// config/rbac gives it and no others. With LIVESCHED_TEST_KUBE_SCHEDULER naming a kube-scheduler
// program, that one runs in its place.
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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/leaks"
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

// controllerFlags make kube-controller-manager check more often than by default what no event
// reports.
var controllerFlags = []string{
	"--pvclaimbinder-sync-period=1s",             // claims that are bound immediately, and volumes that come later
	"--attach-detach-reconcile-sync-period=1s",   // volumes that no pod uses any more
	"--horizontal-pod-autoscaler-sync-period=1h", // there is none
}

var (
	cluster *testcluster.Cluster
	k8s     client.Client
	// clients does what the generic client cannot: evictions.
	clients kubernetes.Interface
	// limited is the configuration of a client with the permissions that livesched is shipped with.
	limited *rest.Config
	// before ignores the goroutines from before the suite: every goroutine that livesched starts
	// must end with it.
	before goleak.Option

	// namespace is the present spec's.
	namespace string
)

var _ = BeforeSuite(func(ctx context.Context) {
	logger := zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	before = goleak.IgnoreCurrent()
	var err error
	cluster, err = testcluster.StartWith(ctx, controlplane.Options{
		Progress: os.Stderr, WithControllerManager: true, WithKwok: true, ControllerManagerFlags: controllerFlags,
		// Off by default, on in some distributions: to create a claim that belongs to a pod, a
		// client needs a permission for the pod.
		APIServerFlags: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	})
	Expect(err).NotTo(HaveOccurred())
	k8s = cluster.Client
	clients, err = kubernetes.NewForConfig(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	grant(ctx)
}, NodeTimeout(5*time.Minute))

var _ = AfterSuite(func() {
	if cluster != nil {
		Expect(cluster.Stop()).To(Succeed())
		// The workqueue of a controller that is stopped while it hands out an item never notices.
		Expect(leaks.Find(before, goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleReadyItems"))).To(Succeed())
	}
})

// ownNamespace is where config/ runs livesched.
const ownNamespace = "livesched-system"

// grant creates the roles and bindings of config/rbac that livesched needs here, and the namespace
// in which config/ runs it. The tests impersonate the service account.
func grant(ctx context.Context) {
	GinkgoHelper()
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}})
	for file, object := range map[string]client.Object{
		"role.yaml": role, "role_binding.yaml": binding,
		"revisions_role.yaml": &rbacv1.Role{}, "revisions_role_binding.yaml": &rbacv1.RoleBinding{},
	} {
		text, err := os.ReadFile(filepath.Join(testcluster.Root(), "config", "rbac", file))
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(text, object)).To(Succeed())
		Expect(k8s.Create(ctx, object)).To(Succeed())
	}
	account := binding.Subjects[0]
	limited = rest.CopyConfig(cluster.Config)
	limited.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
}

var _ = BeforeEach(func(ctx context.Context) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	create(ctx, ns)
	namespace = ns.Name
	Eventually(func() error {
		return k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).WithContext(ctx).Should(Succeed(), "pods are admitted once the namespace has its account")
})

// The namespace controller deletes the spec's objects; the next spec begins when no pods and no
// nodes are left.
var _ = AfterEach(func(ctx context.Context) {
	if CurrentSpecReport().Failed() {
		describe(ctx)
	}
	Expect(k8s.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	Eventually(func(g Gomega) {
		// A terminating namespace accepts no new pods; nothing else ends those on deleted nodes.
		g.Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))).To(Succeed())
		g.Expect(podsOf(ctx)).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
	Expect(k8s.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed())
	Expect(k8s.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(corev1.NamespaceNodeLease))).To(Succeed()) // see createNodes
	Expect(k8s.DeleteAllOf(ctx, &v1alpha1.SchedulerProfile{})).To(Succeed())
	Expect(k8s.DeleteAllOf(ctx, &v1alpha1.SchedulingPolicy{})).To(Succeed())
})

// start schedules pods of the scheduler "mine" with the default plugins until the end of the spec.
func start(ctx context.Context) {
	GinkgoHelper()
	if program := os.Getenv(testcluster.KubeSchedulerEnv); program != "" {
		stop, err := cluster.StartKubeScheduler(program, GinkgoT().TempDir(), testcluster.KubeScheduler{Profiles: map[string]string{mine: ""}}, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(stop)
		return
	}
	startLivesched()
	createProfile(ctx, mine, "")
}

// startLivesched runs a livesched without profiles until the end of the spec.
func startLivesched() { startFor(limited) }

// startFor is startLivesched with another client configuration.
func startFor(config *rest.Config) {
	GinkgoHelper()
	run := startUnstopped(config)
	DeferCleanup(func() { Expect(run.Stop(patience)).To(Succeed()) })
}

// patience bounds how long a livesched may take to stop.
const patience = time.Minute

// startUnstopped is startFor for specs that stop what they start.
func startUnstopped(config *rest.Config) *testcluster.Running {
	GinkgoHelper()
	options := testcluster.Options()
	options.RevisionNamespace = ownNamespace
	run, err := testcluster.RunFor(context.Background(), GinkgoLogr, config, options)
	Expect(err).NotTo(HaveOccurred())
	Eventually(run.Scheduler.Ready()).Should(BeClosed())
	return run
}
