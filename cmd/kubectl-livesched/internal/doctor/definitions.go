// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/crdschema"
	"github.com/livesched/livesched/internal/version"
)

const applyDefinitions = "apply config/crd of the version of livesched that runs"

// definitions checks that the custom resource definitions exist and have this version.
func (e *examination) definitions(ctx context.Context) {
	for _, want := range crdschema.Definitions() {
		var got apiextensionsv1.CustomResourceDefinition
		switch err := e.Client.Get(ctx, client.ObjectKeyFromObject(want), &got); {
		case apierrors.IsNotFound(err):
			e.add(Failed, applyDefinitions, "%s is missing", want.Name)
		case err != nil:
			e.unreadable(askForPermission, "CustomResourceDefinitions", err)
		default:
			e.definition(want, &got)
		}
	}
}

func (e *examination) definition(want, got *apiextensionsv1.CustomResourceDefinition) {
	for _, condition := range got.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			if schema := schemaOf(got, want.Spec.Versions[0].Name); schema == nil {
				e.add(Failed, applyDefinitions, "%s does not serve %s", want.Name, want.Spec.Versions[0].Name)
			} else if !equality.Semantic.DeepEqual(schema, schemaOf(want, want.Spec.Versions[0].Name)) {
				e.add(Warning, applyDefinitions,
					"%s differs from the definition of this plugin: they have different versions", want.Name)
			} else {
				e.add(OK, "", "%s is the definition of this plugin", want.Name)
			}
			return
		}
	}
	e.add(Failed, "kubectl describe crd "+want.Name, "%s is not established: the API server does not serve it",
		want.Name)
}

// schemaOf returns the schema of a version that is served, nil if it is not.
func schemaOf(definition *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for i := range definition.Spec.Versions {
		if v := &definition.Spec.Versions[i]; v.Name == version && v.Served && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

// server compares the version of the API server with the versions that livesched is tested with.
func (e *examination) server(context.Context) {
	info, err := e.Server()
	if err != nil {
		e.unreadable(askForPermission, "the version of the API server", err)
		return
	}
	const tested = "the versions that livesched is tested with (" + version.OldestTested + " to " +
		version.NewestTested + ")"
	switch version.SkewOf(info.GitVersion) {
	case version.SkewOlder:
		e.add(Warning, "upgrade the API server, or use an older livesched", "the API server (%s) is older than "+tested,
			info.GitVersion)
	case version.SkewNewer:
		e.add(Warning, "upgrade livesched", "the API server (%s) is newer than "+tested, info.GitVersion)
	case version.SkewTested:
		e.add(OK, "", "the API server (%s) is one of "+tested, info.GitVersion)
	default:
		e.add(Warning, "", "the API server has version %s; "+tested+" are others", info.GitVersion)
	}
}
