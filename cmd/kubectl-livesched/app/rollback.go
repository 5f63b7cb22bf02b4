// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/history"
)

// The values of --policy.
const (
	policyRestore = "restore"
	policyKeep    = "keep"
)

// The values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

type rollbackOptions struct {
	*options
	toRevision string
	dryRun     string
	policy     string
	plugins    []string
	wait       bool
	timeout    time.Duration
	output     string
}

func newRollback(shared *options) *cobra.Command {
	o := &rollbackOptions{options: shared}
	command := &cobra.Command{
		Use:   "rollback " + objectUsage,
		Short: "Restore an earlier revision of a profile or policy",
		Long: "Apply the spec of a revision again, by default of the revision before the active one. If the spec " +
			"changes while the command runs, the " +
			"command fails. The annotation kubernetes.io/change-cause gets its value from the revision.\n\n" +
			"A revision of a profile includes the policy that it was built on. If that policy has changed since, " +
			"--policy=restore restores it " +
			"as well, and --policy=keep builds the profile on the current policy. Without --policy, the command " +
			"restores the policy if no other " +
			"profile builds on it, and otherwise changes nothing.\n\n" +
			"With --dry-run, the command shows what would change, as `kubectl livesched diff` does, and changes " +
			"nothing.\n\n" +
			"Exit codes: 0 if the spec equals the spec of the revision now, or would equal it, and 2 if the command " +
			"fails. With --wait it also fails if livesched does " +
			"not accept the spec, or has not programmed it before --timeout.",
		Example: "  kubectl livesched rollback binpack --wait\n\n" +
			"  # Show what would change\n  kubectl livesched rollback profile/binpack --to-revision 3 " +
			"--dry-run=server\n\n" +
			"  # Print the object as it would be\n  kubectl livesched rollback binpack --dry-run=client -o yaml",
		Args: oneObject,
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(command.Context(), args)
		},
	}
	o.addFormerNamespaceFlag(command)
	flags := command.Flags()
	flags.StringVar(&o.toRevision, "to-revision", "",
		"The revision to restore; without it, the one before the active one: "+revisionHelp)
	flags.StringVar(&o.dryRun, "dry-run", dryRunNone, "One of none, client (only show what would be done) and server "+
		"(send the request, but do not store the result).")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.StringVar(&o.policy, "policy", "",
		"What to do if the policy has changed since the revision: restore or keep.")
	flags.BoolVar(&o.wait, "wait", false, "Wait until the spec is programmed.")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "How long to wait with --wait.")
	addPluginsFlag(command, &o.plugins)
	addOutputFlag(command, &o.output, print.JSON, print.YAML, print.Name)
	return command
}

func (o *rollbackOptions) validate() error {
	switch {
	case o.dryRun != dryRunNone && o.dryRun != dryRunClient && o.dryRun != dryRunServer:
		return fmt.Errorf("--dry-run: must be none, client or server, not %q", o.dryRun)
	case o.policy != "" && o.policy != policyRestore && o.policy != policyKeep:
		return fmt.Errorf("--policy: must be restore or keep, not %q", o.policy)
	}
	return nil
}

func (o *rollbackOptions) run(ctx context.Context, args []string) error {
	c, p, err := o.past(ctx, args)
	if err != nil {
		return err
	}
	target, err := o.target(p)
	if err != nil {
		return err
	}
	if o.dryRun == dryRunServer {
		c = client.NewDryRunClient(c)
	}
	r := &rollback{rollbackOptions: o, client: c, past: p, target: target}
	r.differ = o.newDiffer(c, o.plugins)
	if err := r.run(ctx); err != nil || o.output == "" {
		return err
	}
	return print.Objects(o.Out, o.output, r.restored)
}

func (o *rollbackOptions) target(p *past) (*history.Revision, error) {
	if !isDefault(o.toRevision) {
		return p.find(o.toRevision)
	}
	return p.before()
}

// rollback is one rollback.
type rollback struct {
	*rollbackOptions
	client client.Client
	differ differ
	past   *past
	target *history.Revision
	// restored are the objects that have, or would have, the spec of the revision.
	restored []client.Object
}

func (r *rollback) run(ctx context.Context) error {
	if r.past.policy != nil {
		return r.policyAlone(ctx)
	}
	profile := r.past.profile
	before := profile.Spec.DeepCopy()
	from, err := r.present(ctx)
	if err != nil {
		return err
	}
	// The policy comes first: the profile may need it to be accepted.
	policy, err := r.policyOfProfile(ctx)
	if err != nil {
		return err
	}
	done := "already has the spec of"
	if r.setProfile(profile); !equality.Semantic.DeepEqual(before, &profile.Spec) {
		done = "rolled back to"
		if err := r.update(ctx, profile, func() { r.setProfile(profile) }); err != nil {
			return err
		}
	}
	if err := r.showProfile(from, policy); err != nil {
		return err
	}
	r.restored = append(r.restored, profile)
	r.say("schedulerprofile/%s %s %s", profile.Name, done, revisionText(r.target))
	return r.awaitProgrammed(ctx, profile)
}

// setProfile sets the spec of a profile to the spec of the revision, except for the history limit.
func (r *rollback) setProfile(profile *v1alpha1.SchedulerProfile) {
	limit := profile.Spec.RevisionHistoryLimit // it is not part of a revision
	profile.Spec = *r.target.Profile.DeepCopy()
	profile.Spec.RevisionHistoryLimit = limit
	setCause(profile, r.target.Cause)
}

// policyAlone restores a revision of a policy.
func (r *rollback) policyAlone(ctx context.Context) error {
	policy := r.past.policy
	before := policy.DeepCopy()
	set := func() {
		setPolicy(policy, r.target.Policy)
		setCause(policy, r.target.Cause)
	}
	r.restored = append(r.restored, policy)
	if set(); equality.Semantic.DeepEqual(&before.Spec, &policy.Spec) {
		r.say("schedulingpolicy/%s already has the spec of %s", policy.Name, revisionText(r.target))
		return r.awaitProgrammed(ctx, policy)
	}
	if err := r.update(ctx, policy, set); err != nil {
		return err
	}
	if err := r.showPolicy(before, policy); err != nil {
		return err
	}
	r.say("schedulingpolicy/%s rolled back to %s", policy.Name, revisionText(r.target))
	others, err := r.builtOn(ctx, policy.Name, "")
	if err != nil {
		return err
	}
	if len(others) > 0 {
		r.say("this also changes the profiles that build on it: %s", strings.Join(others, ", "))
	}
	return r.awaitProgrammed(ctx, policy)
}

// setPolicy sets the spec of a policy to the spec of a revision, except for the history limit.
func setPolicy(policy *v1alpha1.SchedulingPolicy, to *history.Policy) {
	limit := policy.Spec.RevisionHistoryLimit
	policy.Spec = *to.Spec.DeepCopy()
	policy.Spec.RevisionHistoryLimit = limit
}

// setCause sets the annotation with the reason of the change to the reason in a revision.
func setCause(object client.Object, cause string) {
	annotations := maps.Clone(object.GetAnnotations())
	switch {
	case cause == "":
		delete(annotations, history.AnnotationChangeCause)
	case annotations == nil:
		annotations = map[string]string{history.AnnotationChangeCause: cause}
	default:
		annotations[history.AnnotationChangeCause] = cause
	}
	object.SetAnnotations(annotations)
}

// say prints what was done or, in a dry run, would be done. With -o, the objects are printed
// instead.
func (r *rollback) say(format string, args ...any) {
	suffix := ""
	switch {
	case r.output != "":
		return
	case r.dryRun == dryRunClient:
		suffix = " (dry run)"
	case r.dryRun == dryRunServer:
		suffix = " (server dry run)"
	}
	_, _ = fmt.Fprintf(r.Out, format+suffix+"\n", args...)
}

// update stores an object that was read before, with the spec that set gives it. It fails if the
// spec has changed since. Other changes, such as changes of the status by livesched, do not
// matter: then it retries.
func (r *rollback) update(ctx context.Context, object client.Object, set func()) error {
	uid, generation := object.GetUID(), object.GetGeneration()
	for {
		set()
		if r.dryRun == dryRunClient {
			return nil
		}
		err := r.client.Update(ctx, object)
		if !apierrors.IsConflict(err) {
			return err
		}
		key := client.ObjectKeyFromObject(object)
		reflect.ValueOf(object).Elem().SetZero() // fields that are absent now would stay
		if err := r.client.Get(ctx, key, object); err != nil {
			return err
		}
		if object.GetUID() != uid || object.GetGeneration() != generation {
			return fmt.Errorf("the spec of %q has changed in the meantime: check the change and try again",
				object.GetName())
		}
	}
}

// create stores a new object.
func (r *rollback) create(ctx context.Context, object client.Object) error {
	if r.dryRun == dryRunClient {
		return nil
	}
	return r.client.Create(ctx, object)
}

// afterRollback describes the side that a dry run would bring about.
const afterRollback = "after the rollback"

// showsDifferences returns whether the command prints what would change.
func (r *rollback) showsDifferences() bool { return r.dryRun != dryRunNone && r.output == "" }

// present returns the side of the profile before the rollback, if it is going to be printed: the
// active revision or, if that is not stored, the applied spec.
func (r *rollback) present(ctx context.Context) (print.Side, error) {
	if !r.showsDifferences() {
		return print.Side{}, nil
	}
	if from, err := r.differ.active(ctx, r.past); err == nil {
		return from, nil
	}
	return r.differ.applied(ctx, r.past)
}

// showProfile prints in a dry run what the rollback would change for the profile, which builds on
// policy then.
func (r *rollback) showProfile(from print.Side, policy *v1alpha1.SchedulingPolicy) error {
	if !r.showsDifferences() {
		return nil
	}
	to, err := r.differ.resolve(afterRollback, r.past.profile, policy)
	if err != nil {
		return err
	}
	d := print.NewDifference(history.KindProfile, r.past.profile.Name, from, to)
	return d.Print(r.Out, r.ErrOut)
}

// showPolicy prints in a dry run what the rollback would change in a policy. It did not exist if
// before is nil.
func (r *rollback) showPolicy(before, after *v1alpha1.SchedulingPolicy) error {
	if !r.showsDifferences() {
		return nil
	}
	from := print.Side{Label: "does not exist"}
	if before != nil {
		from = policySide(fmt.Sprintf("applied (generation %d)", before.Generation), before)
	}
	d := print.NewDifference(history.KindPolicy, after.Name, from, policySide(afterRollback, after))
	return d.Print(r.Out, r.ErrOut)
}
