// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Queues is the resource of the numbers of pending pods. It belongs to no namespace, since the
// queues of profiles do not.
const Queues = "queues"

// QueueLister counts pending pods. Any goroutine may call it.
type QueueLister interface {
	// Queues returns the number of pending pods of each active profile. It is cheap, however many
	// pods there are. If this replica does not schedule pods, the error is an apierrors.APIStatus.
	Queues(ctx context.Context) ([]v1alpha1.Queue, error)
}

// queues answers with the numbers of pending pods. It takes the place of no explanation.
func (h *Handler) queues(ctx context.Context) (*v1alpha1.QueueList, error) {
	items, err := h.QueueLister.Queues(ctx)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.QueueList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "QueueList"}, Items: items}, nil
}
