// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package args reads the arguments of livesched's own plugins, which are not kinds of
// kube-scheduler's configuration API.
package args

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
)

// group is the API group in which kube-scheduler had the arguments of its removed plugins.
const group = "kubescheduler.config.k8s.io/"

// TypeMeta is for the arguments of a plugin for which kube-scheduler had a kind: they may contain
// the apiVersion and kind, so that they can be copied from a KubeSchedulerConfiguration of that
// time.
type TypeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// Check refuses the apiVersion or kind of other arguments than the plugin's.
func (t *TypeMeta) Check(plugin string) error {
	if t.Kind != "" && t.Kind != plugin+"Args" || t.APIVersion != "" && !strings.HasPrefix(t.APIVersion, group) {
		return fmt.Errorf(
			"must be of kind %sArgs of %s, or have neither apiVersion nor kind; is of apiVersion %q, kind %q", plugin,
			strings.TrimSuffix(group, "/"), t.APIVersion, t.Kind)
	}
	return nil
}

// Decode decodes a plugin's arguments, a JSON object in a profile, into a struct. Without
// arguments, the struct does not change. Unknown and duplicate fields are errors.
func Decode(object runtime.Object, into any) error {
	if object == nil {
		return nil
	}
	raw, ok := object.(*runtime.Unknown)
	if !ok {
		return fmt.Errorf("the arguments must be an object, not a %T", object)
	}
	if len(raw.Raw) == 0 {
		return nil
	}
	if raw.ContentType != "" && raw.ContentType != runtime.ContentTypeJSON {
		return fmt.Errorf("the arguments must be JSON, not %s", raw.ContentType)
	}
	strict, err := json.UnmarshalStrict(raw.Raw, into)
	if err != nil {
		return fmt.Errorf("decoding the arguments: %w", err)
	}
	return errors.Join(strict...)
}
