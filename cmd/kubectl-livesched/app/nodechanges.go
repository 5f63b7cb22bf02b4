// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
)

// The largest numbers of pods that are decided, and of nodes that are added.
const (
	maxDecided = 5000
	maxAdded   = 5000
)

// kindsOf are the kinds of the resources that are created.
var kindsOf = map[string]string{"simulations": "Simulation", "capacities": "Capacity"}

// nodeChanges are the flags that change nodes.
type nodeChanges struct{ add, remove []string }

func (n *nodeChanges) addFlags(command *cobra.Command) {
	command.Flags().StringSliceVar(&n.add, "add-nodes", nil,
		"Add nodes like one of a node pool, or like a node: POOL=N or NODE=N. The flag can be repeated.")
	command.Flags().StringSliceVar(&n.remove, "remove-nodes", nil,
		"Remove nodes by name, or by labels: NAME, KEY=VALUE. The flag can be repeated.")
}

// parse returns the changes. What has a = is a label, as names of nodes do not.
func (n *nodeChanges) parse() (v1alpha1.NodeChanges, error) {
	var changes v1alpha1.NodeChanges
	added := int64(0)
	for _, text := range n.add {
		like, count, _ := strings.Cut(text, "=")
		number, err := strconv.ParseInt(count, 10, 32)
		if err != nil || like == "" || number < 1 {
			return changes, fmt.Errorf("--add-nodes: must be POOL=N or NODE=N, not %q", text)
		}
		if added += number; added > maxAdded {
			return changes, fmt.Errorf("--add-nodes: at most %d nodes can be added", maxAdded)
		}
		changes.Add = append(changes.Add, v1alpha1.NodeAddition{Like: like, Count: int32(number)})
	}
	var selectors []string
	for _, text := range n.remove {
		if strings.Contains(text, "=") {
			selectors = append(selectors, text)
		} else {
			changes.Remove = append(changes.Remove, text)
		}
	}
	changes.RemoveSelector = strings.Join(selectors, ",")
	if _, err := labels.Parse(changes.RemoveSelector); err != nil {
		return changes, fmt.Errorf("--remove-nodes: %w", err)
	}
	return changes, nil
}

// create sends an object to livesched, and reads the answer. It also returns the answer as JSON.
func (o *options) create(ctx context.Context, at *remoteOptions, resource, namespace string,
	object any) (json.RawMessage, error) {
	livesched, err := o.remote(at, simulationTimeout)
	if err != nil {
		return nil, err
	}
	text, err := livesched.Create(ctx, resource, namespace, object)
	return text, asFlags(err, kindsOf[resource])
}

// requestFlags are the flags that fill the fields of Simulations and Capacities, which no user has
// written. The first prefix of a field counts.
var requestFlags = []struct{ field, flag string }{
	{"spec.nodes.add", "--add-nodes"},
	{"spec.nodes.remove", "--remove-nodes"},
	{"spec.pods.labelSelector", "--selector"},
	{"spec.pods", "--pods"},
	{"spec.limit", "--limit"},
	{"spec.schedulerName", "--scheduler-name"},
	{"spec.pod.spec.schedulerName", "the pod's scheduler name"},
	{"spec.podGroup.", "the PodGroup: "},
	{"spec.pod.", "the pod: "},
	{"spec.pod", "the pod"},
}

// asFlags returns the error of a request of a kind in terms of the flags, or the error itself if it
// is about something else, such as an object in a file.
func asFlags(err error, kind string) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		return err
	}
	details := status.Status().Details
	if details == nil || details.Kind != kind || len(details.Causes) == 0 {
		return err
	}
	var errs []error
	for _, cause := range details.Causes {
		errs = append(errs, errors.New(causeAsFlag(cause)))
	}
	return errors.Join(errs...)
}

// causeAsFlag returns what is wrong with a field, without the words of the API for it.
func causeAsFlag(cause metav1.StatusCause) string {
	message := cause.Message
	for _, kind := range []string{"Invalid value: ", "Forbidden: "} {
		message = strings.TrimPrefix(message, kind)
	}
	where := cause.Field
	for _, known := range requestFlags {
		if rest, ok := strings.CutPrefix(cause.Field, known.field); ok {
			where = known.flag
			if strings.HasSuffix(known.field, ".") {
				where += rest
			}
			break
		}
	}
	if where == "the pod's scheduler name" {
		message += "; --scheduler-name counts the pod with another one"
	}
	return where + ": " + message
}
