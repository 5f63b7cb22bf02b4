// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Queues is the resource of the numbers of pending pods. It belongs to no namespace, since the
// queues of profiles do not.
const Queues = "queues"

// queues answers with the numbers of pending pods. It takes the place of no explanation.
func queues(answers Answers) (*v1alpha1.QueueList, error) {
	items, err := answers.Queues()
	if err != nil {
		return nil, err
	}
	return &v1alpha1.QueueList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "QueueList"},
		Items: items}, nil
}
