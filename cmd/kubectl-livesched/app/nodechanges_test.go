// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestErrorsNameFlags(t *testing.T) {
	spec := field.NewPath("spec")
	for want, problem := range map[string]*field.Error{
		`--add-nodes: "nosuch": no node and no pool has this name; pools: a, b`: field.Invalid(
			spec.Child("nodes", "add").Index(0).Child("like"), "nosuch",
			"no node and no pool has this name; pools: a, b"),
		`--remove-nodes: "n": no node has this name`: field.Invalid(spec.Child("nodes", "remove").
			Index(3), "n", "no node has this name"),
		`--remove-nodes: "a=b": selects no node`: field.Invalid(spec.Child("nodes", "removeSelector"),
			"a=b", "selects no node"),
		`--selector: "=": wrong`: field.Invalid(spec.Child("pods", "labelSelector"),
			"=", "wrong"),
		`--limit: 0: must be from 1 to 5000`: field.Invalid(spec.Child("limit"), 0,
			"must be from 1 to 5000"),
		`--scheduler-name: "x": no SchedulerProfile`: field.Invalid(spec.Child("schedulerName"), "x",
			"no SchedulerProfile"),
		`the pod: spec.nodeName: the pod must not be on a node`: field.Forbidden(spec.Child("pod", "spec",
			"nodeName"), "the pod must not be on a node"),
		`the PodGroup: minMember: 11: must be from 1 to the limit`: field.Invalid(spec.Child("podGroup", "minMember"),
			11, "must be from 1 to the limit"),
		`the pod's scheduler name: "x": no SchedulerProfile; --scheduler-name counts the pod with another one`: field.Invalid(
			spec.Child("pod", "spec", "schedulerName"), "x", "no SchedulerProfile"),
		`spec.unheardOf: 1: wrong`: field.Invalid(spec.Child("unheardOf"), 1, "wrong"),
	} {
		invalid := apierrors.NewInvalid(schema.GroupKind{Group: "livesched.io", Kind: "Simulation"}, "",
			field.ErrorList{problem})
		if got := asFlags(fmt.Errorf("asking: %w", invalid), "Simulation").Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	inFile := apierrors.NewInvalid(schema.GroupKind{Group: "livesched.io", Kind: "SchedulerProfile"}, "mine",
		field.ErrorList{field.Required(spec.Child("limit"), "")})
	for _, err := range []error{inFile, errors.New("no route to host")} {
		if got := asFlags(err, "Simulation"); got.Error() != err.Error() {
			t.Errorf("got %v, want %v", got, err)
		}
	}
}
