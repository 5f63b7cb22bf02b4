// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Extender is a service that is asked over HTTP about the nodes for a pod.
// What it has no verb for, it is not asked.
//
// +kubebuilder:validation:XValidation:rule="!has(self.prioritizeVerb) || (has(self.weight) && self.weight > 0)",message="weight must be greater than 0 with a prioritizeVerb",fieldPath=".weight"
type Extender struct {
	// urlPrefix at which the extender is reached; the verbs are appended to it.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^\s/]+`
	URLPrefix string `json:"urlPrefix"`

	// filterVerb of the call that rules out nodes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FilterVerb string `json:"filterVerb,omitempty"`

	// preemptVerb of the call that is shown the victims of a preemption and may
	// change them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PreemptVerb string `json:"preemptVerb,omitempty"`

	// prioritizeVerb of the call that scores nodes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PrioritizeVerb string `json:"prioritizeVerb,omitempty"`

	// weight by which the scores of the extender are multiplied. Greater than 0
	// with a prioritizeVerb.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Weight int64 `json:"weight,omitempty"`

	// bindVerb of the call that binds a pod to its node. Binding is then up to the
	// extender. Only one extender of a policy can have one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	BindVerb string `json:"bindVerb,omitempty"`

	// enableHTTPS says that TLS is used. Then urlPrefix begins with https://.
	// Without tlsConfig, the certificate of the extender is not verified. A
	// urlPrefix that begins with https:// uses TLS without it, too, and then the
	// certificate is verified.
	// +optional
	EnableHTTPS bool `json:"enableHTTPS,omitempty"`

	// tlsConfig says how TLS is used. The certificate of the extender is verified,
	// unless it says otherwise.
	// +optional
	TLSConfig *ExtenderTLSConfig `json:"tlsConfig,omitempty"`

	// httpTimeout bounds a call to the extender. A filter, preempt or bind call
	// that takes longer fails, and with it the attempt for the pod, unless the
	// extender is ignorable; a prioritize call that takes longer is left out of
	// the score. The scheduling of all pods waits for filter, prioritize and
	// preempt calls.
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0s"
	HTTPTimeout *metav1.Duration `json:"httpTimeout,omitempty"`

	// nodeCacheCapable extenders know the nodes: they are sent names of nodes
	// rather than whole nodes.
	// +optional
	NodeCacheCapable bool `json:"nodeCacheCapable,omitempty"`

	// managedResources are the extended resources that the extender manages. It is
	// asked only about pods that request one of them, or about all pods where
	// there are none. No two extenders of a policy manage the same resource.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	ManagedResources []ExtenderManagedResource `json:"managedResources,omitempty"`

	// ignorable extenders may fail: pods are then scheduled without them. They are
	// asked after the others.
	// +optional
	Ignorable bool `json:"ignorable,omitempty"`
}

// ExtenderManagedResource is an extended resource that an extender manages.
type ExtenderManagedResource struct {
	// name of the extended resource, such as example.com/gpu.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('kubernetes.io/')",message="must be an extended resource, outside of kubernetes.io"
	Name string `json:"name"`

	// ignoredByScheduler leaves the resource to the extender: whether a node has
	// enough of it is not checked. Where there is such a resource, these are what
	// NodeResourcesFit ignores, in the place of the ignoredResources of its
	// arguments, as in kube-scheduler.
	// +optional
	IgnoredByScheduler bool `json:"ignoredByScheduler,omitempty"`
}

// ExtenderTLSConfig says how TLS is used with an extender.
type ExtenderTLSConfig struct {
	// insecure does not verify the certificate of the extender. For tests only.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// serverName is the name that the certificate of the extender must have. When
	// unset, it is the host of urlPrefix.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`

	// secretRef names the Secret with the TLS material: `ca.crt`, the certificates
	// that are trusted, and `tls.crt` with `tls.key`, the client certificate and
	// its key. Either may be missing: without ca.crt, the certificates that the
	// system of livesched trusts are trusted. livesched watches the Secret, and
	// has to have the right to.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// SecretReference names a Secret.
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
