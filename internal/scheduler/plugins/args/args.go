// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package args reads the arguments of livesched's own plugins, which are not kinds of kube-scheduler's configuration API.
package args

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
)

// Decode reads a plugin's arguments, which a profile gives as a JSON object, into a struct. Without arguments, the struct
// stays as it is. Fields that the struct does not have, and fields that are given twice, are errors.
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
