// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
)

// redactor copies records and replaces every string in them, whatever field it is in: what must
// stay is the exception. It is for one goroutine.
type redactor struct {
	*names
	// fields are the exported fields of structs.
	fields map[reflect.Type][]int
}

func newRedactor(in *Input) *redactor {
	return &redactor{names: newNames(findNumbers(in)), fields: map[reflect.Type][]int{}}
}

// textless are structs of numbers and times.
var textless = sets.New(
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
	reflect.TypeFor[time.Time](), reflect.TypeFor[resource.Quantity](),
)

// record returns a copy of a record with pseudonyms.
func (r *redactor) record(in *Record) (out Record) {
	r.copy(reflect.ValueOf(&out).Elem(), reflect.ValueOf(in).Elem())
	return out
}

// copy sets out to a copy with pseudonyms. It shares no memory with the original that has strings.
func (r *redactor) copy(out, in reflect.Value) {
	t := in.Type()
	if textless.Has(t) {
		out.Set(in)
		return
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		out.Set(in)
	case reflect.String:
		out.SetString(r.of(in.String()))
	case reflect.Pointer:
		if !in.IsNil() {
			out.Set(reflect.New(t.Elem()))
			r.copy(out.Elem(), in.Elem())
		}
	case reflect.Slice:
		if in.IsNil() || t.Elem().Kind() == reflect.Uint8 { // bytes may be a text
			return
		}
		out.Set(reflect.MakeSlice(t, in.Len(), in.Len()))
		for i := range in.Len() {
			r.copy(out.Index(i), in.Index(i))
		}
	case reflect.Map:
		r.copyMap(out, in)
	case reflect.Struct:
		for _, i := range r.fieldsOf(t) {
			if field := in.Field(i); !field.IsZero() {
				r.copy(out.Field(i), field)
			}
		}
		r.correct(in, out)
	}
	// Of an interface or the like nothing is known: it stays empty.
}

func (r *redactor) copyMap(out, in reflect.Value) {
	if in.IsNil() {
		return
	}
	t := in.Type()
	out.Set(reflect.MakeMapWithSize(t, in.Len()))
	for entries := in.MapRange(); entries.Next(); {
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		r.copy(key, entries.Key())
		r.copy(value, entries.Value())
		out.SetMapIndex(key, value)
	}
}

// fieldsOf returns the exported fields of a struct.
func (r *redactor) fieldsOf(t reflect.Type) []int {
	fields, ok := r.fields[t]
	if !ok {
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				fields = append(fields, i)
			}
		}
		r.fields[t] = fields
	}
	return fields
}

// correct sets the fields that are not what they stand for as a whole.
func (r *redactor) correct(in, out reflect.Value) {
	switch o := out.Addr().Interface().(type) {
	case *metav1.ObjectMeta:
		original := in.Interface().(metav1.ObjectMeta)
		o.ResourceVersion = original.ResourceVersion
		r.correctAnnotations(original.Annotations, o.Annotations)
	case *corev1.Container:
		o.Image = r.ofPodImage(in.Interface().(corev1.Container).Image)
	case *corev1.ImageVolumeSource:
		o.Reference = r.ofPodImage(in.Interface().(corev1.ImageVolumeSource).Reference)
	case *corev1.ContainerImage:
		for i, name := range in.Interface().(corev1.ContainerImage).Names {
			o.Names[i] = r.ofImage(name)
		}
	case *v1alpha1.Extender:
		o.URLPrefix = "https://" + r.pseudonym(in.Interface().(v1alpha1.Extender).URLPrefix) + ".svc"
	case *runtime.RawExtension:
		o.Raw = r.json(in.Interface().(runtime.RawExtension).Raw)
	case *intstr.IntOrString:
		o.Type, o.IntVal = in.Interface().(intstr.IntOrString).Type, in.Interface().(intstr.IntOrString).IntVal
	case *Header:
		h := in.Interface().(Header)
		o.Livesched, o.Kubernetes, o.FastPath, o.FeatureGates, o.ResourceVersions = h.Livesched, h.Kubernetes,
			h.FastPath, h.FeatureGates, h.ResourceVersions
	}
}

// correctAnnotations sets the annotations whose values are made of several strings.
func (r *redactor) correctAnnotations(in, out map[string]string) {
	if value, ok := in[corev1.PreferAvoidPodsAnnotationKey]; ok {
		out[corev1.PreferAvoidPodsAnnotationKey] = string(r.json([]byte(value)))
	}
	if value, ok := in[migratedPlugins]; ok {
		plugins := strings.Split(value, ",")
		for i, plugin := range plugins {
			plugins[i] = r.of(plugin)
		}
		out[migratedPlugins] = strings.Join(plugins, ",")
	}
	r.correctTopology(in, out)
}

// json returns JSON with pseudonyms, or nil if the text is no JSON. Keys are strings, too.
func (r *redactor) json(text []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil
	}
	out, err := json.Marshal(r.value(value))
	if err != nil {
		return nil
	}
	return out
}

func (r *redactor) value(in any) any {
	switch v := in.(type) {
	case string:
		if _, err := time.ParseDuration(v); err == nil {
			return v
		}
		return r.of(v)
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
		return v
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if key != "evictionTime" { // a time, on which nothing depends
				out[r.of(key)] = r.value(value)
			}
		}
		return out
	default:
		return in
	}
}
