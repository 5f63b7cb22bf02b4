// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Run turns the i-th pod into a running pod on a node. It adds everything that the API server,
// controllers and the kubelet add to a pod of one container and that an informer keeps. It is for
// memory benchmarks.
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
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-5d4f8c7b9", UID: ownerUID(app),
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}}
	runSpec(pod, node)
	runStatus(pod, i, start)
	return pod
}

// ownerUID returns the UID of the ReplicaSet of a series of pods.
func ownerUID(app string) types.UID {
	h := fnv.New64a()
	_, _ = h.Write([]byte(app))
	return types.UID(fmt.Sprintf("11111111-0000-4000-8000-%012x", h.Sum64()&(1<<48-1)))
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
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To(int64(3607)),
			Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
		}}},
	}}
	c := &spec.Containers[0]
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("400Mi")}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
	c.Env = []corev1.EnvVar{
		{Name: "LOG_LEVEL", Value: "info"},
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
			FieldPath: "metadata.name"}}},
	}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: token.Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	c.ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz",
			Scheme: corev1.URISchemeHTTP}},
		TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
	c.TerminationMessagePath, c.TerminationMessagePolicy = corev1.TerminationMessagePathDefault,
		corev1.TerminationMessageReadFile
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
			// Kubelets report the allocated resources since pods can be resized.
			AllocatedResources: pod.Spec.Containers[0].Resources.Requests.DeepCopy(),
			Resources:          pod.Spec.Containers[0].Resources.DeepCopy(),
		}},
	}
	for _, condition := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
		corev1.PodScheduled,
	} {
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: start})
	}
}

// images is the number of images that a node reports besides that of [Node], and pool the number of
// such images in the cluster. The images of the scheduled pods are not among them.
const images, pool = 30, 600

// RunNode turns the i-th node into one with a kubelet's status: images, conditions, addresses, and
// system information. It is for memory benchmarks.
func RunNode(node *corev1.Node, i int) *corev1.Node {
	node.UID = types.UID(fmt.Sprintf("%08x-0000-4000-9000-%012x", i, i))
	node.ResourceVersion = fmt.Sprint(1_000_000 + i)
	node.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	node.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", i>>8&255, i&255)
	node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
	node.Spec.ProviderID = "cloud://" + node.Name
	at := metav1.NewTime(time.Unix(1_750_000_000+int64(i), 0))
	node.CreationTimestamp = at
	status := &node.Status
	for _, c := range []struct {
		kind            corev1.NodeConditionType
		status          corev1.ConditionStatus
		reason, message string
	}{
		{corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory",
			"kubelet has sufficient memory available"},
		{corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID",
			"kubelet has sufficient PID available"},
		{corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"},
	} {
		status.Conditions = append(status.Conditions, corev1.NodeCondition{
			Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message, LastHeartbeatTime: at,
			LastTransitionTime: at,
		})
	}
	status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.%d.%d.%d", 16+i>>16, i>>8&255, i&255)},
		{Type: corev1.NodeHostName, Address: node.Name},
	}
	status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: fmt.Sprintf("%032x", i), SystemUUID: string(node.UID), BootID: string(node.UID),
		KernelVersion: "6.12.9-generic",
		OSImage:       "Some Linux 12", ContainerRuntimeVersion: "containerd://2.1.0", KubeletVersion: "v1.37.2",
		OperatingSystem: "linux", Architecture: "amd64",
	}
	for j := range images {
		n := (i*7 + j*j) % pool
		status.Images = append(status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example/team/service-%d@sha256:%064x", n, n),
				fmt.Sprintf("registry.example/team/service-%d:1.0", n)},
			SizeBytes: int64(n+1) << 20,
		})
	}
	return node
}
