// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"

	"sigs.k8s.io/yaml"
)

// YAML returns all objects as documents of one file, in the order in which to apply them.
func (r *Result) YAML() ([]byte, error) {
	var objects []any
	for i := range r.Secrets {
		objects = append(objects, &r.Secrets[i])
	}
	for i := range r.Policies {
		objects = append(objects, &r.Policies[i])
	}
	for i := range r.Profiles {
		objects = append(objects, &r.Profiles[i])
	}
	var out bytes.Buffer
	for i, object := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}
