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
)

var (
	controlPlane *envtest.Environment
	admin        *kubernetes.Clientset

	foos = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
)

func TestInformersOnAControlPlane(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	RunSpecs(t, "Informers")
}

var _ = BeforeSuite(func() {
	Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(), "KUBEBUILDER_ASSETS has to name the directory of etcd and kube-apiserver; `make test` builds them and sets it")
	metrics.Register()
	ctrl.SetLogger(GinkgoLogr)
	klog.SetLogger(GinkgoLogr)
	controlPlane = &envtest.Environment{
		CRDInstallOptions:        installing(definition(foos, "Foo")),
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
	}
	restConfig, err := controlPlane.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(controlPlane.Stop)
	admin = kubernetes.NewForConfigOrDie(restConfig)
})

// startTimeout bounds what takes seconds on an idle machine. envtest's own bounds, of 10 and 20
// seconds, are short for a busy one.
const startTimeout = 2 * time.Minute

// installing are the options that install definitions.
func installing(definitions ...*apiextensionsv1.CustomResourceDefinition) envtest.CRDInstallOptions {
	return envtest.CRDInstallOptions{CRDs: definitions, MaxTime: startTimeout}
}

// definition returns the definition of a custom resource without a schema worth the name.
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

// runningManager is a manager that runs until the test ends.
type runningManager struct {
	manager ctrl.Manager
	source  *informers.Source
	ended   <-chan error
}

// startManager runs a manager with the options that livesched's has.
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

// newScope returns a scope that is closed when the test ends.
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

// allowOnly gives a user the right to list and watch some resources and returns its configuration.
func allowOnly(ctx context.Context, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	GinkgoHelper()
	user, err := controlPlane.AddUser(envtest.User{Name: name}, nil)
	Expect(err).NotTo(HaveOccurred())
	for i := range rules {
		rules[i].Verbs = []string{"list", "watch"}
	}
	_, err = admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
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
	return user.Config()
}
