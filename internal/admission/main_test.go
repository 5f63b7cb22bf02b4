// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/admission"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	leaks.Main(m, goleak.IgnoreCurrent())
}

var now = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// objects is a reader of all objects, like a cache.
type objects struct {
	client.Reader
	profiles []v1alpha1.SchedulerProfile
	policies []v1alpha1.SchedulingPolicy
	// err is the error of each list, and hang blocks each list.
	err  error
	hang bool
}

func (o *objects) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if o.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	switch list := list.(type) {
	case *v1alpha1.SchedulerProfileList:
		list.Items = o.profiles
	case *v1alpha1.SchedulingPolicyList:
		list.Items = o.policies
	default:
		return fmt.Errorf("list of %T", list)
	}
	return o.err
}

func newValidator(tb testing.TB, present *objects) *admission.Validator {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		tb.Fatal(err)
	}
	allowed, err := resolve.ParseAllowedHosts(resolve.DefaultAllowedHosts())
	if err != nil {
		tb.Fatal(err)
	}
	return &admission.Validator{Reader: present, Scheme: scheme, Registered: sets.KeySet(registry),
		AllowedHosts: allowed, Clock: clocktesting.NewFakePassiveClock(now)}
}

// post posts a review and returns the response, nil if there is none, and the HTTP code.
func post(tb testing.TB, v *admission.Validator,
	request *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse, code int) {
	tb.Helper()
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	}
	body, err := json.Marshal(review)
	if err != nil {
		tb.Fatal(err)
	}
	return postBody(tb, v, body)
}

func postBody(tb testing.TB, v *admission.Validator, body []byte) (response *admissionv1.AdmissionResponse, code int) {
	tb.Helper()
	response, code, _ = postRaw(tb, v, body)
	return response, code
}

func postRaw(tb testing.TB, v *admission.Validator,
	body []byte) (response *admissionv1.AdmissionResponse, code int, text string) {
	tb.Helper()
	r := httptest.NewRequest(http.MethodPost, admission.Path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	v.Handler().ServeHTTP(w, r)
	text = w.Body.String()
	if w.Code != http.StatusOK {
		return nil, w.Code, text
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(text), &review); err != nil || review.Response == nil {
		tb.Fatalf("answer %q: %v", text, err)
	}
	return review.Response, w.Code, text
}

// noPanic fails the test if the text reports a panic, which is an HTTP error like any other.
func noPanic(tb testing.TB, answer string) {
	tb.Helper()
	if strings.HasPrefix(answer, "panic: ") {
		tb.Fatal(answer)
	}
}

// splitYAML splits a stream of documents.
func splitYAML(text []byte) (documents [][]byte) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if err != nil {
			return documents
		}
		documents = append(documents, document)
	}
}

// change returns the request for a change of an object of either kind. before is nil for a new
// object, after for a deletion.
func change(tb testing.TB, before, after client.Object) *admissionv1.AdmissionRequest {
	tb.Helper()
	request := &admissionv1.AdmissionRequest{UID: "the-request", Operation: admissionv1.Update}
	some := after
	switch {
	case before == nil:
		request.Operation = admissionv1.Create
	case after == nil:
		request.Operation, some = admissionv1.Delete, before
	}
	request.Name = some.GetName()
	request.Kind = metav1.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Kind: kindOf(some)}
	for _, part := range []struct {
		object client.Object
		raw    *runtime.RawExtension
	}{{before, &request.OldObject}, {after, &request.Object}} {
		if part.object == nil {
			continue
		}
		part.object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindOf(part.object)))
		text, err := json.Marshal(part.object)
		if err != nil {
			tb.Fatal(err)
		}
		part.raw.Raw = text
	}
	return request
}

func kindOf(object client.Object) string {
	if _, ok := object.(*v1alpha1.SchedulerProfile); ok {
		return "SchedulerProfile"
	}
	return "SchedulingPolicy"
}

// meta returns the metadata of an object that was created some hours ago.
func meta(name string, hours int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1,
		CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(hours) * time.Hour))}
}
