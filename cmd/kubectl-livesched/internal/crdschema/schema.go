// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crdschema checks objects against the schemas and CEL rules of the custom resource
// definitions, as the API server does before it stores them. It does not need a cluster.
package crdschema

import (
	"context"
	"io/fs"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/config/crd"
)

// Schema is the schema of one kind. It is safe for concurrent use.
type Schema struct {
	kind       string
	structural *structuralschema.Structural
	validator  schemavalidation.SchemaValidator
	rules      *cel.Validator
}

// Definitions returns the custom resource definitions of this version. They are part of the build.
var Definitions = sync.OnceValue(func() (definitions []*apiextensionsv1.CustomResourceDefinition) {
	files, err := fs.Glob(crd.Bases, "bases/*.yaml")
	utilruntime.Must(err)
	for _, file := range files {
		text, err := fs.ReadFile(crd.Bases, file)
		utilruntime.Must(err)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		utilruntime.Must(yaml.UnmarshalStrict(text, definition))
		definitions = append(definitions, definition)
	}
	return definitions
})

// all returns the schemas by apiVersion and kind.
var all = sync.OnceValue(func() map[string]*Schema {
	schemas := map[string]*Schema{}
	for _, definition := range Definitions() {
		for i := range definition.Spec.Versions {
			version, kind := &definition.Spec.Versions[i], definition.Spec.Names.Kind
			schema, err := newSchema(kind, version.Schema.OpenAPIV3Schema)
			utilruntime.Must(err)
			schemas[definition.Spec.Group+"/"+version.Name+"/"+kind] = schema
		}
	}
	return schemas
})

// Of returns the schema of a kind, nil if the kind is not one of livesched's.
func Of(apiVersion, kind string) *Schema { return all()[apiVersion+"/"+kind] }

func newSchema(kind string, properties *apiextensionsv1.JSONSchemaProps) (*Schema, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(properties, internal,
		nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := schemavalidation.NewSchemaValidator(internal)
	return &Schema{
		kind: kind, structural: structural, validator: validator,
		rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, err
}

// Check returns the object with the defaults of the schema, and the errors for which the API server
// would reject it, unknown fields included, as for `kubectl apply`. old is the object that it
// replaces, nil if it is new; immutable fields are compared with it. Check changes neither object.
func (s *Schema) Check(object, old map[string]any) (completed map[string]any, errs field.ErrorList) {
	completed = runtime.DeepCopyJSON(object)
	delete(completed, "status") // as the API server does: status is a subresource
	for _, unknown := range s.prune(completed) {
		errs = append(errs, field.Forbidden(nil, "unknown field"))
		errs[len(errs)-1].Field = unknown
	}
	if err := objectmeta.Coerce(nil, completed, s.structural, true, false); err != nil {
		return completed, append(errs, err)
	}
	defaulting.Default(completed, s.structural)
	defaulting.PruneNonNullableNullsWithoutDefaults(completed, s.structural)
	meta := s.checkMeta(completed)
	errs = append(errs, meta...)

	found := schemavalidation.ValidateCustomResource(nil, completed, s.validator)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, s.structural, completed)...)
	// Like the API server, do not evaluate rules on an object that does not fit the schema.
	if s.rules != nil && !slices.ContainsFunc(append(meta, found...), blocksRules) {
		var before any // an untyped nil if there is no old object
		if old != nil {
			before = old
		}
		broken, _ := s.rules.Validate(context.Background(), nil, s.structural, completed, before,
			celconfig.RuntimeCELCostBudget)
		found = append(found, broken...)
	}
	return completed, append(errs, found...)
}

// prune removes the fields that the schema does not have, and returns their paths.
func (s *Schema) prune(object map[string]any) []string {
	return pruning.PruneWithOptions(object, s.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

func (s *Schema) checkMeta(object map[string]any) field.ErrorList {
	path := field.NewPath("metadata")
	meta, exists, unknown, err := objectmeta.GetObjectMetaWithOptions(object,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true, ParentPath: path})
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	case !exists || meta.Name == "" && meta.GenerateName == "":
		return field.ErrorList{field.Required(path.Child("name"), "name or generateName is required")}
	}
	var errs field.ErrorList
	for _, name := range unknown {
		errs = append(errs, field.Forbidden(nil, "unknown field"))
		errs[len(errs)-1].Field = name
	}
	if meta.Namespace != "" {
		errs = append(errs, field.Forbidden(path.Child("namespace"), "a "+s.kind+" has no namespace"))
		meta.Namespace = ""
	}
	return append(errs, metavalidation.ValidateObjectMeta(meta, false, metavalidation.NameIsDNSSubdomain, path)...)
}

// blocksRules reports whether the API server does not evaluate CEL rules after such an error.
func blocksRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
		field.ErrorTypeNotSupported:
		return true
	}
	return false
}
