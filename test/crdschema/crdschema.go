// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package crdschema validates custom resources without a kube-apiserver. It calls the pruning, defaulting, schema validation and
// CEL validation of the API server in the same order.
//
// What may not live here: knowledge of any particular kind. The suite test/integration/crdvalidation verifies that a
// real API server agrees.
package crdschema

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"
)

// Schema is the only version of one CustomResourceDefinition.
type Schema struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	cel        *cel.Validator
}

// New parses the YAML of a CustomResourceDefinition with one version. It returns an error if the API server would reject the
// CustomResourceDefinition. For example, a CEL rule does not compile or its estimated cost is too high.
func New(crdYAML string) (*Schema, error) {
	crd, err := load(crdYAML)
	if err != nil {
		return nil, err
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd); len(errs) > 0 {
		return nil, fmt.Errorf("validating the CustomResourceDefinition: %w", errs.ToAggregate())
	}

	openAPISchema := crd.Spec.Validation.OpenAPIV3Schema
	structural, err := structuralschema.NewStructural(openAPISchema)
	if err != nil {
		return nil, fmt.Errorf("reading the structural schema: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(openAPISchema)
	if err != nil {
		return nil, fmt.Errorf("building the schema validator: %w", err)
	}

	return &Schema{structural: structural, validator: validator, cel: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

func load(crdYAML string) (*apiextensions.CustomResourceDefinition, error) {
	versioned := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(crdYAML), versioned); err != nil {
		return nil, fmt.Errorf("decoding the CustomResourceDefinition: %w", err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(versioned)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&versioned.Spec)
	versioned.Status.StoredVersions = []string{versioned.Spec.Versions[0].Name}

	crd := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(versioned, crd, nil); err != nil {
		return nil, fmt.Errorf("converting the CustomResourceDefinition: %w", err)
	}

	return crd, nil
}

// Admit returns a copy of the object as the API server passes it to validation. Admit removes nulls and unknown fields and sets
// defaults. The second value lists the paths of the unknown fields.
func (s *Schema) Admit(object map[string]any) (map[string]any, []string) {
	admitted := runtime.DeepCopyJSON(object)
	defaulting.PruneNonNullableNullsWithoutDefaults(admitted, s.structural)
	defaulting.Default(admitted, s.structural)
	unknown := pruning.PruneWithOptions(admitted, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})

	return admitted, unknown
}

// Create admits the object and returns the validation errors of its creation. In contrast to the API server, Create also validates
// the status, so that tests can use objects as they are stored.
func (s *Schema) Create(object map[string]any) field.ErrorList {
	admitted, _ := s.Admit(object)
	errs := validation.ValidateCustomResource(nil, admitted, s.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, admitted)...)
	if len(errs) > 0 {
		return errs
	}
	errs, _ = s.cel.Validate(context.Background(), nil, s.structural, admitted, nil, celconfig.RuntimeCELCostBudget)

	return errs
}

// Update admits both objects and returns the validation errors of the change from old to object. Like the API server, it ignores
// errors in unchanged fields (ratcheting).
func (s *Schema) Update(object, old map[string]any) field.ErrorList {
	admitted, _ := s.Admit(object)
	stored, _ := s.Admit(old)
	correlated := common.NewCorrelatedObject(admitted, stored, &model.Structural{Structural: s.structural})

	errs := validation.ValidateCustomResourceUpdate(nil, admitted, stored, s.validator, validation.WithRatcheting(correlated))
	if len(errs) > 0 {
		return errs
	}
	errs, _ = s.cel.Validate(context.Background(), nil, s.structural, admitted, stored, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(correlated))

	return errs
}

// Decode parses the YAML of an object with the Go types of the API server. For example, integers are int64.
func Decode(objectYAML []byte) (map[string]any, error) {
	data, err := yaml.YAMLToJSON(objectYAML)
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("decoding the object: %w", err)
	}

	return object.Object, nil
}
