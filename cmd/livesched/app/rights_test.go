// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// namespace is the namespace in which config/ runs livesched, and account is its service account.
const (
	namespace = "livesched-system"
	account   = "system:serviceaccount:" + namespace + ":livesched"
)

var _ = Describe("livesched with only the permissions of config/rbac", Ordered, func() {
	var (
		began time.Time
		c     *command
	)

	BeforeAll(func(ctx context.Context) {
		rights := manifests(filepath.Join(testcluster.Root(), "config", "rbac"))
		create(ctx, rights...)
		DeferCleanup(func(ctx context.Context) {
			for _, object := range rights {
				Expect(k8s.Delete(ctx, object)).To(Succeed())
			}
		})
		kubeconfig, err := cluster.KubeconfigAs(account, "system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated")
		Expect(err).NotTo(HaveOccurred())
		expectAuthorized(ctx, rights)
		began = time.Now()
		// livesched follows first. An earlier spec may have left a Lease.
		Expect(k8s.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(namespace))).To(Succeed())
		create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "livesched"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("somebody-else"), LeaseDurationSeconds: ptr.To[int32](1), RenewTime: ptr.To(metav1.NowMicro()), AcquireTime: ptr.To(metav1.NowMicro()),
		}})
		c = livesched("--kubeconfig="+kubeconfig, "--leader-election-namespace="+namespace, "--leader-elect-retry-period=100ms")
		c.expectReady(ctx)
	})

	AfterEach(func() {
		Expect(forbidden(account, began)).To(BeEmpty())
	})

	AfterAll(func() {
		Expect(c.terminate()).To(BeNumerically("<", tolerated))
		Expect(forbidden(account, began)).To(BeEmpty())
		Expect(audited(account, began)).NotTo(BeEmpty(), "livesched made the requests with this account")
		Expect(c.output.String()).NotTo(ContainSubstring("forbidden"))
	})

	It("schedules a pod and writes status and Events", func(ctx context.Context) {
		pod := objects.Pod("default", "first", "mine", "1", "1Gi")
		create(ctx, profile("mine"), &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, pod)
		expectEvent(ctx, pod, "FailedScheduling", "no nodes available to schedule pods")
		expectPodScheduled(ctx, pod, corev1.ConditionFalse)
		create(ctx, objects.Node("n", "8", "16Gi", nil))
		expectBound(ctx, pod)
		expectEvent(ctx, pod, "Scheduled", "Successfully assigned default/first to n")

		mine := profile("mine")
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(mine), mine)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(mine.Status.Conditions, v1alpha1.ConditionProgrammed)).To(BeTrue())
			var policy v1alpha1.SchedulingPolicy
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: "default"}, &policy)).To(Succeed())
			g.Expect(policy.Status.Profiles).To(Equal([]string{"mine"}))
		}).Should(Succeed())
		expectEvent(ctx, mine, "Programmed", " of generation 1 is active")

		By("deleting the profile while a pod waits for it")
		waiting := objects.Pod("default", "waiting", "mine", "64", "1Gi")
		create(ctx, waiting)
		expectPodScheduled(ctx, waiting, corev1.ConditionFalse)
		Expect(k8s.Delete(ctx, mine)).To(Succeed())
		expectEvent(ctx, waiting, "FailedScheduling", "is gone; the pod waits")
	})

	It("sees whether a kube-scheduler runs", func(ctx context.Context) {
		create(ctx, profile("default-scheduler"))
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-scheduler"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("somebody"), RenewTime: ptr.To(metav1.NowMicro()), LeaseDurationSeconds: ptr.To[int32](3600),
			},
		}
		create(ctx, lease)
		DeferCleanup(k8s.Delete, lease)
		Eventually(func(g Gomega) {
			p := profile("default-scheduler")
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			programmed := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
			g.Expect(programmed).To(HaveValue(HaveField("Message", ContainSubstring("kube-scheduler runs as well (somebody holds"))))
		}).WithContext(ctx).Should(Succeed())
	})

	It("lists, creates, updates and deletes revisions in its namespace", func(ctx context.Context) {
		mine := profile("kept")
		mine.Spec.RevisionHistoryLimit = ptr.To[int32](1)
		create(ctx, mine)
		for _, percentage := range []int32{0, 10, 20, 30, 20} {
			Eventually(func() error {
				if err := k8s.Get(ctx, client.ObjectKeyFromObject(mine), mine); err != nil {
					return err
				}
				mine.Spec.PercentageOfNodesToScore = &percentage
				return k8s.Update(ctx, mine)
			}).Should(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(mine), mine)).To(Succeed())
				g.Expect(mine.Status.Active).To(HaveValue(HaveField("Generation", mine.Generation)))
			}).WithContext(ctx).Should(Succeed())
		}
		Eventually(func(g Gomega) {
			revisions, err := history.List(ctx, k8s, namespace, history.KindProfile, mine.Name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(revisions).To(HaveExactElements(
				HaveField("Profile.PercentageOfNodesToScore", HaveValue(Equal(int32(30)))),
				And(HaveField("Profile.PercentageOfNodesToScore", HaveValue(Equal(int32(20)))), HaveField("Generation", mine.Generation)),
			))
		}).WithContext(ctx).Should(Succeed())
		expectEvent(ctx, mine, v1alpha1.ReasonRolledBack, "goes back to revision ")
	})

	It("preempts", func(ctx context.Context) {
		urgent := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}
		create(ctx, urgent)
		DeferCleanup(k8s.Delete, urgent)
		victim := objects.Pod("default", "victim", "mine", "6", "1Gi")
		victim.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) // no kubelet terminates it
		create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil), victim)
		expectBound(ctx, victim)
		preemptor := objects.Pod("default", "preemptor", "mine", "6", "1Gi")
		preemptor.Spec.PriorityClassName = urgent.Name
		create(ctx, preemptor)
		expectBound(ctx, preemptor)
		expectEvent(ctx, victim, "Preempted", "Preempted by pod")
		Expect(client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(victim), victim))).To(Succeed())
		Expect(victim.Spec.NodeName).To(Equal("n"))
	})

	It("assigns a volume", func(ctx context.Context) {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}
		room := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "disk"},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: room, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class.Name,
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"with-disk"}}},
				}}}},
			},
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: volume.Spec.AccessModes, StorageClassName: &class.Name, Resources: corev1.VolumeResourceRequirements{Requests: room},
			},
		}
		pod := objects.Pod("default", "with-volume", "mine", "1", "1Gi")
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}}
		create(ctx, class, volume)
		// Only a volume that its controller has processed is available.
		volume.Status.Phase = corev1.VolumeAvailable
		Expect(k8s.Status().Update(ctx, volume)).To(Succeed())
		create(ctx, claim, objects.Node("without", "8", "16Gi", nil), objects.Node("with-disk", "8", "16Gi", nil), profile("mine"), pod)
		DeferCleanup(func(ctx context.Context) {
			for _, object := range []client.Object{claim, volume} {
				object.SetFinalizers(nil) // no controller does
				Expect(k8s.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
			}
			Expect(errors.Join(k8s.Delete(ctx, claim), k8s.Delete(ctx, volume), k8s.Delete(ctx, class))).To(Succeed())
		})

		By("binding the claim like the volume controller, after livesched has selected the volume")
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(volume), volume)).To(Succeed())
			g.Expect(volume.Spec.ClaimRef).To(HaveField("Name", claim.Name))
		}).Should(Succeed())
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		claim.Spec.VolumeName = volume.Name
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
		Expect(k8s.Update(ctx, claim)).To(Succeed())
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: room}
		Expect(k8s.Status().Update(ctx, claim)).To(Succeed())
		expectBound(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal("with-disk"))
	})

	It("allocates a device", func(ctx context.Context) {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example"}}
		slice := &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "with-gpu"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example", NodeName: ptr.To("with-gpu"),
				Pool:    resourcev1.ResourcePool{Name: "with-gpu", ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "gpu-0"}},
			},
		}
		claim := &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu"},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class.Name},
			}}}},
		}
		pod := objects.Pod("default", "with-device", "mine", "1", "1Gi")
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
		create(ctx, class, slice, claim, objects.Node("without", "8", "16Gi", nil), objects.Node("with-gpu", "8", "16Gi", nil), profile("mine"), pod)
		DeferCleanup(func(ctx context.Context) {
			Expect(k8s.Patch(ctx, claim, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
			Expect(errors.Join(k8s.Delete(ctx, claim), k8s.Delete(ctx, slice), k8s.Delete(ctx, class))).To(Succeed())
		})
		expectBound(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal("with-gpu"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		Expect(claim.Status.Allocation.Devices.Results).To(HaveLen(1))
		Expect(claim.Status.ReservedFor).To(ContainElement(HaveField("Name", pod.Name)))
	})

	It("reads the Secrets of extenders in its namespace, and elsewhere with permissions for a name", func(ctx context.Context) {
		bound := &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "extender-secrets"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}, ResourceNames: []string{"named"}}},
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: bound.ObjectMeta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: bound.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "livesched"}},
		}
		certificate, _, err := certutil.GenerateSelfSignedCertKey("extender.example", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		data := map[string][]byte{"ca.crt": certificate}
		own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}, Data: data}
		named := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "named"}, Data: data}
		created := []client.Object{bound, binding, own, named}
		create(ctx, created...)
		DeferCleanup(func(ctx context.Context) {
			for _, object := range created {
				Expect(k8s.Delete(ctx, object)).To(Succeed())
			}
		})
		expectAllowed(ctx, authorizationv1.ResourceAttributes{Namespace: "default", Verb: "watch", Resource: "secrets", Name: "named"})
		policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "extended"}}
		for _, secret := range []*corev1.Secret{own, named} {
			policy.Spec.Extenders = append(policy.Spec.Extenders, v1alpha1.Extender{
				URLPrefix: "https://extender.example",
				TLSConfig: &v1alpha1.ExtenderTLSConfig{SecretRef: &v1alpha1.SecretReference{Namespace: secret.Namespace, Name: secret.Name}},
			})
		}
		create(ctx, policy)
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
			g.Expect(policy.Status.Conditions).To(ContainElement(And(HaveField("Type", v1alpha1.ConditionAccepted), HaveField("Status", metav1.ConditionTrue))))
		}).WithContext(ctx).Should(Succeed())
	})
})

// expectAllowed waits until livesched's account has a permission. The authorizer sees new
// permissions with a delay.
func expectAllowed(ctx context.Context, what authorizationv1.ResourceAttributes) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: account, ResourceAttributes: &what}}
		g.Expect(k8s.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeTrue(), "%+v", what)
	}).WithContext(ctx).Should(Succeed())
}

// expectAuthorized waits until livesched's account has the roles that the bindings among the
// objects grant. It checks the first permission of each role, since the authorizer sees a role as a
// whole.
func expectAuthorized(ctx context.Context, objects []client.Object) {
	GinkgoHelper()
	roles := 0
	for _, object := range objects {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		Expect(convert(object, &binding)).To(Succeed())
		for _, role := range objects {
			if role.GetObjectKind().GroupVersionKind().Kind != binding.RoleRef.Kind || role.GetName() != binding.RoleRef.Name {
				continue
			}
			var bound rbacv1.ClusterRole
			Expect(convert(role, &bound)).To(Succeed())
			right := bound.Rules[0]
			what := authorizationv1.ResourceAttributes{Namespace: binding.Namespace, Verb: right.Verbs[0], Group: right.APIGroups[0]}
			what.Resource, what.Subresource, _ = strings.Cut(right.Resources[0], "/")
			if len(right.ResourceNames) > 0 {
				what.Name = right.ResourceNames[0]
			}
			expectAllowed(ctx, what)
			roles++
		}
	}
	Expect(roles).NotTo(BeZero())
}

func convert(object client.Object, into any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// expectEvent waits for an Event on an object.
func expectEvent(ctx context.Context, on client.Object, reason, note string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var list eventsv1.EventList
		g.Expect(k8s.List(ctx, &list)).To(Succeed())
		g.Expect(list.Items).To(ContainElement(And(
			HaveField("Regarding.UID", on.GetUID()), HaveField("Reason", reason), HaveField("Note", ContainSubstring(note)),
		)))
	}).WithContext(ctx).Should(Succeed())
}

// expectPodScheduled waits for the condition PodScheduled of a pod.
func expectPodScheduled(ctx context.Context, pod *corev1.Pod, status corev1.ConditionStatus) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodScheduled), HaveField("Status", status))))
	}).WithContext(ctx).Should(Succeed())
}

// manifests reads the objects that the kustomization of a directory lists.
func manifests(dir string) []client.Object {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	Expect(yaml.Unmarshal(text, &kustomization)).To(Succeed())
	Expect(kustomization.Resources).NotTo(BeEmpty())
	var objects []client.Object
	for _, name := range kustomization.Resources {
		text, err := os.ReadFile(filepath.Join(dir, name))
		Expect(err).NotTo(HaveOccurred())
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := documents.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			Expect(err).NotTo(HaveOccurred())
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects
}
