// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Limits bound what Read takes from a file, and so its memory.
type Limits struct {
	// Bytes is the size before compression, and Line the size of a record.
	Bytes int64
	Line  int
	// Records is the number of records.
	Records int
}

// DefaultLimits suffice for a cluster with far more than 100,000 pods.
var DefaultLimits = Limits{Bytes: 2 << 30, Line: 8 << 20, Records: 4_000_000}

// Snapshot is the content of a file.
type Snapshot struct {
	Header   Header
	Profiles []v1alpha1.SchedulerProfile
	Policies []v1alpha1.SchedulingPolicy
	Nodes    []*corev1.Node
	// Pods are those on nodes, and Pending the others.
	Pods, Pending []*corev1.Pod
	// Objects are the other objects, also PodGroups of Kubernetes.
	Objects []client.Object
	// PodGroups are the PodGroups of scheduler-plugins.
	PodGroups   []*podgroup.Object
	Nominations []Nomination
	// Decisions are in the order in which they were made.
	Decisions []Decision
}

var (
	// errIncomplete is the error of a file that ends too early.
	errIncomplete = errors.New(
		"the snapshot is not complete: its end is missing, as if a download or a copy was cut off")
	errNoSnapshot = errors.New("the file is not a snapshot")
	errNoName     = errors.New("an object has no name")
)

// Read reads a file, which may also be what gzip makes of it: its lines. It trusts nothing in it:
// the error describes what is wrong.
func Read(from io.Reader, limits Limits) (*Snapshot, error) {
	return read(from, limits, func(line []byte) []byte { return line })
}

// read is Read of lines that are changed by edit.
func read(from io.Reader, limits Limits, edit func(line []byte) []byte) (*Snapshot, error) {
	plain, err := decompressed(from)
	if err != nil {
		return nil, err
	}
	bounded := &io.LimitedReader{R: plain, N: limits.Bytes}
	lines := bufio.NewScanner(bounded)
	lines.Buffer(make([]byte, 0, min(1<<16, limits.Line)), limits.Line)
	r := &reader{out: &Snapshot{}, limits: limits, nodes: sets.New[string](), pods: sets.New[types.UID]()}
	for lines.Scan() {
		if err := r.line(edit(lines.Bytes())); err != nil && bounded.N > 0 {
			return nil, r.explain(err, lines)
		}
		r.records++
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: it is longer than %d bytes", r.records+1, limits.Line)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errIncomplete
	case err != nil:
		return nil, fmt.Errorf("the file is damaged after line %d: %w", r.records, err)
	case bounded.N <= 0:
		return nil, fmt.Errorf("the file has more than %d bytes", limits.Bytes)
	case !r.ended:
		return nil, errIncomplete
	}
	return r.out, nil
}

// decompressed returns the lines of a file, which need not be compressed.
func decompressed(from io.Reader) (io.Reader, error) {
	file := bufio.NewReader(from)
	head, err := file.Peek(2)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it is empty", errNoSnapshot)
	case err != nil:
		return nil, err
	case head[0] == '{':
		return file, nil
	case head[0] != 0x1f || head[1] != 0x8b: // the magic number of gzip
		return nil, fmt.Errorf("%w: it is neither gzip nor JSON", errNoSnapshot)
	}
	plain, err := gzip.NewReader(file)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return nil, errIncomplete
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoSnapshot, err)
	}
	return plain, nil
}

// reader checks and collects records.
type reader struct {
	out     *Snapshot
	limits  Limits
	records int
	ended   bool
	nodes   sets.Set[string]
	pods    sets.Set[types.UID]
}

// explain returns the error about a file with a line that is wrong. If the file ends there, within
// a record, it is not complete.
func (r *reader) explain(err error, lines *bufio.Scanner) error {
	var syntax *json.SyntaxError
	isJSON := !errors.As(err, &syntax)
	switch {
	case r.records == 0 && (!isJSON || errors.Is(err, errNoSnapshot)):
		return fmt.Errorf("%w: it does not begin with a header", errNoSnapshot)
	case !isJSON && !lines.Scan() && (lines.Err() == nil || errors.Is(lines.Err(), io.ErrUnexpectedEOF)):
		return errIncomplete
	}
	return fmt.Errorf("line %d: %w", r.records+1, err)
}

func (r *reader) line(text []byte) error {
	var record Record
	if err := json.Unmarshal(text, &record); err != nil {
		return fmt.Errorf("it is not a record: %w", err)
	}
	switch {
	case r.records == 0 && record.Header == nil:
		return errNoSnapshot
	case r.ended:
		return errors.New("there is something after the end")
	case r.records >= r.limits.Records:
		return fmt.Errorf("the file has more than %d records", r.limits.Records)
	case r.records > 0 && record.Header != nil:
		return errors.New("the header must be the first record, and no other")
	case record.Header != nil && (record.Header.Format < 1 || record.Header.Format > Format):
		return fmt.Errorf(
			"the file has format %d, and this version reads formats up to %d: use kubectl livesched of version %s",
			record.Header.Format, Format, record.Header.Livesched)
	}
	found, err := record.only()
	if err != nil {
		return err
	}
	return r.add(&record, found)
}

// only returns the field that is set.
func (r *Record) only() (found any, err error) {
	fields := reflect.ValueOf(r).Elem()
	for i := range fields.NumField() {
		if fields.Field(i).IsNil() {
			continue
		}
		if found != nil {
			return nil, errors.New("a record must have one field")
		}
		found = fields.Field(i).Interface()
	}
	if found == nil {
		return nil, errors.New("a record of an unknown kind")
	}
	return found, nil
}

func (r *reader) add(record *Record, found any) error {
	out := r.out
	switch {
	case record.Header != nil:
		out.Header = *record.Header
	case record.Profile != nil:
		out.Profiles = append(out.Profiles, *record.Profile)
	case record.Policy != nil:
		out.Policies = append(out.Policies, *record.Policy)
	case record.Node != nil:
		return r.addNode(record.Node)
	case record.Pod != nil:
		return r.addPod(record.Pod)
	case record.SchedulerPluginsPodGroup != nil:
		if record.SchedulerPluginsPodGroup.Name == "" {
			return errNoName
		}
		out.PodGroups = append(out.PodGroups, record.SchedulerPluginsPodGroup)
	case record.Nomination != nil:
		out.Nominations = append(out.Nominations, *record.Nomination)
	case record.Decision != nil:
		return r.addDecision(record.Decision)
	case record.End != nil:
		if record.End.Records != r.records {
			return fmt.Errorf("the file should have %d records before its end", record.End.Records)
		}
		r.ended = true
	default:
		object, ok := found.(client.Object)
		if !ok || object.GetName() == "" {
			return errNoName
		}
		out.Objects = append(out.Objects, object)
	}
	return nil
}

func (r *reader) addNode(node *corev1.Node) error {
	if node.Name == "" || r.nodes.Has(node.Name) {
		return fmt.Errorf("the name of a node must be unique, and not empty: %q", node.Name)
	}
	r.nodes.Insert(node.Name)
	r.out.Nodes = append(r.out.Nodes, node)
	return nil
}

func (r *reader) addPod(pod *corev1.Pod) error {
	if pod.UID == "" || pod.Name == "" || r.pods.Has(pod.UID) {
		return fmt.Errorf("a pod must have a name, and a UID that no other has: %s/%s", pod.Namespace, pod.Name)
	}
	r.pods.Insert(pod.UID)
	if pod.Spec.NodeName != "" {
		r.out.Pods = append(r.out.Pods, pod)
	} else {
		r.out.Pending = append(r.out.Pending, pod)
	}
	return nil
}

func (r *reader) addDecision(d *Decision) error {
	if last := len(r.out.Decisions); last > 0 &&
		(d.Number <= r.out.Decisions[last-1].Number || d.Changes < r.out.Decisions[last-1].Changes) {
		return fmt.Errorf("decision %d is not in order", d.Number)
	}
	r.out.Decisions = append(r.out.Decisions, *d)
	return nil
}
