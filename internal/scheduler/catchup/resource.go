// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package catchup

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
)

// resource is a kind of objects that a wait compares one by one.
type resource struct {
	// name is for the log.
	name string
	// objects reads their metadata, and selector selects those to compare by their fields.
	objects  metadata.Getter
	selector string
	// has reports whether the cache has an object.
	has func(*metav1.ObjectMeta) bool
	// isGone reports whether the API server has an object no longer, so that there is nothing to
	// wait for.
	isGone func(context.Context, *metav1.ObjectMeta) bool
}

// boundPods selects the bound pods that informers keep.
var boundPods = fields.AndSelectors(
	fields.OneTermNotEqualSelector("spec.nodeName", ""),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
).String()

// missing lists the objects of a resource, and returns those that the cache lacks. There are none
// if the API server does not serve the resource, or not to livesched: the informer has none either.
func (w *waiting) missing(ctx context.Context, r *resource) (missing []*metav1.ObjectMeta, err error) {
	options := metav1.ListOptions{FieldSelector: r.selector, Limit: pageSize}
	for {
		var page *metav1.PartialObjectMetadataList
		err := w.read(ctx, "the list of "+r.name, func(ctx context.Context) (err error) {
			page, err = r.objects.List(ctx, options)
			switch {
			case apierrors.IsResourceExpired(err):
				missing, options.Continue = nil, "" // it took too long: from the start
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
				page, err = &metav1.PartialObjectMetadataList{}, nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			// Only what is missing is kept, and of it no more than the wait needs.
			if item := &page.Items[i].ObjectMeta; !r.has(item) {
				missing = append(missing,
					&metav1.ObjectMeta{Namespace: item.Namespace, Name: item.Name, UID: item.UID,
						ResourceVersion: item.ResourceVersion})
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return missing, nil
		}
	}
}

// awaitAll waits until the cache has each of the objects, or the object is gone.
func (w *waiting) awaitAll(ctx context.Context, r *resource, missing []*metav1.ObjectMeta) error {
	checked := time.Now()
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		reads := 0
		if time.Since(checked) > recheck {
			checked, reads = time.Now(), maxReads
		}
		missing = slices.DeleteFunc(missing, func(object *metav1.ObjectMeta) bool {
			if r.has(object) {
				return true
			}
			reads--
			return reads >= 0 && r.isGoneNow(ctx, object)
		})
		w.note(r.name+" that the informer has not delivered", len(missing), nil)
		return len(missing) == 0, nil
	})
}

func (r *resource) isGoneNow(ctx context.Context, object *metav1.ObjectMeta) bool {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.isGone(ctx, object)
}

// isDeleted reports whether an object no longer exists.
func (r *resource) isDeleted(ctx context.Context, object *metav1.ObjectMeta) bool {
	now, err := r.objects.Namespace(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.UID != object.UID
}
