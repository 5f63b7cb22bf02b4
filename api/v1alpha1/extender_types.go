// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelSchedulingPolicy is the label of a Secret by which its owner lets a
// SchedulingPolicy use it. Its value is the name of the policy. Without it, a user
// who may write policies could make livesched present the client certificate of
// any Secret that it can read to an extender of the user's choice.
const LabelSchedulingPolicy = "livesched.io/scheduling-policy"

// Extender is an HTTP service that takes part in the scheduling of pods.
// livesched calls it only for the steps that have a verb.
//
// +kubebuilder:validation:XValidation:rule="!has(self.prioritizeVerb) || (has(self.weight) && self.weight > 0)",message="weight must be greater than 0 with a prioritizeVerb",fieldPath=".weight"
type Extender struct {
	// urlPrefix is the URL of the extender. livesched appends a slash and the verb
	// of the call to it. At most 2048 characters, beginning with http:// or
	// https://, without a user name, a password, a query or a fragment. The flag
	// --extender-allowed-hosts of livesched limits the hosts, by default to HTTPS
	// to names of Services, such as https://extender.example.svc:8443. livesched
	// does not follow redirects.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^\s/?#@]+(/[^\s?#]*)?$`
	URLPrefix string `json:"urlPrefix"`

	// filterVerb is the verb of the call that filters nodes. If unset, the
	// extender filters no nodes. A verb is a path such as filter or v1/filter:
	// segments of letters, digits and -_.~ that do not begin with a dot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`
	FilterVerb string `json:"filterVerb,omitempty"`

	// preemptVerb is the verb of the call that can remove nodes and victims from
	// the candidates of a preemption. If unset, the extender does not take part in
	// preemption. The extender can name only victims on the node that have a lower
	// priority than the pod.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`
	PreemptVerb string `json:"preemptVerb,omitempty"`

	// prioritizeVerb is the verb of the call that scores nodes, from 0 to 10. If
	// unset, the extender scores no nodes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`
	PrioritizeVerb string `json:"prioritizeVerb,omitempty"`

	// weight is the factor for the scores of the extender. It must be greater than
	// 0 if prioritizeVerb is set, and has no effect otherwise.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Weight int64 `json:"weight,omitempty"`

	// bindVerb is the verb of the call that binds a pod to its node. If set, the
	// extender binds the pods, not the bind plugins. Only one extender of a policy
	// can have one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`
	BindVerb string `json:"bindVerb,omitempty"`

	// enableHTTPS makes the connection use TLS; urlPrefix must then begin with
	// https://. Without tlsConfig, the certificate of the extender is then not
	// verified, as in kube-scheduler. With a urlPrefix that begins with https://,
	// the connection uses TLS even if enableHTTPS is unset; the certificate is
	// then verified.
	// +optional
	EnableHTTPS bool `json:"enableHTTPS,omitempty"`

	// tlsConfig configures TLS. It requires a urlPrefix that begins with https://.
	// If it is set, the certificate of the extender is verified unless
	// tlsConfig.insecure is set.
	// +optional
	TLSConfig *ExtenderTLSConfig `json:"tlsConfig,omitempty"`

	// httpTimeout limits the duration of a call to the extender. If a filter,
	// preempt or bind call takes longer, the scheduling attempt fails, unless the
	// extender is ignorable. If a prioritize call takes longer, its scores are
	// ignored. The scheduling of all pods waits for filter, prioritize and preempt
	// calls. Default: 5s.
	//
	// The value is a duration such as "500ms", "10s" or "1m30s", with the units h,
	// m, s and ms, longer than 0 and at most 15s.
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0s"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('15s')",message="must be at most 15s"
	HTTPTimeout *metav1.Duration `json:"httpTimeout,omitempty"`

	// nodeCacheCapable means that the extender keeps its own cache of nodes:
	// livesched then sends it the names of nodes, otherwise whole Node objects.
	// +optional
	NodeCacheCapable bool `json:"nodeCacheCapable,omitempty"`

	// managedResources are the extended resources that the extender manages, at
	// most 64. livesched calls the extender only for pods that request one of
	// them; without any, for all pods. Extenders of a policy must not manage the
	// same resource.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	ManagedResources []ExtenderManagedResource `json:"managedResources,omitempty"`

	// ignorable means that scheduling continues without the extender if a call
	// fails. livesched calls ignorable extenders after the others.
	// +optional
	Ignorable bool `json:"ignorable,omitempty"`
}

// ExtenderManagedResource is an extended resource that an extender manages.
type ExtenderManagedResource struct {
	// name of the extended resource, such as example.com/gpu. Resources of
	// kubernetes.io cannot be managed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('kubernetes.io/')",message="must be an extended resource, outside of kubernetes.io"
	Name string `json:"name"`

	// ignoredByScheduler makes the extender alone responsible for the resource:
	// livesched does not check whether a node has enough of it. As in
	// kube-scheduler, if a policy has such resources, they replace the
	// ignoredResources in the arguments of NodeResourcesFit.
	// +optional
	IgnoredByScheduler bool `json:"ignoredByScheduler,omitempty"`
}

// ExtenderTLSConfig configures TLS for the connection to an extender.
type ExtenderTLSConfig struct {
	// insecure turns off the verification of the extender's certificate. Use it
	// for tests only.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// serverName is the name that the certificate of the extender must be valid
	// for. If unset, it is the host of urlPrefix. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`

	// secretRef references the Secret that holds the TLS material: `ca.crt` has
	// the trusted CA certificates, `tls.crt` and `tls.key` have the client
	// certificate and its key. The Secret can omit either. Without `ca.crt`,
	// livesched trusts the CA certificates of its system. The Secret must have the
	// label livesched.io/scheduling-policy with the name of this policy: its owner
	// so lets the policy use it. livesched watches the
	// Secret and applies changes at once; it needs the permission to read and
	// watch it. If the Secret is missing, invalid or without the label, the policy
	// is not accepted.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// SecretReference references a Secret.
type SecretReference struct {
	// namespace of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
