// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Format is the version of the format. A reader refuses files of later versions. Those of version 1
// have no PodGroups.
const Format = 2

// Record is a line of a file. Exactly one field is set.
type Record struct {
	Header *Header `json:"header,omitempty"`

	Profile *v1alpha1.SchedulerProfile `json:"schedulerProfile,omitempty"`
	Policy  *v1alpha1.SchedulingPolicy `json:"schedulingPolicy,omitempty"`

	Node *corev1.Node `json:"node,omitempty"`
	Pod  *corev1.Pod  `json:"pod,omitempty"`

	Namespace             *corev1.Namespace             `json:"namespace,omitempty"`
	Service               *corev1.Service               `json:"service,omitempty"`
	ReplicationController *corev1.ReplicationController `json:"replicationController,omitempty"`
	ReplicaSet            *appsv1.ReplicaSet            `json:"replicaSet,omitempty"`
	StatefulSet           *appsv1.StatefulSet           `json:"statefulSet,omitempty"`

	PersistentVolume      *corev1.PersistentVolume      `json:"persistentVolume,omitempty"`
	PersistentVolumeClaim *corev1.PersistentVolumeClaim `json:"persistentVolumeClaim,omitempty"`
	StorageClass          *storagev1.StorageClass       `json:"storageClass,omitempty"`
	CSINode               *storagev1.CSINode            `json:"csiNode,omitempty"`
	CSIDriver             *storagev1.CSIDriver          `json:"csiDriver,omitempty"`
	CSIStorageCapacity    *storagev1.CSIStorageCapacity `json:"csiStorageCapacity,omitempty"`
	VolumeAttachment      *storagev1.VolumeAttachment   `json:"volumeAttachment,omitempty"`

	ResourceClaim *resourcev1.ResourceClaim `json:"resourceClaim,omitempty"`
	ResourceSlice *resourcev1.ResourceSlice `json:"resourceSlice,omitempty"`
	DeviceClass   *resourcev1.DeviceClass   `json:"deviceClass,omitempty"`

	// PodGroup is one of Kubernetes.
	PodGroup                 *schedulingv1beta1.PodGroup           `json:"podGroup,omitempty"`
	CompositePodGroup        *schedulingv1alpha3.CompositePodGroup `json:"compositePodGroup,omitempty"`
	SchedulerPluginsPodGroup *podgroup.Object                      `json:"schedulerPluginsPodGroup,omitempty"`

	Nomination *Nomination `json:"nomination,omitempty"`
	Decision   *Decision   `json:"decision,omitempty"`

	End *End `json:"end,omitempty"`
}

// Header describes a file.
type Header struct {
	// Format is the version of the format.
	Format int `json:"format"`
	// Livesched and Kubernetes are the versions of livesched and of its plugins.
	Livesched  string `json:"livesched"`
	Kubernetes string `json:"kubernetes"`
	// Time is when the file was written.
	Time time.Time `json:"time"`
	// Redacted reports whether strings of users are replaced by pseudonyms.
	Redacted bool `json:"redacted"`

	// FastPath is the flag --fast-path, and FeatureGates are those that differ from their defaults.
	FastPath     string          `json:"fastPath,omitempty"`
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// ResourceVersions are the resource versions of the informers, by kind. PodGroups are there
	// with their API group, such as PodGroup.scheduling.k8s.io, if the API server serves them.
	ResourceVersions map[string]string `json:"resourceVersions,omitempty"`

	// Profiles are the profiles that run.
	Profiles []Profile `json:"profiles,omitempty"`
	// Changes counts the changes of nodes and pods, as Decision.Changes does.
	Changes uint64 `json:"changes"`
	// DeviceResources are the names of extended resources that devices provide, if the file is
	// redacted: then it has no devices.
	DeviceResources []string `json:"deviceResources,omitempty"`
}

// Profile is a revision of a profile that decides pods. While a profile is rolled out there may be
// two.
type Profile struct {
	// Name is the name of the SchedulerProfile.
	Name          string `json:"name"`
	SchedulerName string `json:"schedulerName"`
	Revision      string `json:"revision"`
	// Reproducible reports whether the objects in the file resolve to this revision. They do not if
	// this is the last good revision, or the stable one of a roll-out, or if it depends on a
	// Secret.
	Reproducible bool `json:"reproducible"`
}

// Nomination is a pod that is nominated to a node.
type Nomination struct {
	Pod  types.UID `json:"pod"`
	Node string    `json:"node"`
}

// Decision is a recorded decision: see decisionlog.Decision.
type Decision struct {
	Number   uint64    `json:"number"`
	Pod      types.UID `json:"pod"`
	Time     time.Time `json:"time"`
	Attempt  int       `json:"attempt"`
	Profile  string    `json:"profile"`
	Revision string    `json:"revision"`
	// Changes counts the changes of nodes and pods before the decision.
	Changes uint64 `json:"changes"`
	// Placed is how many other pods of its group had a node in the same attempt.
	Placed    int  `json:"placed,omitempty"`
	Nominated bool `json:"nominated,omitempty"`
	// InDomain reports whether only the nodes of a domain were allowed: those with all labels of
	// Domain. Files of older versions do not have Domain.
	InDomain  bool          `json:"inDomain,omitempty"`
	Domain    []DomainLabel `json:"domain,omitempty"`
	Nodes     int           `json:"nodes"`
	Evaluated int           `json:"evaluated"`
	Feasible  int           `json:"feasible"`
	// Partial reports whether the pod may fit nodes that were not evaluated.
	Partial bool   `json:"partial,omitempty"`
	Node    string `json:"node,omitempty"`
	Total   int64  `json:"total,omitempty"`
	Tied    int    `json:"tied,omitempty"`
	Result  string `json:"result"`
}

// DomainLabel is a label of nodes: see podgroup.Domain.
type DomainLabel struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// End is the last line: without it, the file is not complete.
type End struct {
	// Records is the number of lines before this one.
	Records int `json:"records"`
}
