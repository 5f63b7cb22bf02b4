// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/plugins/gpufragmentation"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/plugins/noderesources"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// words returns the strings that have no pseudonym. They are the same in every cluster, so they
// tell nothing about one, and decisions depend on what they mean.
var words = sync.OnceValue(func() sets.Set[string] {
	all := resolve.BuiltIn().Insert(strings.Fields(vocabulary)...)
	all.Insert(resolve.LegacyNames()...)
	all.Insert(podgroup.Label, podgroup.AnnotationRequired, podgroup.AnnotationPreferred,
		podgroup.AnnotationDisruptionMode)
	for i := range podgroup.KubernetesAPIs { // claims name the group that owns them, or that they are reserved for
		api := &podgroup.KubernetesAPIs[i]
		all.Insert(api.Group, api.Resource, api.GroupVersion().String())
	}
	for _, args := range []any{
		configv1.DefaultPreemptionArgs{}, configv1.DynamicResourcesArgs{}, configv1.InterPodAffinityArgs{},
		configv1.NodeAffinityArgs{},
		configv1.NodeResourcesBalancedAllocationArgs{}, configv1.NodeResourcesFitArgs{},
		configv1.PodTopologySpreadArgs{}, configv1.VolumeBindingArgs{},
		gpufragmentation.Args{}, nodelabel.Args{}, serviceaffinity.Args{}, noderesources.Args{},
	} {
		addFields(all, reflect.TypeOf(args))
	}
	for r := decisionlog.Binding; r <= decisionlog.Failed; r++ {
		all.Insert(r.String())
	}
	return all
})

// addFields adds the names that the fields of a type have in JSON.
func addFields(all sets.Set[string], t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addFields(all, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name != "" {
				all.Insert(name)
			}
			addFields(all, t.Field(i).Type)
		}
	}
}

const vocabulary = `
Equal Exists DoesNotExist In NotIn Gt Lt
NoSchedule PreferNoSchedule NoExecute
DoNotSchedule ScheduleAnyway Honor Ignore
Always OnFailure Never RestartAllContainers Restart
PreemptLowerPriority
Active Shadow
Pending Running Succeeded Failed Unknown
PodScheduled PodResizePending PodResizeInProgress Infeasible Deferred Unschedulable SchedulingGated True False
TCP UDP SCTP 0.0.0.0 ::
Filesystem Block ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod
Immediate WaitForFirstConsumer Available Bound Released Lost
Shared Dedicated Managed None ReadOnly ReadWrite
Persistent Ephemeral File ReadWriteOnceWithFSType

v1 apps/v1 batch/v1 kubescheduler.config.k8s.io/v1
Pod Node Namespace Service ReplicationController ReplicaSet StatefulSet DaemonSet Deployment Job CronJob
PersistentVolumeClaim PodGroup CompositePodGroup
DefaultPreemptionArgs DynamicResourcesArgs InterPodAffinityArgs NodeAffinityArgs NodeResourcesBalancedAllocationArgs
NodeResourcesFitArgs PodTopologySpreadArgs VolumeBindingArgs
LeastAllocated MostAllocated RequestedToCapacityRatio List System
DefaultProvider ClusterAutoscalerProvider
preferAvoidPods podSignature podController apiVersion kind name uid controller reason message
matchLabels matchExpressions key operator values

cpu memory ephemeral-storage storage pods
default default-scheduler kube-system kube-public kube-node-lease
linux windows amd64 arm64 true false yes
metadata.name metadata.namespace

kubernetes.io/hostname kubernetes.io/os kubernetes.io/arch kubernetes.io/metadata.name
beta.kubernetes.io/os beta.kubernetes.io/arch beta.kubernetes.io/instance-type node.kubernetes.io/instance-type
topology.kubernetes.io/zone topology.kubernetes.io/region
failure-domain.beta.kubernetes.io/zone failure-domain.beta.kubernetes.io/region
node-role.kubernetes.io/control-plane node-role.kubernetes.io/master node-role.kubernetes.io/worker
node.kubernetes.io/not-ready node.kubernetes.io/unreachable node.kubernetes.io/unschedulable
node.kubernetes.io/memory-pressure node.kubernetes.io/disk-pressure node.kubernetes.io/pid-pressure
node.kubernetes.io/network-unavailable node.kubernetes.io/out-of-service node.cloudprovider.kubernetes.io/uninitialized
node.cloudprovider.kubernetes.io/shutdown
karpenter.sh/nodepool cloud.google.com/gke-nodepool eks.amazonaws.com/nodegroup kubernetes.azure.com/agentpool agentpool
pod-template-hash controller-revision-hash statefulset.kubernetes.io/pod-name
kubernetes.io/config.mirror scheduler.alpha.kubernetes.io/preferAvoidPods
volume.beta.kubernetes.io/storage-class volume.kubernetes.io/selected-node pv.kubernetes.io/bind-completed
pv.kubernetes.io/bound-by-controller storage.alpha.kubernetes.io/migrated-plugins

kubernetes.io/no-provisioner kubernetes.io/aws-ebs kubernetes.io/gce-pd kubernetes.io/azure-disk
kubernetes.io/azure-file kubernetes.io/cinder kubernetes.io/vsphere-volume kubernetes.io/portworx-volume
ebs.csi.aws.com pd.csi.storage.gke.io disk.csi.azure.com file.csi.azure.com cinder.csi.openstack.org
csi.vsphere.vmware.com pxd.portworx.com

ExtendWebSocketsToKubelet InPlacePodVerticalScalingInitContainers InPlacePodLevelResourcesVerticalScaling
ContainerRestartRules RestartAllContainersOnContainerExits UserNamespacesHostNetworkSupport
GuaranteedQoSPodCPUResize
`
