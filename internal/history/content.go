// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// The names that an empty field means.
const (
	defaultPolicy    = "default"
	defaultQueueSort = "PrioritySort"
)

// canonicalProfile returns the spec of a profile with the defaults written out, without the fields
// that are not part of its history.
func canonicalProfile(objectName string, spec *v1alpha1.SchedulerProfileSpec) *v1alpha1.SchedulerProfileSpec {
	c := spec.DeepCopy()
	c.RevisionHistoryLimit = nil
	if c.SchedulerName == "" {
		c.SchedulerName = objectName
	}
	if c.PolicyRef.Name == "" {
		c.PolicyRef.Name = defaultPolicy
	}
	return c
}

// canonicalPolicy returns the spec of a policy with the defaults written out, without the fields
// that are not part of its history. The schema has the same defaults: a test compares them.
func canonicalPolicy(spec *v1alpha1.SchedulingPolicySpec) *v1alpha1.SchedulingPolicySpec {
	c := spec.DeepCopy()
	c.RevisionHistoryLimit = nil
	if c.AlgorithmSource == nil {
		c.AlgorithmSource = &v1alpha1.AlgorithmSource{Provider: ptr.To(v1alpha1.DefaultProvider)}
	}
	if c.QueueSort == nil {
		c.QueueSort = &v1alpha1.QueueSort{Name: defaultQueueSort}
	}
	setDefault(&c.PodInitialBackoff, metav1.Duration{Duration: time.Second})
	setDefault(&c.PodMaxBackoff, metav1.Duration{Duration: 10 * time.Second})
	setDefault(&c.PodMaxInUnschedulablePods, metav1.Duration{Duration: 5 * time.Minute})
	setDefault(&c.PercentageOfNodesToScore, 0)
	setDefault(&c.Parallelism, 16)
	return c
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// content returns a revision's specs as text: two revisions of an object with the same content are
// equal. It does not depend on the order of fields or on whether defaults are written out.
func content(r *Revision) (string, error) {
	var of struct {
		Profile    *v1alpha1.SchedulerProfileSpec `json:"profile,omitempty"`
		PolicyName string                         `json:"policyName,omitempty"`
		Policy     *v1alpha1.SchedulingPolicySpec `json:"policy,omitempty"`
	}
	if r.Profile != nil {
		of.Profile = canonicalProfile(r.ObjectName, r.Profile)
	}
	if r.Policy != nil {
		of.PolicyName, of.Policy = r.Policy.Name, canonicalPolicy(&r.Policy.Spec)
	}
	text, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	// Sort the fields of plugin arguments, which json.Marshal leaves as they were written.
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	text, err = json.Marshal(value)
	return string(text), err
}

// Hash returns a hash of a policy's content.
func Hash(spec *v1alpha1.SchedulingPolicySpec) (string, error) {
	text, err := content(&Revision{Kind: KindPolicy, Policy: &Policy{Spec: *spec}})
	if err != nil {
		return "", err
	}
	return hash(text), nil
}

// hash returns a short hash, in characters that are allowed in names.
func hash(parts ...string) string {
	const alphabet, length = "bcdfghjklmnpqrstvwxz2456789", 10
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	sum := h.Sum(nil)
	short := make([]byte, length)
	for i := range short {
		short[i] = alphabet[int(sum[i])%len(alphabet)]
	}
	return string(short)
}

// revisionName returns the name of the ControllerRevision for a content of an object. Two replicas
// that store the same content use the same name. Another attempt gives another name, for when a
// name is in use.
func revisionName(kind, objectName string, uid types.UID, content string, attempt int) string {
	const longest = 253 - len("sprof") - 2 - 10 // of the object's name, so that the whole fits
	prefix := "sprof"
	if kind == KindPolicy {
		prefix = "spol"
	}
	return prefix + "-" + shortened(objectName, longest) + "-" + hash(string(uid), content, fmt.Sprint(attempt))
}

// NameLabel returns the name of an object as the value of a label, which has at most 63 characters:
// a longer name is cut and ends in a hash.
func NameLabel(name string) string {
	const longest = 63
	if len(name) <= longest {
		return name
	}
	return shortened(name, longest-11) + "-" + hash(name)
}

// shortened cuts a name so that it ends in a letter or digit.
func shortened(name string, longest int) string {
	if len(name) <= longest {
		return name
	}
	end := longest
	for end > 1 && (name[end-1] == '-' || name[end-1] == '.') {
		end--
	}
	return name[:end]
}
