// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Input is what Write writes. The objects may belong to informers: Write does not change them.
type Input struct {
	Header   Header
	Profiles []v1alpha1.SchedulerProfile
	Policies []v1alpha1.SchedulingPolicy
	// Nodes are in the order of the snapshot.
	Nodes []*corev1.Node
	// Pods are those on nodes, and Pending the others. A pod that is not bound yet is on the node
	// that its spec names.
	Pods, Pending []*corev1.Pod
	// Objects are of the Kinds.
	Objects     []any
	Nominations []Nomination
	Decisions   []decisionlog.Decision
}

// SetObjects sets the objects of profiles and policies, and what they resolve to.
func (in *Input) SetObjects(profiles []v1alpha1.SchedulerProfile, policies []v1alpha1.SchedulingPolicy,
	resolution *resolve.Resolution) {
	in.Profiles, in.Policies = profiles, policies
	for i := range in.Header.Profiles {
		running := &in.Header.Profiles[i]
		resolved := resolution.Profiles[running.SchedulerName]
		running.Reproducible = resolved != nil && resolved.Name == running.Name && resolved.Revision == running.Revision
	}
}

// Write writes a file. If redacted is true, each string that is not a word of Kubernetes or of
// livesched is replaced by a pseudonym, and devices are left out: the expressions that select
// devices are made of such strings. The error is an error of w, or the
// cause of ctx.
func Write(ctx context.Context, w io.Writer, in *Input, redacted bool) error {
	var r *redactor
	if redacted {
		r = newRedactor(in)
	}
	return compress(ctx, w, r, func(out *writer) {
		out.input(ctx, in)
		for i := range in.Decisions {
			out.write(ctx, Record{Decision: decisionOf(&in.Decisions[i])})
		}
	})
}

// compress writes a file with the records of write, and its end.
func compress(ctx context.Context, w io.Writer, r *redactor, write func(*writer)) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(compressed, 1<<16)
	out := &writer{json: json.NewEncoder(buffer), redactor: r}
	out.json.SetEscapeHTML(false)
	write(out)
	out.write(ctx, Record{End: &End{Records: out.records}})
	return errors.Join(out.err, buffer.Flush(), compressed.Close())
}

// writer writes records until the first error.
type writer struct {
	json     *json.Encoder
	redactor *redactor // nil: nothing is redacted
	records  int
	err      error
}

// checkEvery is the number of records after which the context is checked.
const checkEvery = 256

func (w *writer) write(ctx context.Context, r Record) {
	if w.records%checkEvery == 0 && w.err == nil && ctx.Err() != nil {
		w.err = context.Cause(ctx)
	}
	if w.err != nil {
		return
	}
	if w.redactor != nil {
		r = w.redactor.record(&r)
	}
	if err := w.json.Encode(&r); err != nil {
		w.err = fmt.Errorf("writing a record: %w", err)
	}
	w.records++
}

// input writes everything but the decisions.
func (w *writer) input(ctx context.Context, in *Input) {
	header := in.Header
	header.Format, header.Redacted = Format, w.redactor != nil
	if header.Redacted {
		header.DeviceResources = deviceResources(in)
	}
	w.write(ctx, Record{Header: &header})
	for i := range in.Profiles {
		w.write(ctx, Record{Profile: &v1alpha1.SchedulerProfile{ObjectMeta: unlabelled(&in.Profiles[i].ObjectMeta),
			Spec: in.Profiles[i].Spec}})
	}
	for i := range in.Policies {
		// It has extenders, but no passwords: these are in Secrets.
		w.write(ctx, Record{Policy: &v1alpha1.SchedulingPolicy{ObjectMeta: unlabelled(&in.Policies[i].ObjectMeta),
			Spec: in.Policies[i].Spec}})
	}
	for _, node := range in.Nodes {
		w.write(ctx, Record{Node: podfields.KeepNode(node)})
	}
	for _, object := range in.Objects {
		if r, ok := recordOf(object); ok && (!header.Redacted || !r.ofDevices()) {
			w.write(ctx, r)
		}
	}
	for _, pod := range in.Pods {
		w.write(ctx, Record{Pod: podfields.Keep(pod)})
	}
	for _, pod := range in.Pending {
		pending := podfields.Keep(pod)
		pending.Spec.NodeName = ""
		w.write(ctx, Record{Pod: pending})
	}
	for i := range in.Nominations {
		w.write(ctx, Record{Nomination: &in.Nominations[i]})
	}
}

// ofDevices reports whether the record is about devices.
func (r *Record) ofDevices() bool {
	return r.ResourceClaim != nil || r.ResourceSlice != nil || r.DeviceClass != nil
}

// deviceResources returns the names of extended resources that devices provide.
func deviceResources(in *Input) (names []string) {
	for _, object := range in.Objects {
		if class, ok := object.(*resourcev1.DeviceClass); ok {
			names = append(names, resourcev1.ResourceDeviceClassPrefix+class.Name)
			if class.Spec.ExtendedResourceName != nil {
				names = append(names, *class.Spec.ExtendedResourceName)
			}
		}
	}
	return names
}

func decisionOf(d *decisionlog.Decision) *Decision {
	out := &Decision{
		Number: uint64(d.Number), Pod: d.Pod, Time: d.Time, Attempt: d.Attempt, Profile: d.Profile,
		Revision: d.Revision,
		Changes:  d.Changes, Placed: d.Placed, Nominated: d.Nominated, InDomain: len(d.Domain) > 0, Nodes: d.Nodes,
		Evaluated: d.Evaluated, Feasible: d.Feasible, Partial: d.Partial,
		Node: d.Node, Total: d.Total, Tied: d.Tied, Result: d.Result.String(),
	}
	for _, label := range d.Domain {
		out.Domain = append(out.Domain, DomainLabel(label))
	}
	return out
}
