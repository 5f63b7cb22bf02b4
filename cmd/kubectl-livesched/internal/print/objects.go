// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
)

// Objects prints objects as kubectl does: with -o name their names, and otherwise one object or a
// list. It leaves out managed fields.
func Objects(w io.Writer, format string, objects []client.Object) error {
	var printed []client.Object
	for _, object := range objects {
		kind := history.KindProfile
		if _, isPolicy := object.(*v1alpha1.SchedulingPolicy); isPolicy {
			kind = history.KindPolicy
		}
		if format == Name {
			_, _ = fmt.Fprintf(w, "%s.%s/%s\n", strings.ToLower(kind), v1alpha1.GroupVersion.Group, object.GetName())
			continue
		}
		object = object.DeepCopyObject().(client.Object)
		object.SetManagedFields(nil)
		object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		printed = append(printed, object)
	}
	switch {
	case format == Name:
		return nil
	case len(printed) == 1:
		return As(w, format, printed[0])
	}
	return As(w, format, List(printed))
}
