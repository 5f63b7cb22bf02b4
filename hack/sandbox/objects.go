// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the field manager of `kubectl apply --server-side`. With another one, applying a
// sample with kubectl would conflict with the sandbox.
const fieldOwner = client.FieldOwner("kubectl")

// readObjects reads the objects of a YAML file.
func readObjects(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// apply applies an object server-side and returns the stored object.
func (s *sandbox) apply(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	applied := object.DeepCopy()
	err := s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), fieldOwner, client.ForceOwnership)
	if err != nil {
		return nil, fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}

// applyAll applies the files of a directory.
func (s *sandbox) applyAll(ctx context.Context, dir string, names ...string) error {
	for _, name := range names {
		objects, err := readObjects(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, object := range objects {
			if _, err := s.apply(ctx, object); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow starts a watch on one object. The watch begins with the current object, if it exists.
func follow(ctx context.Context, c client.WithWatch, list client.ObjectList,
	key client.ObjectKey) (watch.Interface, error) {
	return c.Watch(ctx, list, client.InNamespace(key.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", key.Name)})
}

// next waits until an object of the watch meets the condition or the condition returns an error.
func next[T client.Object](ctx context.Context, w watch.Interface, met func(T) (bool, error)) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, open := <-w.ResultChan():
			if !open {
				return errors.Join(errors.New("the watch has ended"), context.Cause(ctx))
			}
			object, ok := event.Object.(T)
			if !ok {
				return fmt.Errorf("the watch tells of %s %v", event.Type, event.Object)
			}
			if event.Type == watch.Deleted {
				return fmt.Errorf("%s was deleted", object.GetName())
			}
			if done, err := met(object); done || err != nil {
				return err
			}
		}
	}
}

// await waits until an object meets a condition.
func await[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey,
	met func(T) (bool, error)) error {
	w, err := follow(ctx, c, list, key)
	if err != nil {
		return err
	}
	defer w.Stop()
	return next(ctx, w, met)
}
