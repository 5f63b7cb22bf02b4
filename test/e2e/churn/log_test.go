// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// known are the errors that a run is expected to log, each with the reason. A pattern is matched
// with "message | error | key=value ...".
var known = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`churn: spoilt`), "an injected fault, reported by the component that met it"},
	{regexp.MustCompile(`churn: the plugin`), "a plugin of the test that fails or panics on purpose"},
	{regexp.MustCompile(`^The PostFilter plugins failed \| not found `),
		"kube-scheduler's DynamicResources plugin has no state after another plugin has rejected the pod as " +
			"unresolvable"},
	{regexp.MustCompile(`^The PostFilter plugins failed \| preemption: expected at least one victim pod`),
		"a volume or a device became available after the node was filtered, so that the pod fits without victims"},
	{regexp.MustCompile(`^(Could not get the updated preemptor pod object|The PostFilter plugins failed) \| .*pod ` +
		`"[^"]*" not found`), "the pod was deleted in its cycle"},
	{regexp.MustCompile(`^(Failed waiting on permit for pod|Scheduling the pod failed; retrying) \| waiting on ` +
		`permit for pod: preempted`),
		"a pod that waited on Permit was preempted, which kube-scheduler reports as an error, too"},
	{regexp.MustCompile(`^(Plugin failed|Scheduling the pod failed; retrying) \| (running PreBind plugin ` +
		`"[A-Za-z]+": (binding volumes: )?)?preempted by `),
		"a pod before or in PreBind was preempted, which kube-scheduler reports as an error, too"},
	{regexp.MustCompile(`^Forgetting an assumed pod failed \| pod is not assumed on this node`),
		"another client has bound the pod"},
	{regexp.MustCompile(`^(Plugin failed|Scheduling the pod failed; retrying) \| running Bind plugin ` +
		`"DefaultBinder": .*(not found|is being deleted|is already assigned|object has been modified|Precondition ` +
		`failed)`),
		"the pod is gone or another client has bound it, and the response to the read was lost"},
	{regexp.MustCompile(`^(Plugin failed|Scheduling the pod failed; retrying) \| running PreBind plugin ` +
		`"VolumeBinding": .*(node affinity doesn't match|didn't match PersistentVolume's node affinity|not found|` +
		`object has been modified|Precondition failed|provisioning failed|annotation reset|ClaimRef got reset)`),
		"the pod, its claim, its volume or its node changed or went while the pod waited for the volume"},
	{regexp.MustCompile(`^(Plugin failed|Scheduling the pod failed; retrying) \| running PreBind plugin ` +
		`"DynamicResources": .*(got deleted in the meantime|not found|object has been modified|Precondition failed)`),
		"the claim changed or went while the pod was bound"},
	{regexp.MustCompile(`^(Plugin failed|Scheduling the pod failed; retrying) \| running Reserve plugin ` +
		`"VolumeBinding": "[^"]+" is out of sync`),
		"the claim or its volume changed in the cycle of the pod, which kube-scheduler reports as an error, too"},
	{regexp.MustCompile(`^Scheduling the pod failed; retrying \| pod is in the scheduler cache already`),
		"the pod was bound without a report, and is popped before the handler that has it in the cache removes it " +
			"from the queue"},
	{regexp.MustCompile(`^Writing the nominated node failed \| .*(already bound to a node|not found|metadata.uid)`),
		"another client has bound the pod, or it is gone"},
	{regexp.MustCompile(`^Evaluation failed on nominated node \| nodeinfo not found`),
		"the nominated node is gone; the pod is tried on all others"},
	{regexp.MustCompile(`^(Writing a status failed; trying again|Storing a revision failed; a restart might lose ` +
		`it|Deleting a ControllerRevision beyond the limit failed) \| .*context deadline exceeded`),
		"an injected fault: the call hung until its deadline"},
	{regexp.MustCompile(`^(Plugin failed|Scheduling the pod failed; retrying) \| .*claim \S+ got ` +
		`(allocated|deallocated) elsewhere in the meantime`),
		"the churn frees the device of a claim, or the last leader has allocated one, while a pod of that claim is " +
			"being bound"},
	{regexp.MustCompile(`^unreserve \| resourceclaims\.resource\.k8s\.io \S+ not found`),
		"the claim of a pod that could not be bound is gone"},
	{regexp.MustCompile(`^error received after stop sequence was engaged \| the profiles did not close in time`),
		"calls hang while a replica is stopped"},
	{regexp.MustCompile(`^Unexpected error when reading response body \| (context deadline exceeded|net/http: ` +
		`request canceled)`), "a busy machine"},
	{regexp.MustCompile(`^failed to get informer from cache \| Timeout`),
		"a replica is stopped or cut off while it starts"},
	{regexp.MustCompile(`leader election lost|lease|Lease`),
		"replicas are stopped and cut off, and compete for the lease"},
	{regexp.MustCompile(`context canceled`), "a replica is being stopped"},
}

// complaints collects the logged errors that are not known.
type complaints struct {
	mu      sync.Mutex // guards what follows
	unknown []string
	seen    map[string]int
}

// list returns the unknown errors, each once with the number of times it was logged.
func (c *complaints) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, line := range c.unknown {
		lines = append(lines, fmt.Sprintf("%dx %s", c.seen[line], line))
	}
	return lines
}

func (c *complaints) note(line string) {
	for _, k := range known {
		if k.pattern.MatchString(line) {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	if c.seen[line]++; c.seen[line] == 1 && len(c.unknown) < 100 {
		c.unknown = append(c.unknown, line)
	}
}

// attentive is a log sink that passes errors to complaints.
type attentive struct {
	logr.LogSink
	complaints *complaints
	values     []any
}

func (a attentive) Error(err error, msg string, keysAndValues ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s | %v |", msg, err)
	all := append(append([]any{}, a.values...), keysAndValues...)
	for i := 0; i+1 < len(all); i += 2 {
		fmt.Fprintf(&b, " %v=%v", all[i], all[i+1])
	}
	a.complaints.note(b.String())
	a.LogSink.Error(err, msg, keysAndValues...)
}

func (a attentive) WithValues(keysAndValues ...any) logr.LogSink {
	return attentive{a.LogSink.WithValues(keysAndValues...), a.complaints,
		append(append([]any{}, a.values...), keysAndValues...)}
}

func (a attentive) WithName(name string) logr.LogSink {
	return attentive{a.LogSink.WithName(name), a.complaints, a.values}
}
