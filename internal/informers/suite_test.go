// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/controlplane"
)

var (
	controlPlane *controlplane.ControlPlane
	admin        *kubernetes.Clientset

	foos = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
)

func TestMain(m *testing.M) {
	// Before all tests: what one has started may still log while the next one runs.
	ctrl.SetLogger(GinkgoLogr)
	klog.SetLogger(GinkgoLogr)
	os.Exit(m.Run())
}

func TestInformersOnAControlPlane(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	RunSpecs(t, "Informers")
}

var _ = BeforeSuite(func(ctx context.Context) {
	metrics.Register()
	var err error
	controlPlane, err = controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(controlPlane.Stop)
	admin = kubernetes.NewForConfigOrDie(controlPlane.Config())
	install(foos, "Foo")
})

// install installs a CustomResourceDefinition and waits until the API server serves it.
func install(gvr schema.GroupVersionResource, kind string) {
	GinkgoHelper()
	_, err := envtest.InstallCRDs(controlPlane.Config(), envtest.CRDInstallOptions{
		CRDs:    []*apiextensionsv1.CustomResourceDefinition{definition(gvr, kind)},
		MaxTime: 2 * time.Minute, // on a busy machine
	})
	Expect(err).NotTo(HaveOccurred())
}

// definition returns the definition of a custom resource that accepts any field.
func definition(gvr schema.GroupVersionResource, kind string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: gvr.Resource + "." + gvr.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gvr.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: gvr.Resource, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: gvr.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type:                   "object",
					XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// runningManager is a manager that runs until the spec ends.
type runningManager struct {
	manager ctrl.Manager
	source  *informers.Source
	ended   <-chan error
}

// startManager runs a manager with livesched's cache options.
func startManager(restConfig *rest.Config, adjust ...func(*ctrlcache.Options)) *runningManager {
	GinkgoHelper()
	cacheOptions := informers.CacheOptions(scheme.Scheme, true)
	for _, f := range adjust {
		f(&cacheOptions)
	}
	manager, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:     scheme.Scheme,
		Cache:      cacheOptions,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	Expect(err).NotTo(HaveOccurred())

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})
	Eventually(manager.Elected()).Should(BeClosed())
	return &runningManager{
		manager: manager,
		source:  informers.NewSource(manager.GetCache(), manager.GetRESTMapper(), scheme.Scheme, GinkgoLogr),
		ended:   ended,
	}
}

// newScope returns a scope that is closed when the spec ends.
func (m *runningManager) newScope() *informers.Scope {
	scope := m.source.NewScope()
	DeferCleanup(scope.Close)
	return scope
}

// expectSync fails the test if the scope does not sync.
func expectSync(scope *informers.Scope) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	Expect(scope.WaitForSync(ctx)).To(Succeed())
}

// allowOnly returns the configuration of a user who may only list and watch the resources of the
// rules.
func allowOnly(ctx context.Context, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	GinkgoHelper()
	for i := range rules {
		rules[i].Verbs = []string{"list", "watch"}
	}
	_, err := admin.RbacV1().ClusterRoles().
		Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
			metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(admin.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		Expect(admin.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
	config := controlPlane.Config()
	config.Impersonate.UserName = name
	return config
}
