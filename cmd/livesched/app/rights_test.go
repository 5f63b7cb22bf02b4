// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
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
		began  time.Time
		c      *command
		rights []client.Object
		secure string // host:port
	)

	BeforeAll(func(ctx context.Context) {
		Expect(cluster.InstallPodGroups(ctx)).To(Succeed())
		rights = manifests(filepath.Join(testcluster.Root(), "config", "rbac"))
		create(ctx, rights...)
		DeferCleanup(func(ctx context.Context) {
			for _, object := range rights {
				Expect(k8s.Delete(ctx, object)).To(Succeed())
			}
		})
		kubeconfig, err := cluster.KubeconfigAs(account, "system:serviceaccounts", "system:serviceaccounts:"+namespace,
			"system:authenticated")
		Expect(err).NotTo(HaveOccurred())
		expectAuthorized(ctx, rights)
		began = time.Now()
		// livesched follows first. An earlier spec may have left a Lease.
		Expect(k8s.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(namespace))).To(Succeed())
		create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: "livesched"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("somebody-else"), LeaseDurationSeconds: ptr.To[int32](1),
			RenewTime: ptr.To(metav1.NowMicro()), AcquireTime: ptr.To(metav1.NowMicro()),
		}})
		c = livesched("--kubeconfig="+kubeconfig, "--leader-election-namespace="+namespace,
			"--leader-elect-retry-period=100ms",
			securePort(&secure),
			"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true", // they change nothing
			"--feature-gates=CompositePodGroup=true",                                    // for its rights
			"--feature-gates=PodGroupPreemptionPolicy=true")                             // no group sets the policy
		c.expectReady(ctx)
	})

	AfterEach(func() {
		Expect(forbidden(account, began)).To(BeEmpty())
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

	It("asks who sends a request to its secure port, and follows the authorities of client certificates",
		func(ctx context.Context) {
			bound := serviceAccount(ctx, "rights", "livesched-metrics-reader", "/metrics")
			Expect(getAs(ctx, bound, "https://"+secure+"/metrics")).To(HaveField("Code", http.StatusOK))
			Eventually(getWith).WithArguments(ctx, clientCA.client("root", "system:masters"), "https://"+secure+
				"/metrics").Should(HaveField("Code", http.StatusOK))
		})

	It("sees whether a kube-scheduler runs", func(ctx context.Context) {
		create(ctx, profile("default-scheduler"))
		holdKubeSchedulerLease(ctx)
		Eventually(func(g Gomega) {
			p := profile("default-scheduler")
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			programmed := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
			// Whether the profile waits depends on what livesched sees first.
			g.Expect(programmed).
				To(HaveValue(HaveField("Message", MatchRegexp(`kube-scheduler runs( as well)? \(somebody holds`))))
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
				And(HaveField("Profile.PercentageOfNodesToScore", HaveValue(Equal(int32(20)))),
					HaveField("Generation", mine.Generation)),
			))
		}).WithContext(ctx).Should(Succeed())
		expectEvent(ctx, mine, v1alpha1.ReasonRolledBack, "goes back to the revision ")
	})

	It("schedules the pods of a PodGroup together, and writes its condition", func(ctx context.Context) {
		create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil))
		group := objects.KubernetesPodGroup("g", 2, "kubernetes.io/hostname")
		var pods []*corev1.Pod
		for _, name := range []string{"one", "two"} {
			pod := objects.PodOf("mine", name, objects.InGroup(group.Name))
			create(ctx, pod)
			pods = append(pods, pod)
		}
		create(ctx, group)
		for _, pod := range pods {
			expectBound(ctx, pod)
		}
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)).
				To(BeTrue())
		}).WithContext(ctx).Should(Succeed())
		Expect(k8s.Delete(ctx, group)).To(Succeed())
	})

	It("schedules the pods of a PodGroup of scheduler-plugins together, and keeps its status",
		func(ctx context.Context) {
			create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil))
			group := objects.PodGroup("g", 1)
			pod := objects.PodOf("mine", "one", objects.MemberOf(group.GetName()))
			create(ctx, group, pod)
			expectBound(ctx, pod)
			Eventually(func(g Gomega) {
				g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
				g.Expect(group.Object).To(HaveKeyWithValue("status", HaveKeyWithValue("phase", "Scheduling")))
			}).WithContext(ctx).Should(Succeed())
			Expect(k8s.Delete(ctx, group)).To(Succeed())
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
				Capacity: room, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName:       class.Name,
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}},
				NodeAffinity: &corev1.VolumeNodeAffinity{
					Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
								Values: []string{"with-disk"}}},
					}}}},
			},
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: volume.Spec.AccessModes, StorageClassName: &class.Name,
				Resources: corev1.VolumeResourceRequirements{Requests: room},
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
		create(ctx, claim, objects.Node("without", "8", "16Gi", nil), objects.Node("with-disk", "8", "16Gi", nil),
			profile("mine"), pod)
		DeferCleanup(func(ctx context.Context) {
			for _, object := range []client.Object{claim, volume} {
				object.SetFinalizers(nil) // no controller does
				Expect(k8s.Patch(ctx, object,
					client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).
					To(Succeed())
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
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes",
			"pv.kubernetes.io/bound-by-controller": "yes"}
		Expect(k8s.Update(ctx, claim)).To(Succeed())
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes,
			Capacity: room}
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
		create(ctx, class, slice, claim, objects.Node("without", "8", "16Gi", nil),
			objects.Node("with-gpu", "8", "16Gi", nil), profile("mine"), pod)
		DeferCleanup(func(ctx context.Context) {
			Expect(k8s.Patch(ctx, claim,
				client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).
				To(Succeed())
			Expect(errors.Join(k8s.Delete(ctx, claim), k8s.Delete(ctx, slice), k8s.Delete(ctx, class))).To(Succeed())
		})
		expectBound(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal("with-gpu"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		Expect(claim.Status.Allocation.Devices.Results).To(HaveLen(1))
		Expect(claim.Status.ReservedFor).To(ContainElement(HaveField("Name", pod.Name)))
	})

	It("asks for a volume", func(ctx context.Context) {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "provisioned"}, Provisioner: "disks.example",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "provisioned"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class.Name,
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		pod := objects.Pod("default", "asks-for-volume", "mine", "1", "1Gi")
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}}
		create(ctx, class, claim, objects.Node("n", "8", "16Gi", nil), profile("mine"), pod)
		DeferCleanup(func(ctx context.Context) {
			Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
			Expect(k8s.Patch(ctx, claim,
				client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).
				To(Succeed())
			Expect(errors.Join(k8s.Delete(ctx, claim), k8s.Delete(ctx, class))).To(Succeed())
		})
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
			g.Expect(claim.Annotations).To(HaveKeyWithValue("volume.kubernetes.io/selected-node", "n"))
		}).WithContext(ctx).Should(Succeed())
	})

	It("gives devices back when a binding fails", func(ctx context.Context) {
		refuseBindings(ctx, "refused")
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example"},
			Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("gpu.example/card")}}
		slice := &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "cards"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example", NodeName: ptr.To("with-cards"),
				Pool:    resourcev1.ResourcePool{Name: "with-cards", ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "card-0"}, {Name: "card-1"}},
			},
		}
		claim := &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "card"},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "card", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class.Name},
			}}}},
		}
		claiming, extended := objects.Pod("default", "refused-claim", "mine", "1", "1Gi"),
			objects.Pod("default", "refused-extended", "mine", "1", "1Gi")
		claiming.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimName: &claim.Name}}
		resources := &extended.Spec.Containers[0].Resources
		resources.Requests["gpu.example/card"] = resource.MustParse("1")
		resources.Limits = corev1.ResourceList{"gpu.example/card": resource.MustParse("1")}
		create(ctx, class, slice, claim, objects.Node("with-cards", "8", "16Gi", nil), profile("mine"), claiming,
			extended)
		DeferCleanup(func(ctx context.Context) {
			// No controller removes the finalizers.
			Expect(errors.Join(k8s.Delete(ctx, claiming, client.GracePeriodSeconds(0)),
				k8s.Delete(ctx, extended, client.GracePeriodSeconds(0)))).To(Succeed())
			Expect(k8s.Patch(ctx, claim,
				client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).
				To(Succeed())
			Expect(errors.Join(k8s.Delete(ctx, claim), k8s.Delete(ctx, slice), k8s.Delete(ctx, class))).To(Succeed())
		})
		for _, r := range []right{
			{group: "resource.k8s.io", resource: "resourceclaims/status", verb: "patch"},
			{group: "resource.k8s.io", resource: "resourceclaims", verb: "create"},
			{group: "resource.k8s.io", resource: "resourceclaims", verb: "delete"},
		} {
			Eventually(func() bool { return slices.ContainsFunc(audited(account, began), r.allows) }).WithContext(ctx).
				Should(BeTrue(), r.String())
		}
	})

	It("reads only the Secrets that a Role names", func(ctx context.Context) {
		for _, verb := range []string{"get", "list", "watch"} {
			expectDenied(ctx, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: "secrets"})
			expectDenied(ctx, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: "secrets",
				Name: "livesched-webhook-cert"})
		}
		var role rbacv1.Role
		var binding rbacv1.RoleBinding
		granted := manifests(filepath.Join(testcluster.Root(), "config", "extender-secret"))
		Expect(errors.Join(convert(granted[0], &role), convert(granted[1], &binding))).To(Succeed())
		role.Namespace, binding.Namespace = "default", "default"
		Expect(role.Rules).To(HaveExactElements(HaveField("ResourceNames", []string{"gpu-extender-tls"})))
		certificate, _, err := certutil.GenerateSelfSignedCertKey("extender.example", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		data := map[string][]byte{"ca.crt": certificate}
		named := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "gpu-extender-tls",
			Labels: map[string]string{v1alpha1.LabelSchedulingPolicy: "extended"},
		}, Data: data}
		createUntilEnd(ctx, &role, &binding, named)
		expectAllowed(ctx, authorizationv1.ResourceAttributes{Namespace: "default", Verb: "watch", Resource: "secrets",
			Name: named.Name})
		expectDenied(ctx, authorizationv1.ResourceAttributes{Namespace: "default", Verb: "watch", Resource: "secrets",
			Name: "another"})
		policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "extended"}}
		policy.Spec.Extenders = []v1alpha1.Extender{{
			URLPrefix: "https://extender.example.svc",
			TLSConfig: &v1alpha1.ExtenderTLSConfig{SecretRef: &v1alpha1.SecretReference{Namespace: named.Namespace,
				Name: named.Name}},
		}}
		create(ctx, policy)
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
			g.Expect(policy.Status.Conditions).
				To(ContainElement(And(HaveField("Type", v1alpha1.ConditionAccepted),
					HaveField("Status", metav1.ConditionTrue))))
		}).WithContext(ctx).Should(Succeed())
	})

	DescribeTable("cannot take over the cluster:",
		func(ctx context.Context, what authorizationv1.ResourceAttributes) { expectDenied(ctx, what) },
		Entry("create pods", authorizationv1.ResourceAttributes{Namespace: "default", Verb: "create",
			Resource: "pods"}),
		Entry("change pods", authorizationv1.ResourceAttributes{Namespace: "default", Verb: "update",
			Resource: "pods"}),
		Entry("run commands in pods",
			authorizationv1.ResourceAttributes{Namespace: "default", Verb: "create", Resource: "pods",
				Subresource: "exec"}),
		Entry("create workloads",
			authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: "apps",
				Resource: "deployments"}),
		Entry("change nodes", authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}),
		Entry("create tokens",
			authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "serviceaccounts",
				Subresource: "token"}),
		Entry("impersonate", authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: "admin"}),
		Entry("grant rights", authorizationv1.ResourceAttributes{Verb: "create", Group: rbacv1.GroupName,
			Resource: "clusterrolebindings"}),
		Entry("change profiles",
			authorizationv1.ResourceAttributes{Verb: "update", Group: "livesched.io", Resource: "schedulerprofiles",
				Name: "mine"}),
		Entry("create policies",
			authorizationv1.ResourceAttributes{Verb: "create", Group: "livesched.io", Resource: "schedulingpolicies"}),
		Entry("intercept requests",
			authorizationv1.ResourceAttributes{Verb: "create", Group: "admissionregistration.k8s.io",
				Resource: "mutatingwebhookconfigurations"}),
	)

	It("writes Events with a client of the term alone", func(ctx context.Context) {
		Eventually(func() (agents []string) {
			for _, request := range audited(account, began) {
				if request.ObjectRef != nil && request.ObjectRef.Resource == "events" &&
					request.ObjectRef.APIGroup == eventsv1.GroupName {
					agents = append(agents, request.UserAgent)
				}
			}
			return agents
		}).WithContext(ctx).Should(And(Not(BeEmpty()), HaveEach(HaveSuffix("/events"))))
	})

	It("creates its Lease if somebody deletes it", func(ctx context.Context) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "livesched"}}
		Expect(k8s.Delete(ctx, lease)).To(Succeed())
		Eventually(func() error { return k8s.Get(ctx, client.ObjectKeyFromObject(lease), lease) }).WithContext(ctx).
			Should(Succeed())
	})

	It("has used all of them, and nothing else", func(ctx context.Context) {
		Expect(c.terminate()).To(BeNumerically("<", tolerated))
		expectUsed(ctx, rights, began) // watches are in the audit log when they have ended
		Expect(forbidden(account, began)).To(BeEmpty())
		Expect(c.output.String()).NotTo(ContainSubstring("forbidden: User"))
	})
})

// refuseBindings makes the API server refuse to bind pods whose names have a prefix, until the end
// of the spec.
func refuseBindings(ctx context.Context, prefix string) {
	GinkgoHelper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "refuse-bindings"}}
	policy.Spec.FailurePolicy = ptr.To(admissionregistrationv1.Fail)
	policy.Spec.Validations = []admissionregistrationv1.Validation{
		{Expression: `!request.name.startsWith("` + prefix + `")`, Message: "no binding of this pod"}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods/binding"}},
			},
		}}}
	createUntilEnd(ctx, policy, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: policy.ObjectMeta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
	})
	// The API server sees it with a delay. A pod that waits for no scheduler shows when.
	pod := objects.Pod("default", prefix, "nobody", "1", "1Gi")
	createUntilEnd(ctx, pod)
	Eventually(func() error {
		return k8s.SubResource("binding").
			Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "none"}},
				client.DryRunAll)
	}).WithContext(ctx).Should(MatchError(ContainSubstring("no binding of this pod")))
}

// expectDenied checks that livesched's account does not have a permission.
func expectDenied(ctx context.Context, what authorizationv1.ResourceAttributes) {
	GinkgoHelper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: account,
		ResourceAttributes: &what}}
	Expect(k8s.Create(ctx, review)).To(Succeed())
	Expect(review.Status.Allowed).To(BeFalse(), "%+v", what)
}

// expectAllowed waits until livesched's account has a permission. The authorizer sees new
// permissions with a delay.
func expectAllowed(ctx context.Context, what authorizationv1.ResourceAttributes) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: account,
			ResourceAttributes: &what}}
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
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "RoleBinding" &&
			kind != "ClusterRoleBinding" {
			continue
		}
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		Expect(convert(object, &binding)).To(Succeed())
		for _, role := range objects {
			if role.GetObjectKind().GroupVersionKind().Kind != binding.RoleRef.Kind ||
				role.GetName() != binding.RoleRef.Name {
				continue
			}
			var bound rbacv1.ClusterRole
			Expect(convert(role, &bound)).To(Succeed())
			right := bound.Rules[0]
			what := authorizationv1.ResourceAttributes{Namespace: binding.Namespace, Verb: right.Verbs[0],
				Group: right.APIGroups[0]}
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
			HaveField("Regarding.UID", on.GetUID()), HaveField("Reason", reason),
			HaveField("Note", ContainSubstring(note)),
		)))
	}).WithContext(ctx).Should(Succeed())
}

// expectPodScheduled waits for the condition PodScheduled of a pod.
func expectPodScheduled(ctx context.Context, pod *corev1.Pod, status corev1.ConditionStatus) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).
			To(ContainElement(And(HaveField("Type", corev1.PodScheduled), HaveField("Status", status))))
	}).WithContext(ctx).Should(Succeed())
}

// manifests reads the objects of the files that the kustomization of a directory lists.
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
		if filepath.Ext(name) == ".yaml" { // no other directory
			objects = append(objects, manifestsIn(filepath.Join(dir, name))...)
		}
	}
	return objects
}

// manifestsIn reads the objects of a file.
func manifestsIn(file string) (objects []client.Object) {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
