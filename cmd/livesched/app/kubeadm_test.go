// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/servingcert"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// kubeSchedulerUser is the user of kubeadm's /etc/kubernetes/scheduler.conf.
const kubeSchedulerUser = "system:kube-scheduler"

var _ = Describe("livesched in the place of kubeadm's kube-scheduler", func() {
	dir := filepath.Join(testcluster.Root(), "config", "kubeadm")
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kubeSchedulerUser}

	It("is kubeadm's static pod with the patch for kubeadm", func() {
		pod := filepath.Join(dir, "kube-scheduler.yaml")
		merged, err := strategicpatch.StrategicMergePatch(
			jsonOf(filepath.Join("testdata", "kubeadm-kube-scheduler.yaml")),
			jsonOf(filepath.Join(dir, "patches", "kube-scheduler+strategic.yaml")), &corev1.Pod{})
		Expect(err).NotTo(HaveOccurred())
		var patched, shipped corev1.Pod
		Expect(json.Unmarshal(merged, &patched)).To(Succeed())
		Expect(json.Unmarshal(jsonOf(pod), &shipped)).To(Succeed())
		Expect(shipped).To(Equal(patched))
	})

	It("needs the rights of config/kubeadm besides those of kube-scheduler, and no others", func(ctx context.Context) {
		added := manifests(dir)
		for r := range rightsOf(added, subject) {
			if r.resource == "devicetaintrules" || r.group == schedulingv1beta1.GroupName {
				continue // this API server has the feature gates
			}
			expectDeniedTo(ctx, kubeSchedulerUser, r)
		}
		createUntilEnd(ctx, added...)
		for r := range rightsOf(manifests(filepath.Join(testcluster.Root(), "config", "rbac")), serviceAccountSubject) {
			if r.namespace == namespace {
				r.namespace = metav1.NamespaceSystem // where the static pod runs
			}
			expectAllowedTo(ctx, kubeSchedulerUser, r)
		}
	})

	It("schedules the pods that name no scheduler after the last kube-scheduler, and nothing is forbidden",
		func(ctx context.Context) {
			createUntilEnd(ctx, manifests(dir)...)
			for r := range rightsOf(manifests(dir), subject) {
				expectAllowedTo(ctx, kubeSchedulerUser, r)
			}
			DeferCleanup(func(ctx context.Context) {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
					Name: "livesched"}}
				Expect(k8s.Delete(ctx, lease)).To(Succeed())
				Expect(k8s.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(metav1.NamespaceSystem),
					client.HasLabels{history.LabelKind})).To(Succeed())
			})
			other := holdKubeSchedulerLease(ctx) // on another control plane node
			began := time.Now()
			address, c := startStaticPod(filepath.Join(dir, "kube-scheduler.yaml"))
			for _, path := range []string{"/livez", "/readyz"} { // as the kubelet asks
				Eventually(getAs).WithArguments(ctx, "", "https://"+address+path).
					Should(HaveField("Code", http.StatusOK), c.output.String)
			}

			sample := manifestsIn(filepath.Join(dir, "default-scheduler.yaml"))
			create(ctx, sample...)
			var active v1alpha1.SchedulerProfile
			Eventually(func(g Gomega) {
				g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(sample[0]), &active)).To(Succeed())
				g.Expect(active.Status.Conditions).To(ContainElement(And(
					HaveField("Type", v1alpha1.ConditionProgrammed),
					HaveField("Reason", v1alpha1.ReasonSchedulerNameInUse))))
			}).WithContext(ctx).Should(Succeed())
			other.Spec.HolderIdentity = ptr.To("") // it stops, and releases its Lease
			Expect(k8s.Update(ctx, other)).To(Succeed())
			pod := objects.Pod("default", "names-no-scheduler", "", "1", "1Gi")
			create(ctx, pod)
			Expect(pod.Spec.SchedulerName).To(Equal(corev1.DefaultSchedulerName))
			expectEvent(ctx, pod, "FailedScheduling", "no nodes available to schedule pods")
			create(ctx, objects.Node("n", "8", "16Gi", nil))
			expectBound(ctx, pod)
			expectEvent(ctx, pod, "Scheduled", "Successfully assigned")

			Eventually(func(g Gomega) {
				g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(sample[0]), &active)).To(Succeed())
				g.Expect(meta.IsStatusConditionTrue(active.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
			}).WithContext(ctx).Should(Succeed())
			expectEvent(ctx, &active, "Programmed", " is active")
			revisions, err := history.List(ctx, k8s, metav1.NamespaceSystem, history.KindProfile, active.Name)
			Expect(err).NotTo(HaveOccurred())
			Expect(revisions).NotTo(BeEmpty())
			var lease coordinationv1.Lease
			Expect(k8s.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "livesched"}, &lease)).
				To(Succeed())
			Expect(lease.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
			host, err := os.Hostname()
			Expect(err).NotTo(HaveOccurred())
			var certificates corev1.ConfigMap
			Eventually(func() error {
				if err := k8s.Get(ctx,
					client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: servingcert.PublishedConfigMap},
					&certificates); err != nil {
					return err
				}
				_, err := servingcert.Published(certificates.Data, host)
				return err
			}).WithContext(ctx).Should(Succeed())

			Expect(c.terminate()).To(BeNumerically("<", tolerated)) // watches are in the audit log when they have ended
			Expect(audited(kubeSchedulerUser, began)).NotTo(BeEmpty())
			Expect(forbidden(kubeSchedulerUser, began)).To(BeEmpty())
			Expect(c.output.String()).NotTo(ContainSubstring("forbidden"))
		})
})

// holdKubeSchedulerLease creates the Lease of a kube-scheduler that has just renewed it, until the
// end of the spec.
func holdKubeSchedulerLease(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-scheduler"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("somebody"), RenewTime: ptr.To(metav1.NowMicro()),
			LeaseDurationSeconds: ptr.To[int32](3600),
		},
	}
	createUntilEnd(ctx, lease)
	return lease
}

// startStaticPod runs livesched with the command of a static pod, with the credentials of
// kube-scheduler and on a free port instead of 10259, and returns the address of the port.
func startStaticPod(file string) (address string, c *command) {
	GinkgoHelper()
	var pod corev1.Pod
	Expect(json.Unmarshal(jsonOf(file), &pod)).To(Succeed())
	args := pod.Spec.Containers[0].Command[1:]
	replace := func(prefix, by string) {
		at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, prefix) })
		Expect(at).NotTo(Equal(-1), prefix)
		args[at] = by
	}
	replace("--kubeconfig=", "--kubeconfig="+changedKubeconfig(cluster.Kubeconfig(), func(config *clientcmdapi.Config) {
		certificate, key := clientCA.issue(kubeSchedulerUser)
		for name := range config.AuthInfos {
			config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
		}
	}))
	replace("--secure-port=10259", securePort(&address))
	return address, livesched(args...)
}

// jsonOf reads a YAML file as JSON.
func jsonOf(file string) []byte {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	text, err = yaml.YAMLToJSON(text)
	Expect(err).NotTo(HaveOccurred())
	return text
}

// expectAllowedTo waits until a user has a right: the authorizer sees new roles with a delay.
func expectAllowedTo(ctx context.Context, user string, r right) {
	GinkgoHelper()
	Eventually(has).WithArguments(ctx, user, r).WithContext(ctx).Should(BeTrue(), r.String())
}

// expectDeniedTo checks that a user does not have a right.
func expectDeniedTo(ctx context.Context, user string, r right) {
	GinkgoHelper()
	Expect(has(ctx, user, r)).To(BeFalse(), r.String())
}

// has asks the API server whether a user has a right.
func has(ctx context.Context, user string, r right) (bool, error) {
	what := &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: r.verb, Group: r.group, Name: r.name}
	what.Resource, what.Subresource, _ = strings.Cut(r.resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: what,
	}}
	err := k8s.Create(ctx, review)
	return review.Status.Allowed, err
}

var _ = Describe("A livesched that may not read the Lease of kube-scheduler", func() {
	It("schedules the pods of the profile default-scheduler, and says so", func(ctx context.Context) {
		var rights []client.Object
		for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
			if !strings.HasPrefix(object.GetName(), "livesched-kube-scheduler-lease") {
				rights = append(rights, object)
			}
		}
		createUntilEnd(ctx, rights...)
		expectAuthorized(ctx, rights)
		holdKubeSchedulerLease(ctx)
		kubeconfig, err := cluster.KubeconfigAs(account, "system:serviceaccounts", "system:authenticated")
		Expect(err).NotTo(HaveOccurred())
		c := livesched("--kubeconfig="+kubeconfig, "--leader-elect=false", "--revision-namespace="+namespace)
		pod := objects.Pod("default", "pod", "", "1", "1Gi")
		create(ctx, profile(corev1.DefaultSchedulerName), objects.Node("n", "8", "16Gi", nil), pod)
		expectBound(ctx, pod)
		Expect(c.output.String()).
			To(And(ContainSubstring("May not watch the Lease"), ContainSubstring("kube-system/kube-scheduler")))
	})
})
