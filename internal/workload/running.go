// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Run makes the i-th pod one that runs on a node, with all that API server, controllers and kubelet add to a pod of one
// container, and that an informer keeps: for benchmarks of memory.
func Run(pod *corev1.Pod, i int, node string) *corev1.Pod {
	Admit(pod)
	app := pod.Labels["app"]
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)
	start := metav1.NewTime(time.Unix(1_750_000_000+int64(i), 0))
	pod.UID = types.UID(id)
	pod.ResourceVersion = fmt.Sprint(1_000_000 + i)
	pod.GenerateName = app + "-5d4f8c7b9-"
	pod.CreationTimestamp = start
	pod.Labels["pod-template-hash"] = "5d4f8c7b9"
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-5d4f8c7b9", UID: types.UID("11111111-0000-4000-8000-" + fmt.Sprintf("%012x", i)),
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}}
	runSpec(pod, node)
	runStatus(pod, i, start)
	return pod
}

func runSpec(pod *corev1.Pod, node string) {
	spec := &pod.Spec
	spec.NodeName = node
	spec.RestartPolicy = corev1.RestartPolicyAlways
	spec.TerminationGracePeriodSeconds = ptr.To(int64(30))
	spec.DNSPolicy = corev1.DNSClusterFirst
	spec.ServiceAccountName, spec.DeprecatedServiceAccount = "default", "default"
	spec.SecurityContext = &corev1.PodSecurityContext{}
	spec.Priority = ptr.To(int32(0))
	spec.EnableServiceLinks = ptr.To(true)
	spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
	for i := range spec.Tolerations {
		spec.Tolerations[i].TolerationSeconds = ptr.To(int64(300))
	}
	token := &spec.Volumes[len(spec.Volumes)-1]
	token.Projected = &corev1.ProjectedVolumeSource{DefaultMode: ptr.To(int32(420)), Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To(int64(3607)), Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
		}}},
	}}
	c := &spec.Containers[0]
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("400Mi")}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
	c.Env = []corev1.EnvVar{
		{Name: "LOG_LEVEL", Value: "info"},
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: token.Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	c.ReadinessProbe = &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Scheme: corev1.URISchemeHTTP}},
		TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
	c.TerminationMessagePath, c.TerminationMessagePolicy = corev1.TerminationMessagePathDefault, corev1.TerminationMessageReadFile
	c.ImagePullPolicy = corev1.PullIfNotPresent
}

func runStatus(pod *corev1.Pod, i int, start metav1.Time) {
	ip := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: &start,
		HostIP: "172.16.0.1", HostIPs: []corev1.HostIP{{IP: "172.16.0.1"}}, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Ready: true, Started: ptr.To(true), Image: pod.Spec.Containers[0].Image,
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
			ImageID:     "registry.example/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			ContainerID: fmt.Sprintf("containerd://%064x", i),
		}},
	}
	for _, condition := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: start})
	}
}
