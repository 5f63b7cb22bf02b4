// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// past is an object with its revisions.
type past struct {
	kind string
	// One of these is set.
	profile *v1alpha1.SchedulerProfile
	policy  *v1alpha1.SchedulingPolicy
	// revisions of the object with this UID, by ascending number.
	revisions []history.Revision
}

func (p *past) object() client.Object {
	if p.profile != nil {
		return p.profile
	}
	return p.policy
}

func (p *past) String() string { return fmt.Sprintf("%s %q", p.kind, p.object().GetName()) }

// past reads the object that the arguments name and its revisions.
func (o *options) past(ctx context.Context, args []string) (client.Client, *past, error) {
	named, err := parseObjectName(args)
	if err != nil {
		return nil, nil, err
	}
	c, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	if named, err = named.resolve(ctx, c); err != nil {
		return nil, nil, err
	}
	p, err := readPast(ctx, c, o.liveschedNamespace, named)
	if apierrors.IsNotFound(err) {
		err = named.notFound(ctx, c)
	}
	return c, p, err
}

// readPast reads an object and its revisions.
func readPast(ctx context.Context, c client.Client, namespace string, of objectName) (*past, error) {
	p := &past{kind: of.kind}
	if of.kind == history.KindProfile {
		p.profile = &v1alpha1.SchedulerProfile{}
	} else {
		p.policy = &v1alpha1.SchedulingPolicy{}
	}
	if err := c.Get(ctx, client.ObjectKey{Name: of.name}, p.object()); err != nil {
		return nil, err
	}
	all, err := history.List(ctx, c, namespace, of.kind, of.name)
	if err != nil {
		return nil, err
	}
	p.revisions = history.Of(all, p.object().GetUID())
	return p, nil
}

// running returns the active revision, nil if it is not stored. For a profile it is the one that
// the status names. For a policy it is the last one, since an accepted policy is active in all of
// its profiles.
func (p *past) running() *history.Revision {
	for i := len(p.revisions) - 1; i >= 0; i-- {
		r := &p.revisions[i]
		if p.policy != nil || p.profile.Status.Active != nil && p.profile.Status.Active.Revision == r.Hash {
			return r
		}
	}
	return nil
}

// revisionText names a revision: as status does, and by its number in the history.
func revisionText(r *history.Revision) string {
	return fmt.Sprintf("revision %s (number %d)", r.Hash, r.Number)
}

// revisionHelp is the end of the help of a flag that takes a revision.
const revisionHelp = "its number in the history, or its name such as pdh8zspwhj or binpack@pdh8zspwhj."

// isDefault returns whether a flag for a revision has the value that stands for none.
func isDefault(revision string) bool { return revision == "" || revision == "0" }

// find returns the revision with a number, or with a name as status and decisions show it.
func (p *past) find(text string) (*history.Revision, error) {
	hash := strings.TrimPrefix(text, p.object().GetName()+"@")
	for i := len(p.revisions) - 1; i >= 0; i-- {
		if r := &p.revisions[i]; r.Hash == hash || strconv.FormatInt(r.Number, 10) == text {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s has no revision %s; stored are the numbers %s", p, text, p.numbers())
}

// before returns the revision before the active one.
func (p *past) before() (*history.Revision, error) {
	running := p.running()
	if running == nil {
		return nil,
			fmt.Errorf("the active revision of %s is not stored: specify --to-revision; stored are the numbers %s", p,
				p.numbers())
	}
	for i := len(p.revisions) - 1; i >= 0; i-- {
		if p.revisions[i].Number < running.Number {
			return &p.revisions[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no revision before the active one, %s", p, revisionText(running))
}

func (p *past) numbers() string {
	var numbers []string
	for i := range p.revisions {
		numbers = append(numbers, fmt.Sprint(p.revisions[i].Number))
	}
	if len(numbers) == 0 {
		return "none"
	}
	return strings.Join(numbers, ", ")
}

// defaultPolicy is the policy of profiles that do not reference one. If it does not exist, the
// built-in defaults apply.
const defaultPolicy = resolve.DefaultPolicyName

// policyNameOf returns the name of the policy that a profile builds on.
func policyNameOf(spec *v1alpha1.SchedulerProfileSpec) string {
	return cmp.Or(spec.PolicyRef.Name, defaultPolicy)
}

// readPolicy returns a policy, nil if it does not exist.
func readPolicy(ctx context.Context, c client.Client, name string) (*v1alpha1.SchedulingPolicy, error) {
	policy := &v1alpha1.SchedulingPolicy{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, policy); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return policy, nil
}

// newProfile returns a profile to show, resolve or create.
func newProfile(name string, spec *v1alpha1.SchedulerProfileSpec) *v1alpha1.SchedulerProfile {
	return &v1alpha1.SchedulerProfile{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: history.KindProfile},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *spec.DeepCopy(),
	}
}

// newPolicy returns a policy to show, resolve or create.
func newPolicy(name string, spec *v1alpha1.SchedulingPolicySpec) *v1alpha1.SchedulingPolicy {
	return &v1alpha1.SchedulingPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: history.KindPolicy},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *spec.DeepCopy(),
	}
}
