// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// LoadSamples is the resource of the load of a replica. It belongs to no namespace.
const LoadSamples = "loadsamples"

// LastParameter is the parameter of LoadSamples with the time that the samples cover, until now: a
// duration such as 15m. livesched has those of the last 8 hours.
const LastParameter = "last"

// defaultLast is the default of LastParameter.
const defaultLast = 15 * time.Minute

// loadSamples answers with the load of this replica. It takes the place of no explanation.
func loadSamples(r *http.Request, answers Answers) (*v1alpha1.LoadSampleList, error) {
	last := defaultLast
	if text := r.URL.Query().Get(LastParameter); text != "" {
		var err error
		if last, err = time.ParseDuration(text); err != nil || last <= 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"the parameter %s must be a duration of more than 0s, such as 15m, not %q", LastParameter, text))
		}
	}
	list := answers.LoadSamples(last)
	list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LoadSampleList"}
	return list, nil
}
