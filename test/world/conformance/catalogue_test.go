// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

// resource is a resource of the API, with what requests for it say.
type resource struct {
	// group is the path of the group and version, such as /api/v1.
	group, name, apiVersion, kind string
	namespaced                    bool
	// custom resources have neither protobuf nor strategic merge patches.
	custom bool
	// private resources have objects of the real API server's own, so they are only listed and
	// watched in the namespaces of the test.
	private bool
	// objects are bodies of objects, without apiVersion, kind, and metadata. Some are invalid.
	objects []string
	// statuses are what updates and patches of the status write.
	statuses []string
	// patches are merge patches of objects, and strategic those that only make sense as strategic
	// merge patches.
	patches, strategic []string
	// fields are field selectors.
	fields []string
}

// collection returns the path of the objects of a namespace, or of all if namespace is empty.
func (r *resource) collection(namespace string) string {
	if r.namespaced && namespace != "" {
		return r.group + "/namespaces/" + namespace + "/" + r.name
	}
	return r.group + "/" + r.name
}

// anywhere are patches and field selectors that every resource has.
var (
	anyPatches = []string{
		`{"metadata":{"labels":{"app":"a"}}}`,
		`{"metadata":{"labels":{"app":"b"}}}`,
		`{"metadata":{"labels":{"app":null}}}`,
		`{"metadata":{"annotations":{"note":"x"}}}`,
		`{"metadata":{"annotations":{"note":null}}}`,
		`{"metadata":{"finalizers":["world.test/hold"]}}`,
		`{"metadata":{"finalizers":null}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"11111111-1111-1111-1111-111111111111"}]}}`,
		`{"metadata":{"uid":"11111111-1111-1111-1111-111111111111"}}`,
		`{"metadata":{"resourceVersion":"1"}}`,
		`{"metadata":{"labels":{"app":"not a label!"}}}`,
		`{"metadata":{"name":"other"}}`,
		`{}`,
		`{"metadata":{"labels":["x"]}}`,
		`{"unknown":1}`,
	}
	anyFields = []string{"", "", "", "metadata.name=a", "metadata.name!=a", "no.such.field=x"}
	anyLabels = []string{"", "", "", "app=a", "app!=b", "app in (a,c)", "!none", "a=b=c"}
)

const podSpec = `"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"100m","memory":"1Gi"}}}]`

var catalogue = []*resource{
	{group: "/api/v1", name: "pods", apiVersion: "v1", kind: "Pod", namespaced: true,
		objects: []string{
			`{"spec":{` + podSpec + `,"schedulerName":"livesched"}}`,
			`{"spec":{` + podSpec + `,"schedulerName":"livesched","schedulingGates":[{"name":"world.test/gate"}]}}`,
			`{"spec":{` + podSpec + `,"nodeName":"n0"}}`,
			`{"spec":{` + podSpec + `,"nodeName":"n1","terminationGracePeriodSeconds":0}}`,
			`{"spec":{` + podSpec + `,"terminationGracePeriodSeconds":7,"priority":5,"priorityClassName":"a",` +
				`"tolerations":[{"key":"k","operator":"Exists","effect":"NoSchedule"}],"nodeSelector":{"zone":"z"}}}`,
			`{"spec":{` + podSpec + `,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[` +
				`{"labelSelector":{"matchLabels":{"app":"a"}},"topologyKey":"zone","matchLabelKeys":["app"]}]}},` +
				`"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule",` +
				`"labelSelector":{"matchLabels":{"app":"a"}}}]}}`,
			`{"spec":{` + podSpec + `,"resourceClaims":[{"name":"r","resourceClaimName":"a"}],` +
				`"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"a"}}]}}`,
			`{"spec":{` + podSpec + `,"hostNetwork":true,"overhead":{"cpu":"1"},"runtimeClassName":"x"}}`,
			`{"spec":{"containers":[]}}`,
			`{"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"hostPort":8080}]}],"restartPolicy":"Sometimes"}}`,
			`{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"much"}}}]}}`,
			`{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}`,
			`{"spec":{` + podSpec + `,"noSuchField":1}}`,
			`{"spec":{"containers":"c"}}`,
		},
		statuses: []string{
			`{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes"}]}}`,
			`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler"}]}}`,
			`{"status":{"nominatedNodeName":"n0"}}`,
			`{"status":{"nominatedNodeName":null}}`,
			`{"status":{"phase":"Running"}}`, `{"status":{"phase":"Succeeded"}}`, `{"status":{"phase":"Failed"}}`,
			`{"status":{"resourceClaimStatuses":[{"name":"r","resourceClaimName":"a"}]}}`,
			`{"status":{"nominatedNodeName":"Not A Node"}}`,
		},
		patches: []string{
			`{"spec":{"schedulingGates":[]}}`, `{"spec":{"schedulingGates":null}}`,
			`{"spec":{"nodeName":"n9"}}`, `{"spec":{"activeDeadlineSeconds":5}}`, `{"spec":{"priority":7}}`,
			`{"status":{"phase":"Failed"}}`,
		},
		strategic: []string{
			`{"spec":{"containers":[{"name":"c","image":"j"}]}}`,
			`{"spec":{"tolerations":[{"key":"l","operator":"Exists"}]}}`,
			`{"spec":{"$setElementOrder/schedulingGates":[],"schedulingGates":[{"$patch":"delete","name":"world.test/gate"}]}}`,
		},
		fields: []string{"spec.nodeName=n0", "spec.nodeName=", "spec.nodeName!=", "status.phase=Pending",
			"status.phase!=Succeeded,status.phase!=Failed", "spec.schedulerName=livesched",
			"status.nominatedNodeName=n0",
			"spec.hostNetwork=true"},
	},
	{group: "/api/v1", name: "nodes", apiVersion: "v1", kind: "Node",
		objects: []string{
			`{}`,
			`{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"4","memory":"4Gi","pods":"10"}}}`,
			`{"spec":{"unschedulable":true,"podCIDR":"10.0.0.0/24"},"status":{"capacity":{"cpu":"4"},"images":[{"names":["i"],"sizeBytes":7}]}}`,
			`{"spec":{"taints":[{"key":"k","effect":"Never"}]}}`,
		},
		statuses: []string{
			`{"status":{"allocatable":{"cpu":"8","pods":"5"},"capacity":{"cpu":"9","pods":"5"}}}`,
			`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`,
			`{"status":{"allocatable":{"cpu":"-1"}}}`, `{"status":{"volumesInUse":["x"]}}`,
		},
		patches: []string{
			`{"spec":{"unschedulable":true}}`, `{"spec":{"taints":[{"key":"t","effect":"NoExecute"}]}}`, `{"spec":{"taints":null}}`,
			`{"spec":{"podCIDR":"10.9.0.0/24"}}`, `{"metadata":{"labels":{"zone":"z"}}}`,
		},
		strategic: []string{
			`{"spec":{"taints":[{"key":"u","effect":"NoSchedule"}]}}`,
			`{"spec":{"taints":[{"$patch":"replace"},{"key":"w","effect":"NoSchedule"}]}}`,
		},
		fields: []string{"spec.unschedulable=true"},
	},
	{group: "/api/v1", name: "namespaces", apiVersion: "v1", kind: "Namespace",
		objects:  []string{`{}`, `{"spec":{"finalizers":[]}}`},
		statuses: []string{`{"status":{"conditions":[{"type":"X","status":"True"}]}}`},
		patches:  []string{`{"spec":{"finalizers":null}}`}, fields: []string{"status.phase=Active"},
	},
	{group: "/api/v1", name: "configmaps", apiVersion: "v1", kind: "ConfigMap", namespaced: true, private: true,
		objects: []string{`{"data":{"k":"v"}}`, `{"binaryData":{"k":"dg=="}}`, `{"immutable":true,"data":{"k":"v"}}`, `{"data":{"k/":"v"}}`, `{"data":[1]}`},
		patches: []string{`{"data":{"k":"w"}}`, `{"data":{"k":null}}`, `{"immutable":true}`},
	},
	{group: "/api/v1", name: "secrets", apiVersion: "v1", kind: "Secret", namespaced: true, private: true,
		objects: []string{`{"data":{"k":"dg=="}}`, `{"stringData":{"k":"v"}}`, `{"type":"kubernetes.io/tls","data":{"k":"dg=="}}`},
		patches: []string{`{"stringData":{"l":"w"}}`, `{"type":"x"}`}, fields: []string{"type=Opaque"},
	},
	{group: "/api/v1", name: "events", apiVersion: "v1", kind: "Event", namespaced: true, private: true,
		objects: []string{
			`{"involvedObject":{"kind":"Pod","namespace":"one","name":"a"},"reason":"Scheduled","message":"m","type":"Normal","count":1}`,
			`{"involvedObject":{"kind":"Pod","namespace":"two","name":"a"},"reason":"FailedScheduling","type":"Warning"}`,
			`{"involvedObject":{"kind":"Node","name":"n0"},"reason":"R","type":"Normal"}`,
		},
		patches: []string{`{"count":2}`, `{"message":"again","count":3}`, `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`},
		fields:  []string{"involvedObject.name=a", "reason=Scheduled", "type=Warning", "involvedObject.kind=Pod,involvedObject.namespace=one"},
	},
	{group: "/apis/events.k8s.io/v1", name: "events", apiVersion: "events.k8s.io/v1", kind: "Event", namespaced: true, private: true,
		objects: []string{
			`{"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"livesched","reportingInstance":"x","action":"Binding",` +
				`"reason":"Scheduled","type":"Normal","note":"n","regarding":{"kind":"Pod","namespace":"one","name":"a"}}`,
			`{"eventTime":"2026-01-01T00:00:00.000000Z","reason":"Scheduled","type":"Normal","regarding":{"kind":"Pod","namespace":"one","name":"a"}}`,
			`{"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"livesched","reportingInstance":"x","action":"A",` +
				`"reason":"R","type":"Odd","note":"n","regarding":{"kind":"Pod","namespace":"two","name":"a"}}`,
		},
		patches: []string{`{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`, `{"note":"other"}`,
			`{"series":{"count":1,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`},
		fields: []string{"reason=Scheduled", "regarding.name=a"},
	},
	{group: "/apis/coordination.k8s.io/v1", name: "leases", apiVersion: "coordination.k8s.io/v1", kind: "Lease", namespaced: true, private: true,
		objects: []string{
			`{"spec":{"holderIdentity":"x","leaseDurationSeconds":15,"acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:00.000001Z"}}`,
			`{}`, `{"spec":{"leaseDurationSeconds":0}}`, `{"spec":{"leaseTransitions":-1}}`,
		},
		patches: []string{`{"spec":{"holderIdentity":"y","leaseTransitions":1}}`, `{"spec":{"renewTime":"2026-01-01T00:00:09.000000Z"}}`,
			`{"spec":{"strategy":"OldestEmulationVersion"}}`},
	},
	{group: "/api/v1", name: "persistentvolumes", apiVersion: "v1", kind: "PersistentVolume",
		objects: []string{
			`{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"},"storageClassName":"a"}}`,
			`{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","volumeHandle":"h"},` +
				`"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["z"]}]}]}}}}`,
			`{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"]}}`,
		},
		statuses: []string{`{"status":{"phase":"Available"}}`, `{"status":{"phase":"Bound"}}`},
		patches: []string{`{"spec":{"claimRef":{"kind":"PersistentVolumeClaim","namespace":"one","name":"a"}}}`, `{"spec":{"claimRef":null}}`,
			`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`, `{"spec":{"csi":{"driver":"e"}}}`, `{"spec":{"capacity":{"storage":"2Gi"}}}`},
	},
	{group: "/api/v1", name: "persistentvolumeclaims", apiVersion: "v1", kind: "PersistentVolumeClaim", namespaced: true,
		objects: []string{
			`{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
			`{"spec":{"accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"a","volumeName":"a"}}`,
			`{"spec":{"accessModes":[],"resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		statuses: []string{`{"status":{"phase":"Bound","capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"]}}`, `{"status":{"phase":"Lost"}}`},
		patches: []string{`{"spec":{"volumeName":"a"}}`, `{"spec":{"volumeName":"b"}}`, `{"spec":{"storageClassName":"b"}}`,
			`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"n0"}}}`,
			`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`},
	},
	{group: "/apis/storage.k8s.io/v1", name: "storageclasses", apiVersion: "storage.k8s.io/v1", kind: "StorageClass",
		objects: []string{`{"provisioner":"p"}`, `{"provisioner":"p","volumeBindingMode":"WaitForFirstConsumer","allowVolumeExpansion":true,"parameters":{"a":"b"}}`, `{}`,
			`{"provisioner":"p","volumeBindingMode":"Sometime"}`},
		patches: []string{`{"provisioner":"q"}`, `{"allowVolumeExpansion":false}`},
	},
	{group: "/apis/storage.k8s.io/v1", name: "csinodes", apiVersion: "storage.k8s.io/v1", kind: "CSINode",
		objects: []string{`{"spec":{"drivers":[{"name":"d","nodeID":"n0","allocatable":{"count":2},"topologyKeys":["zone"]}]}}`, `{"spec":{"drivers":[]}}`,
			`{"spec":{"drivers":[{"name":"d","nodeID":"","topologyKeys":null}]}}`},
		patches:   []string{`{"spec":{"drivers":[]}}`, `{"spec":{"drivers":[{"name":"e","nodeID":"n0","topologyKeys":null}]}}`},
		strategic: []string{`{"spec":{"drivers":[{"name":"f","nodeID":"n1","topologyKeys":null}]}}`},
	},
	{group: "/apis/storage.k8s.io/v1", name: "csidrivers", apiVersion: "storage.k8s.io/v1", kind: "CSIDriver",
		objects: []string{`{"spec":{}}`, `{"spec":{"storageCapacity":true,"attachRequired":false}}`}, patches: []string{`{"spec":{"podInfoOnMount":true}}`}},
	{group: "/apis/storage.k8s.io/v1", name: "csistoragecapacities", apiVersion: "storage.k8s.io/v1", kind: "CSIStorageCapacity", namespaced: true,
		objects: []string{`{"storageClassName":"a","capacity":"1Gi","nodeTopology":{"matchLabels":{"zone":"z"}}}`, `{}`}, patches: []string{`{"capacity":"2Gi"}`, `{"storageClassName":"b"}`}},
	{group: "/apis/storage.k8s.io/v1", name: "volumeattachments", apiVersion: "storage.k8s.io/v1", kind: "VolumeAttachment",
		objects:  []string{`{"spec":{"attacher":"d","nodeName":"n0","source":{"persistentVolumeName":"a"}}}`, `{"spec":{"attacher":"d"}}`},
		statuses: []string{`{"status":{"attached":true}}`}, patches: []string{`{"spec":{"nodeName":"n1"}}`}},
	{group: "/apis/policy/v1", name: "poddisruptionbudgets", apiVersion: "policy/v1", kind: "PodDisruptionBudget", namespaced: true,
		objects: []string{`{"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"a"}}}}`, `{"spec":{"maxUnavailable":"50%","selector":{}}}`,
			`{"spec":{"minAvailable":1,"maxUnavailable":1}}`},
		statuses: []string{`{"status":{"disruptionsAllowed":1,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1,"observedGeneration":1}}`,
			`{"status":{"disruptionsAllowed":-1,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}}`,
			`{"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":1,"expectedPods":1,"disruptedPods":{"a":"2026-01-01T00:00:00Z"}}}`},
		patches: []string{`{"spec":{"minAvailable":"20%"}}`, `{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}`},
	},
	{group: "/apis/scheduling.k8s.io/v1", name: "priorityclasses", apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass",
		objects: []string{`{"value":10}`, `{"value":20,"globalDefault":true,"preemptionPolicy":"Never"}`, `{"value":2000000001}`},
		patches: []string{`{"value":11}`, `{"description":"d"}`, `{"globalDefault":false}`},
	},
	{group: "/apis/resource.k8s.io/v1", name: "deviceclasses", apiVersion: "resource.k8s.io/v1", kind: "DeviceClass",
		objects: []string{`{"spec":{}}`, `{"spec":{"selectors":[{"cel":{"expression":"device.driver == 'd'"}}]}}`, `{"spec":{"selectors":[{"cel":{"expression":"device.nothing"}}]}}`,
			`{"spec":{"selectors":[{"cel":{"expression":"("}}]}}`},
		patches: []string{`{"spec":{"selectors":[{"cel":{"expression":"device.driver == 'e'"}}]}}`, `{"spec":{"extendedResourceName":"example.com/gpu"}}`},
	},
	{group: "/apis/resource.k8s.io/v1", name: "resourceslices", apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice",
		objects: []string{
			`{"spec":{"driver":"d","nodeName":"n0","pool":{"name":"p","generation":1,"resourceSliceCount":1},"devices":[{"name":"d0",` +
				`"attributes":{"model":{"string":"m"}},"capacity":{"memory":{"value":"1Gi"}}},{"name":"d1"}]}}`,
			`{"spec":{"driver":"d","allNodes":true,"pool":{"name":"p","generation":1,"resourceSliceCount":1}}}`,
			`{"spec":{"driver":"d","pool":{"name":"p","generation":1,"resourceSliceCount":1}}}`,
		},
		patches: []string{`{"spec":{"pool":{"generation":2}}}`, `{"spec":{"devices":[{"name":"d0"}]}}`, `{"spec":{"nodeName":"n1"}}`, `{"spec":{"driver":"e"}}`},
		fields:  []string{"spec.nodeName=n0", "spec.driver=d"},
	},
	{group: "/apis/resource.k8s.io/v1", name: "resourceclaims", apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", namespaced: true,
		objects: []string{
			`{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"a"}}]}}}`,
			`{"spec":{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"s","deviceClassName":"a"}]}],"constraints":[{"matchAttribute":"d/model"}]}}}`,
			`{"spec":{}}`, `{"spec":{"devices":{"requests":[{"name":"r"}]}}}`,
		},
		statuses: []string{
			`{"status":{"allocation":` + allocation + `}}`,
			`{"status":{"allocation":` + allocation + `,"reservedFor":[{"resource":"pods","name":"a","uid":"22222222-2222-2222-2222-222222222222"}]}}`,
			`{"status":{"reservedFor":[{"resource":"pods","name":"b","uid":"33333333-3333-3333-3333-333333333333"}]}}`,
			`{"status":{"reservedFor":null}}`, `{"status":{"allocation":null,"reservedFor":null}}`,
			`{"status":{"reservedFor":[{"resource":"pods","name":"b"}]}}`,
			`{"status":{"reservedFor":[{"$patch":"delete","uid":"22222222-2222-2222-2222-222222222222"}]}}`,
		},
		patches: []string{`{"spec":{"devices":{"requests":[{"name":"q","exactly":{"deviceClassName":"a"}}]}}}`},
	},
	{group: "/apis/resource.k8s.io/v1", name: "resourceclaimtemplates", apiVersion: "resource.k8s.io/v1", kind: "ResourceClaimTemplate", namespaced: true,
		objects: []string{`{"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"a"}}]}}}}`}, patches: []string{`{"spec":{"spec":{}}}`}},
	{group: "/apis/apps/v1", name: "replicasets", apiVersion: "apps/v1", kind: "ReplicaSet", namespaced: true,
		objects:  []string{`{"spec":{"selector":{"matchLabels":{"app":"a"}},"template":` + template + `}}`, `{"spec":{"replicas":3,"selector":{"matchLabels":{"app":"b"}},"template":` + template + `}}`},
		statuses: []string{`{"status":{"replicas":1}}`}, patches: []string{`{"spec":{"replicas":2}}`, `{"spec":{"selector":{"matchLabels":{"app":"c"}}}}`}, fields: []string{"status.replicas=0"},
	},
	{group: "/apis/apps/v1", name: "statefulsets", apiVersion: "apps/v1", kind: "StatefulSet", namespaced: true,
		objects:  []string{`{"spec":{"serviceName":"a","selector":{"matchLabels":{"app":"a"}},"template":` + template + `}}`, `{"spec":{}}`},
		statuses: []string{`{"status":{"replicas":1}}`}, patches: []string{`{"spec":{"replicas":2}}`, `{"spec":{"serviceName":"b"}}`},
	},
	{group: "/apis/apps/v1", name: "controllerrevisions", apiVersion: "apps/v1", kind: "ControllerRevision", namespaced: true,
		objects: []string{`{"revision":1,"data":{"spec":{"a":1}}}`, `{"revision":-1,"data":{}}`, `{"revision":2}`},
		patches: []string{`{"revision":3}`, `{"data":{"spec":{"a":2}}}`},
	},
	{group: "/api/v1", name: "services", apiVersion: "v1", kind: "Service", namespaced: true, private: true,
		objects: []string{`{"spec":{"clusterIP":"None","selector":{"app":"a"}}}`, `{"spec":{"clusterIP":"None","ports":[{"port":80}]}}`, `{"spec":{"clusterIP":"x"}}`},
		patches: []string{`{"spec":{"selector":{"app":"b"}}}`, `{"spec":{"publishNotReadyAddresses":true}}`},
	},
	{group: "/api/v1", name: "replicationcontrollers", apiVersion: "v1", kind: "ReplicationController", namespaced: true,
		objects: []string{`{"spec":{"selector":{"app":"a"},"template":` + template + `}}`}, statuses: []string{`{"status":{"replicas":1}}`}, patches: []string{`{"spec":{"replicas":2}}`},
	},
	{group: "/apis/livesched.io/v1alpha1", name: "schedulerprofiles", apiVersion: "livesched.io/v1alpha1", kind: "SchedulerProfile", custom: true,
		objects: []string{
			`{}`, `{"spec":{"percentageOfNodesToScore":50,"plugins":{"score":{"enabled":[{"name":"NodeResourcesFit","weight":3}],"disabled":[{"name":"*"}]}}}}`,
			`{"spec":{"plugins":{"filter":{"enabled":[{"name":"*"}]}}}}`, `{"spec":{"mode":"Odd"}}`, `{"spec":{"percentageOfNodesToScore":"x"}}`,
			`{"spec":{"unknown":1}}`, `{"spec":{"mode":"Shadow"}}`, `{"spec":{"mode":"Shadow","shadow":{"profileRef":{"name":"a"}}}}`,
			`{"spec":{"pluginConfig":[{"name":"NodeResourcesFit","args":{"scoringStrategy":{"type":"MostAllocated"}}}]}}`,
		},
		statuses: []string{
			`{"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			`{"status":{"conditions":[{"type":"Ready"}]}}`, `{"status":{"schedulerName":"x","unknown":1}}`,
		},
		patches: []string{`{"spec":{"percentageOfNodesToScore":101}}`, `{"spec":{"percentageOfNodesToScore":7}}`, `{"spec":{"policyRef":null}}`,
			`{"spec":{"schedulerName":"other"}}`, `{"spec":{"rollout":{"strategy":"Canary"}}}`, `{"status":{"schedulerName":"z"}}`},
	},
	{group: "/apis/livesched.io/v1alpha1", name: "schedulingpolicies", apiVersion: "livesched.io/v1alpha1", kind: "SchedulingPolicy", custom: true,
		objects: []string{
			`{}`, `{"spec":{"algorithmSource":{"provider":"DefaultProvider"}}}`, `{"spec":{"algorithmSource":{"provider":"DefaultProvider","policy":{}}}}`,
			`{"spec":{"extenders":[{"urlPrefix":"http://x","filterVerb":"filter"}]}}`, `{"spec":{"extenders":[{"urlPrefix":"http://x","httpTimeout":"20s"}]}}`,
			`{"spec":{"podInitialBackoff":"20s"}}`, `{"spec":{"parallelism":0}}`, `{"spec":{"queueSort":{}}}`,
		},
		statuses: []string{`{"status":{"observedGeneration":1,"profileCount":2,"profiles":["a"]}}`, `{"status":{"profileCount":"x"}}`},
		patches:  []string{`{"spec":{"parallelism":4}}`, `{"spec":{"podMaxBackoff":"500ms"}}`, `{"spec":{"podInitialBackoff":"2s","podMaxBackoff":"3s"}}`},
	},
}

const (
	allocation = `{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"d0"}]},` +
		`"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n0"]}]}]}}`
	template = `{"metadata":{"labels":{"app":"a"}},"spec":{` + podSpec + `}}`
)
