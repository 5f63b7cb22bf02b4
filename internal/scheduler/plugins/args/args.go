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

// group is the API group in which kube-scheduler had the arguments of the plugins that it removed.
const group = "kubescheduler.config.k8s.io/"

// TypeMeta is for the arguments of a plugin that kube-scheduler had a kind for: they can say of
// which kind they are, so that they paste over from a KubeSchedulerConfiguration of that time.
type TypeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// Check refuses what says to be of another kind than the arguments of the plugin.
func (t *TypeMeta) Check(plugin string) error {
	if t.Kind != "" && t.Kind != plugin+"Args" || t.APIVersion != "" && !strings.HasPrefix(t.APIVersion, group) {
		return fmt.Errorf("must be of kind %sArgs of %s, or say nothing of it; is of apiVersion %q, kind %q", plugin, strings.TrimSuffix(group, "/"), t.APIVersion, t.Kind)
	}
	return nil
}

// Decode reads a plugin's arguments, which a profile gives as a JSON object, into a struct. Without
// arguments, the struct stays as it is. Fields that the struct does not have, and fields that are
// given twice, are errors.
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
