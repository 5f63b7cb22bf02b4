// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
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
	toRevision int64
	dryRun     string
	policy     string
	wait       bool
	timeout    time.Duration
}

func newRollback(shared *options) *cobra.Command {
	o := &rollbackOptions{options: shared}
	command := &cobra.Command{
		Use:   "rollback (profile|policy) NAME",
		Short: "Restore an earlier revision of a profile or policy",
		Long: "Apply the spec of a revision again, by default that of the revision before the active one. If the spec changes while the command runs, the " +
			"command fails.\n\n" +
			"A revision of a profile includes the policy that it was built on. If that policy has changed since, --policy=restore restores it " +
			"as well, and --policy=keep builds the profile on the current policy. Without --policy, the command restores the policy if no other " +
			"profile builds on it, and otherwise changes nothing.",
		Example: "  kubectl livesched rollback profile binpack --wait\n\n  # Show what would change\n  kubectl livesched rollback profile binpack --to-revision 3 --dry-run=server",
		Args:    cobra.RangeArgs(1, 2),
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	flags := command.Flags()
	flags.Int64Var(&o.toRevision, "to-revision", 0, "The revision to restore. 0 is the revision before the active one.")
	flags.StringVar(&o.dryRun, "dry-run", dryRunNone, "One of none, client (only print what would be done) and server (send the request, but do not store the result).")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.StringVar(&o.policy, "policy", "", "What to do if the policy has changed since the revision: restore or keep.")
	flags.BoolVar(&o.wait, "wait", false, "Wait until the spec is programmed.")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "How long to wait with --wait.")
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
	r := &rollback{rollbackOptions: o, client: c, past: p, target: target}
	return r.run(ctx)
}

func (o *rollbackOptions) target(p *past) (*history.Revision, error) {
	if o.toRevision != 0 {
		return p.numbered(o.toRevision)
	}
	return p.before()
}

// rollback is one rollback.
type rollback struct {
	*rollbackOptions
	client client.Client
	past   *past
	target *history.Revision
}

func (r *rollback) run(ctx context.Context) error {
	if r.past.policy != nil {
		return r.policyAlone(ctx)
	}
	// The policy comes first: the profile may need it to be accepted.
	if err := r.policyOfProfile(ctx); err != nil {
		return err
	}
	profile := r.past.profile
	before := profile.Spec.DeepCopy()
	set := func() {
		limit := profile.Spec.RevisionHistoryLimit // it is not part of a revision
		profile.Spec = *r.target.Profile.DeepCopy()
		profile.Spec.RevisionHistoryLimit = limit
	}
	if set(); equality.Semantic.DeepEqual(before, &profile.Spec) {
		r.say("schedulerprofile/%s already has the spec of revision %d", profile.Name, r.target.Number)
		return r.awaitProgrammed(ctx, profile)
	}
	if err := r.update(ctx, profile, set); err != nil {
		return err
	}
	r.say("schedulerprofile/%s rolled back to revision %d", profile.Name, r.target.Number)
	return r.awaitProgrammed(ctx, profile)
}

// policyAlone restores a revision of a policy.
func (r *rollback) policyAlone(ctx context.Context) error {
	policy := r.past.policy
	before := policy.Spec.DeepCopy()
	set := func() { setPolicy(policy, r.target.Policy) }
	if set(); equality.Semantic.DeepEqual(before, &policy.Spec) {
		r.say("schedulingpolicy/%s already has the spec of revision %d", policy.Name, r.target.Number)
		return r.awaitProgrammed(ctx, policy)
	}
	if err := r.update(ctx, policy, set); err != nil {
		return err
	}
	r.say("schedulingpolicy/%s rolled back to revision %d", policy.Name, r.target.Number)
	others, err := r.builtOn(ctx, policy.Name, "")
	if err != nil {
		return err
	}
	if len(others) > 0 {
		r.say("this also changes the profiles that build on it: %s", strings.Join(others, ", "))
	}
	return r.awaitProgrammed(ctx, policy)
}

// setPolicy sets the spec of a policy to that of a revision, except for the history limit.
func setPolicy(policy *v1alpha1.SchedulingPolicy, to *history.Policy) {
	limit := policy.Spec.RevisionHistoryLimit
	policy.Spec = *to.Spec.DeepCopy()
	policy.Spec.RevisionHistoryLimit = limit
}

// say prints what was done or, in a dry run, would be done.
func (r *rollback) say(format string, args ...any) {
	suffix := ""
	switch r.dryRun {
	case dryRunClient:
		suffix = " (dry run)"
	case dryRunServer:
		suffix = " (server dry run)"
	}
	_, _ = fmt.Fprintf(r.Out, format+suffix+"\n", args...)
}
