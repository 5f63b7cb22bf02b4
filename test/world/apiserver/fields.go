// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// typeConverter knows the fields of objects for server-side apply and managedFields, including the
// keys of their lists. Types that clients cannot apply, such as Binding, have no schema at the
// client: their lists have no keys.
type typeConverter struct{ schemas, deduced managedfields.TypeConverter }

func newTypeConverter(scheme *runtime.Scheme) typeConverter {
	return typeConverter{applyconfigurations.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()}
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c typeConverter) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if value, err := c.schemas.ObjectToTyped(o, options...); err == nil {
		return value, nil
	}
	return c.deduced.ObjectToTyped(o, options...)
}

// TypedToObject implements managedfields.TypeConverter.
func (c typeConverter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return c.schemas.TypedToObject(value)
}
