// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/version"
)

// LoadSamples implements apiserving.Answers.
func (a *Answers) LoadSamples(last time.Duration) *v1alpha1.LoadSampleList {
	list := &v1alpha1.LoadSampleList{
		Replica: a.Replica, Leading: a.Leading.Load(), Started: metav1.NewTime(a.Started), Version: version.Version,
	}
	size := a.Cache.Size()
	list.Nodes, list.Pods = int32(size.Nodes), int32(size.Pods)
	list.Items, list.Reloads = a.Load.Since(a.Clock.Now().Add(-last))
	return list
}
