// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/secureserving"
)

// Leader answers in place of a replica that does not lead; passon.Leader is one. Any goroutine may
// call it.
type Leader interface {
	// Leading reports whether this replica leads.
	Leading() bool
	// Ask gets an object from the replica that leads, for the user of ctx. The error is an
	// apierrors.APIStatus.
	Ask(ctx context.Context, path string, query url.Values) (json.RawMessage, error)
}

// leaderKnows are the resources that only the leader knows, or knows well, with what they are
// answered with. The other questions are answered by any replica: they take CPUs, which the leader
// needs to schedule pods.
var leaderKnows = map[string]func() any{
	PodExplanations: func() any { return &v1alpha1.PodExplanation{} },
	Decisions:       func() any { return &v1alpha1.DecisionList{} },
	Queues:          func() any { return &v1alpha1.QueueList{} },
	PendingKinds:    func() any { return &v1alpha1.PendingKindList{} },
	LoadSamples:     func() any { return &v1alpha1.LoadSampleList{} },
}

// asksLeader reports whether this replica does not answer a request about a resource itself.
func (h *Handler) asksLeader(r *http.Request, resource string) bool {
	return h.leader != nil && leaderKnows[resource] != nil && !h.leader.Leading() &&
		r.Header.Get(secureserving.PassOnHeader) != secureserving.PassOnNever
}

// known are those of which every replica knows something: it has made decisions before, has a load
// of its own, and explains pods but for their place in the queue.
var known = sets.New(PodExplanations, Decisions, LoadSamples)

// answersAnyway reports whether this replica answers a request itself if the leader cannot be
// reached: the replicas may not be allowed to connect to each other.
func (h *Handler) answersAnyway(r *http.Request, resource string) bool {
	return known.Has(resource) && !secureserving.PassedOn(r.Context())
}

// askLeader returns the answer of the leader to a request. A request that another replica has
// passed on is never passed on again: the lease may change hands faster than replicas see it.
func (h *Handler) askLeader(r *http.Request, info *request.RequestInfo) (json.RawMessage, error) {
	if secureserving.PassedOn(r.Context()) {
		return nil, apierrors.NewServiceUnavailable(
			"the replica that was asked for the answer does not schedule pods now: another one has begun to lead")
	}
	path := Path
	if info.Namespace != "" {
		path += "namespaces/" + info.Namespace + "/"
	}
	path += info.Resource
	if info.Name != "" {
		path += "/" + info.Name
	}
	return h.leader.Ask(r.Context(), path, r.URL.Query())
}

// decode returns the object that the leader has answered with.
func decode(resource string, text json.RawMessage) (any, error) {
	object := leaderKnows[resource]()
	if err := json.Unmarshal(text, object); err != nil {
		return nil, fmt.Errorf("reading the answer of the replica that leads: %w", err)
	}
	return object, nil
}
