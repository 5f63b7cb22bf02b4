// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// details name what refuses the pod: the taint, the port, the label. They do not name nodes, since
// users may have no permission to list them.
//
// Nodes with equal keys share a row, and one text describes all nodes of the row. What is counted
// over all pods is counted once, when a plugin has refused the pod for it.
type details struct {
	*explainer
	requirements []requirement
	labelled     map[string]bool
	nodeNames    map[string]bool
	spread       []spreadCount
	anti         []termCount
	others       map[topology][]*otherTerm
	affinity     []fwk.AffinityTerm
	devices      *deviceDetails
	namespaces   map[string]labels.Set
}

// key identifies what refuses the pod on a node.
func (d *details) key(n *refusedNode, r refusal) string {
	switch r.reason {
	case v1alpha1.ReasonUntoleratedTaint:
		return taintsText(untolerated(d.pod, n.Node()))
	case v1alpha1.ReasonHostPortInUse:
		return strings.Join(portsInUse(d.pod, n), ", ")
	case v1alpha1.ReasonNodeAffinityMismatch:
		if isMismatch(r.Status) {
			return d.mismatches(n.Node())
		}
	case v1alpha1.ReasonInsufficientResource:
		return n.short.resources()
	case v1alpha1.ReasonTopologyLabelMissing, v1alpha1.ReasonTopologySpread:
		return strconv.Itoa(d.refusingSpread(n.Node(), r.reason))
	case v1alpha1.ReasonPodAntiAffinity:
		return strconv.Itoa(d.refusingAntiAffinity(n.Node()))
	case v1alpha1.ReasonAntiAffinityOfOtherPods:
		return d.refusingOthers(n.Node())
	case v1alpha1.ReasonPodAffinityNotSatisfied:
		return d.missingAffinityLabel(n.Node())
	case v1alpha1.ReasonDeviceNotAvailable:
		return d.deviceKey(n.Node(), r.Status)
	}
	return ""
}

// text describes what refuses the pod on nodes with equal keys. It is empty if the messages of the
// plugin say all there is.
func (d *details) text(nodes []*refusedNode, r refusal) string {
	n := nodes[0]
	switch r.reason {
	case v1alpha1.ReasonUntoleratedTaint:
		return taintsText(untolerated(d.pod, n.Node()))
	case v1alpha1.ReasonCordoned:
		return "cordoned"
	case v1alpha1.ReasonHostPortInUse:
		return portsText(portsInUse(d.pod, n))
	case v1alpha1.ReasonNodeAffinityMismatch:
		if isMismatch(r.Status) {
			return d.mismatchText(nodes)
		}
	case v1alpha1.ReasonInsufficientResource:
		if r.Plugin() == names.NodeResourcesFit {
			return n.short.text(d.pod)
		}
	case v1alpha1.ReasonTopologyLabelMissing, v1alpha1.ReasonTopologySpread:
		return d.spreadText(nodes, r.reason)
	case v1alpha1.ReasonPodAntiAffinity:
		return d.antiAffinityText(nodes)
	case v1alpha1.ReasonAntiAffinityOfOtherPods:
		return d.othersText(nodes)
	case v1alpha1.ReasonPodAffinityNotSatisfied:
		return d.affinityText(n.Node())
	case v1alpha1.ReasonDeviceNotAvailable:
		return d.deviceText(nodes, r.Status)
	case v1alpha1.ReasonVolumeNotAvailable:
		return oneOfClaims(d.claims(isUnbound))
	case v1alpha1.ReasonVolumeOnOtherNode, v1alpha1.ReasonVolumeInOtherZone:
		return oneOfClaims(d.claims(func(c *corev1.PersistentVolumeClaim) bool { return !isUnbound(c) }))
	case v1alpha1.ReasonVolumeInUse:
		return oneOfClaims(d.claims(func(c *corev1.PersistentVolumeClaim) bool {
			return slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod)
		}))
	}
	return d.ofPod(r.Status, r.reason)
}

// notThere ends the details about what is missing.
const notThere = " does not exist"

var (
	missingClaim         = regexp.MustCompile(`persistentvolumeclaim "([^"]+)"`)
	missingResourceClaim = regexp.MustCompile(`could not find ResourceClaim "[^"/]*/?([^"/]+)"`)
	missingStorageClass  = regexp.MustCompile(`^storageclass[^ ]* "([^"]+)" not found$`)
	missingDeviceClass   = regexp.MustCompile(`^request .*: device class (.+) does not exist$`)
)

// ofPod describes what refuses the pod on all nodes.
func (d *details) ofPod(status *fwk.Status, reason v1alpha1.RefusalReason) string {
	message := strings.Join(status.Reasons(), ", ")
	named := func(format string, pattern *regexp.Regexp) string {
		if found := pattern.FindStringSubmatch(message); found != nil {
			return fmt.Sprintf(format, found[1])
		}
		return ""
	}
	switch reason {
	case v1alpha1.ReasonClaimNotFound:
		if strings.HasPrefix(message, "waiting for ") {
			return "" // a controller creates it
		}
		return cmp.Or(named("the ResourceClaim %s"+notThere, missingResourceClaim),
			named("the PersistentVolumeClaim %s"+notThere, missingClaim))
	case v1alpha1.ReasonClassNotFound:
		return cmp.Or(named("the DeviceClass %s"+notThere, missingDeviceClass),
			named("the StorageClass %s"+notThere, missingStorageClass))
	case v1alpha1.ReasonClaimUnbound:
		if unbound := d.claims(isUnbound); len(unbound) > 0 {
			return stateText(claimNoun, unbound, "not bound")
		}
	}
	return ""
}

// claims returns the names of those PersistentVolumeClaims of the pod that a refusal is about.
func (d *details) claims(about func(*corev1.PersistentVolumeClaim) bool) []string {
	var claims []string
	for name := range podfields.VolumeClaimNames(d.pod) {
		if claim := d.fork.VolumeClaim(d.pod.Namespace, name); claim != nil && about(claim) {
			claims = append(claims, name)
		}
	}
	return claims
}

func isUnbound(claim *corev1.PersistentVolumeClaim) bool { return claim.Spec.VolumeName == "" }

const claimNoun = "the PersistentVolumeClaim"

// oneOfClaims names claims of which a plugin refuses at least one. It is empty if there are none.
func oneOfClaims(claims []string) string {
	switch len(claims) {
	case 0:
		return ""
	case 1:
		return nounText(claimNoun, claims)
	}
	return "one of " + nounText(claimNoun, claims)
}

// nounText names one thing, or several in the plural.
func nounText(noun string, names []string) string {
	if len(names) != 1 {
		noun += "s"
	}
	return noun + " " + enumerate(names, "and")
}

// stateText describes the state of one thing, or of several.
func stateText(noun string, names []string, state string) string {
	verb := " is "
	if len(names) > 1 {
		verb = " are "
	}
	return nounText(noun, names) + verb + state
}

// taintsText names taints.
func taintsText(taints []corev1.Taint) string {
	texts := make([]string, len(taints))
	for i := range taints {
		texts[i] = taints[i].ToString()
	}
	slices.Sort(texts)
	return nounText("taint", texts)
}

// portsInUse returns the host ports of the pod that other pods on a node have.
func portsInUse(pod *corev1.Pod, n *refusedNode) []string {
	var inUse []string
	for _, port := range schedutil.GetHostPorts(pod) {
		if n.GetUsedPorts().CheckConflict(port.HostIP, string(port.Protocol), port.HostPort) {
			inUse = append(inUse, fmt.Sprintf("%d/%s", port.HostPort, cmp.Or(port.Protocol, corev1.ProtocolTCP)))
		}
	}
	return inUse
}

// portsText names host ports. Without any, a pod that is nominated to the node has them.
func portsText(ports []string) string {
	if len(ports) == 0 {
		return "a host port is reserved for pods nominated to the node"
	}
	return stateText("host port", ports, "in use")
}

// resources identifies the resources that a node lacks, and which of them it does not have at all.
func (s shortage) resources() string {
	var key strings.Builder
	for _, l := range s {
		key.WriteString(string(l.resource))
		if l.of == 0 {
			key.WriteByte('!')
		}
		key.WriteByte(' ')
	}
	return key.String()
}

// text names the resources that a node does not have at all. A node that lacks nothing refuses the
// pod for others that are nominated to it.
func (s shortage) text(pod *corev1.Pod) string {
	if len(s) == 0 {
		return "reserved for pods nominated to the node"
	}
	requests := (&schedframework.PodInfo{Pod: pod}).CalculateResource().Resource
	var none []string
	for _, l := range s {
		if l.of == 0 && l.resource != corev1.ResourcePods {
			l.amount = amountOf(requests, l.resource)
			requested := l.quantity()
			none = append(none, fmt.Sprintf("%s (%s requested)", l.resource, requested.String()))
		}
	}
	if len(none) == 0 {
		return ""
	}
	return "no " + enumerate(none, "and no")
}

// maxEnumerated limits the items of a sentence.
const maxEnumerated = 6

// enumerate joins items as in a sentence, with a conjunction before the last.
func enumerate(items []string, conjunction string) string {
	if len(items) > maxEnumerated {
		more := len(items) - maxEnumerated + 1
		items = append(slices.Clone(items[:maxEnumerated-1]), fmt.Sprintf("%d more", more))
	}
	last := len(items) - 1
	if last < 1 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:last], ", ") + " " + conjunction + " " + items[last]
}
