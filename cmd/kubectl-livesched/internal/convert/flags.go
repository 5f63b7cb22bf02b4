// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
)

// flag is the flag of livesched that corresponds to a field of a KubeSchedulerConfiguration.
type flag struct {
	field, name string
	// unset is the flag's default, as a value of the field.
	unset any
}

// The fields that configure the process, not profiles.
var (
	processFlags = []flag{
		{"enableProfiling", "--profiling", false},
		{"enableContentionProfiling", "--contention-profiling", false},
		{"metricsBindAddress", "--metrics-bind-address", "0"},
		{"healthzBindAddress", "--health-probe-bind-address", ":8081"},
	}
	leaderElectionFlags = []flag{
		{"leaderElect", "--leader-elect", true},
		{"leaseDuration", "--leader-elect-lease-duration", "15s"},
		{"renewDeadline", "--leader-elect-renew-deadline", "10s"},
		{"retryPeriod", "--leader-elect-retry-period", "2s"},
	}
	clientConnectionFlags = []flag{
		{"qps", "--kube-api-qps", int64(1000)},
		{"burst", "--kube-api-burst", int64(2000)},
	}
)

// flags adds remarks on the fields that flags of livesched replace, if anything does.
func (c *converter) flags(f *fields) {
	c.remarkFlags(f, processFlags)
	if value, _ := f.take("delayCacheUntilActive"); value != nil {
		c.remark(lossUnless(value == false), f.at("delayCacheUntilActive"),
			"all replicas of livesched always keep their caches up to date, to take over at once")
	}
	if election := f.object("leaderElection"); election != nil {
		c.remarkFlags(election, leaderElectionFlags)
		for _, name := range []string{"resourceName", "resourceNamespace"} {
			if value, _ := election.take(name); value != nil {
				c.remark(Note, election.at(name), "livesched uses the Lease %q in its own namespace; set "+
					"--leader-election-name and --leader-election-namespace to change that", "livesched")
			}
		}
		if value, _ := election.take("resourceLock"); value != nil {
			c.remark(Note, election.at("resourceLock"), "livesched always uses a Lease")
		}
		election.unknown()
	}
	if connection := f.object("clientConnection"); connection != nil {
		c.remarkFlags(connection, clientConnectionFlags)
		if value := connection.text("kubeconfig"); value != "" {
			c.remark(Note, connection.at("kubeconfig"),
				"livesched uses its service account in a cluster; outside of a cluster, start it with --kubeconfig=%s",
				value)
		}
		for _, name := range []string{"contentType", "acceptContentTypes"} {
			if value, _ := connection.take(name); value != nil {
				c.remark(Note, connection.at(name), "livesched selects the encoding of its requests itself")
			}
		}
		connection.unknown()
	}
}

func (c *converter) remarkFlags(f *fields, flags []flag) {
	for _, flag := range flags {
		value, _ := f.take(flag.field)
		if value == nil {
			continue
		}
		path := f.at(flag.field)
		if value == flag.unset || fmt.Sprint(value) == fmt.Sprint(flag.unset) {
			c.remark(Note, path, "a setting of the process: livesched has the same default, %s=%v", flag.name, value)
			continue
		}
		c.remark(Loss, path, "a setting of the process: start livesched with %s=%s (default %v)", flag.name,
			shown(value), flag.unset)
	}
}

// lossUnless returns Note if the value is the only one that livesched supports, and Loss otherwise.
func lossUnless(same bool) Severity {
	if same {
		return Note
	}
	return Loss
}
