// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// effect is the effect of a change on the running profile.
type effect int

const (
	kept     effect = iota // the same instance continues
	replaced               // another instance replaces it
	removed                // no instance replaces it
	shared                 // another instance takes the pod, beside it
)

// change is a change of a profile.
type change struct {
	// name completes "its profile ...".
	name   string
	effect effect
	// make makes the change, and waits until livesched has processed it.
	make func(ctx context.Context, c *cell)
}

// Plugins at their extension points: Holder is the first at PreBind, so it holds pods whose volumes
// and devices VolumeBinding and DynamicResources have assumed, but not written yet.
const holderEverywhere = `
plugins:
  multiPoint: {enabled: [{name: Holder}]}
  preBind: {enabled: [{name: Holder}]}
  bind: {enabled: [{name: Holder}, {name: DefaultBinder}], disabled: [{name: '*'}]}
`

// spec returns the spec of the cell's profile, with an addition.
func (c *cell) spec(more string) string {
	return holderEverywhere + "schedulerName: " + c.name + "\npolicyRef: {name: " + c.name + "}\n" + more
}

// other is the name of another object that claims the scheduler name of the cell.
func (c *cell) other() string { return c.name + "-other" }

// replaceBy makes another object take over the scheduler name.
func (c *cell) replaceBy(ctx context.Context, spec string) {
	create(ctx, Profile(c.other(), spec))
	ExpectCondition(ctx, c.other(), v1alpha1.ConditionAccepted, metav1.ConditionFalse,
		v1alpha1.ReasonSchedulerNameConflict)
	Expect(k8s.Delete(ctx, Profile(c.name, ""))).To(Succeed())
	ExpectProgrammed(ctx, c.other())
}

func (c *cell) deleteProfile(ctx context.Context) {
	Expect(k8s.Delete(ctx, Profile(c.name, ""))).To(Succeed())
	Eventually(func() any { return run.Scheduler.Store().Current().Get(c.name) }).WithContext(ctx).Should(BeNil())
}

var changes = []change{
	{"is changed", replaced, func(ctx context.Context, c *cell) {
		respec(ctx, c.name, c.spec("percentageOfNodesToScore: 50"))
		ExpectProgrammed(ctx, c.name)
	}},
	{"is broken: it names a plugin that does not exist", kept, func(ctx context.Context, c *cell) {
		broken := "  filter: {enabled: [{name: Nobody}]}\n"
		respec(ctx, c.name, holderEverywhere+broken+"schedulerName: "+c.name)
		ExpectCondition(ctx, c.name, v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonKeptLastGood)
	}},
	{"is broken: a plugin cannot be built", kept, func(ctx context.Context, c *cell) {
		respec(ctx, c.name, c.spec("pluginConfig: [{name: Holder, args: {fail: true}}]"))
		ExpectCondition(ctx, c.name, v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonBuildFailed)
	}},
	{"is deleted", removed, func(ctx context.Context, c *cell) { c.deleteProfile(ctx) }},
	{"is deleted and created again", replaced, func(ctx context.Context, c *cell) {
		c.deleteProfile(ctx)
		create(ctx, Profile(c.name, c.spec("")))
		ExpectProgrammed(ctx, c.name)
	}},
	{"is renamed: an object of another name takes over its scheduler name", replaced, func(ctx context.Context,
		c *cell) {
		c.replaceBy(ctx, c.spec("percentageOfNodesToScore: 50"))
	}},
	{"is renamed and otherwise the same", kept, func(ctx context.Context, c *cell) { c.replaceBy(ctx, c.spec("")) }},
	{"has its policy changed", replaced, func(ctx context.Context, c *cell) {
		Update(ctx, Policy(c.name, ""), func(p *v1alpha1.SchedulingPolicy) {
			p.Spec = Policy("", c.policy+"\nparallelism: 3").Spec
		})
		Eventually(func() int { return len(plugins.of(c.name)) }).WithContext(ctx).Should(Equal(2))
		ExpectProgrammed(ctx, c.name)
		Eventually(func() int32 { return run.Scheduler.Store().Current().Get(c.name).Config.Parallelism }).
			WithContext(ctx).Should(Equal(int32(3)))
	}},
	{"is rolled out: a canary takes the pod", shared, func(ctx context.Context, c *cell) {
		// A simulation would call Holder, too.
		respec(ctx, c.name, c.spec("percentageOfNodesToScore: 50\nrollout: {strategy: Canary, canary: {"+
			"shadowDuration: 0s, steps: [{setWeight: 100}, {pause: {}}], analysis: {placementPods: 0}}}"))
		ExpectCondition(ctx, c.name, v1alpha1.ConditionProgrammed, metav1.ConditionUnknown, v1alpha1.ReasonRollingOut)
		Eventually(func() any {
			canary, _ := run.Scheduler.Store().Current().Canary(c.name)
			return canary
		}).WithContext(ctx).ShouldNot(BeNil())
	}},
	{"has its policy deleted", kept, func(ctx context.Context, c *cell) {
		Expect(k8s.Delete(ctx, Policy(c.name, ""))).To(Succeed())
		ExpectCondition(ctx, c.name, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonPolicyNotFound)
	}},
}

// mend makes sure that the profile runs, with a new instance.
func (c *cell) mend(ctx context.Context) {
	create(ctx, Policy(c.name+"-mended", ""))
	spec := holderEverywhere + "schedulerName: " + c.name + "\npolicyRef: {name: " + c.name +
		"-mended}\npercentageOfNodesToScore: 60"
	for _, name := range []string{c.name, c.other()} {
		if p := Profile(name, ""); exists(ctx, p) {
			respec(ctx, name, spec)
			ExpectProgrammed(ctx, name)
			return
		}
	}
	create(ctx, Profile(c.name, spec))
	ExpectProgrammed(ctx, c.name)
}
