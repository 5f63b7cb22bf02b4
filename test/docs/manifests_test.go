// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/livesched/livesched/cmd/kubectl-livesched/app"
)

// TestManifestsInTheDocumentationAreValid validates the objects of livesched as `kubectl livesched
// validate` does.
func TestManifestsInTheDocumentationAreValid(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != "yaml" || !strings.HasPrefix(b.text(), "apiVersion: livesched.io/") {
				continue
			}
			var output bytes.Buffer
			streams := genericiooptions.IOStreams{In: strings.NewReader(b.text()), Out: &output, ErrOut: &output}
			if code := plugin.Run(t.Context(), []string{"validate", "-f", "-"}, streams, nil); code != 0 {
				t.Errorf("%s:\n%s\n%s", p.File, b.text(), output.String())
			}
			checked++
		}
	}
	if checked < 8 {
		t.Errorf("found only %d manifests", checked)
	}
}
