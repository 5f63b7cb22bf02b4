// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor finds what is wrong with an installation of livesched: each check reads objects of
// the cluster, and reports what it found and what to do. It changes nothing.
//
//	definitions.go   the custom resource definitions, and the version of the API server
//	rights.go        the permissions of livesched's ServiceAccount
//	process.go       replicas, their versions, and the leader
//	answers.go       what a running livesched answers on its secure port
//	webhook.go       the webhook, if it is installed
//	schedulers.go    other schedulers of the same pods
//	profiles.go      profiles and policies that are not active
package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
)

// State is the outcome of a check.
type State string

// The states, from good to bad. Unknown means that the user may not read what the check needs.
const (
	OK      State = "ok"
	Unknown State = "unknown"
	Warning State = "warning"
	Failed  State = "failed"
)

// Finding is one outcome of a check. A check has at least one.
type Finding struct {
	Check   string `json:"check"`
	State   State  `json:"state"`
	Message string `json:"message"`
	// Advice is what to do, "" if there is nothing to do.
	Advice string `json:"advice,omitempty"`
}

// Installation is what to examine.
type Installation struct {
	Client client.Client
	// Server returns the version of the API server.
	Server func() (*version.Info, error)
	// Namespace is the namespace of livesched, Lease the name of its Lease, and ServiceAccount that
	// of its ServiceAccount.
	Namespace, Lease, ServiceAccount string
	// User is the user that livesched authenticates as, "" if it is the ServiceAccount.
	User string
	// Livesched asks livesched.
	Livesched *remote.Livesched
	// Now is the present time.
	Now time.Time
}

// examination is the state of one examination. One goroutine uses it.
type examination struct {
	Installation
	findings []Finding
	check    string // the name of the current check
}

// Examine makes all checks.
func Examine(ctx context.Context, in Installation) []Finding {
	e := &examination{Installation: in}
	for _, check := range []struct {
		name string
		run  func(context.Context)
	}{
		{"definitions", e.definitions},
		{"API server", e.server},
		{"rights", e.rights},
		{"replicas", e.replicas},
		{"leader", e.leader},
		{"secure port", e.answers},
		{"webhook", e.webhook},
		{"other schedulers", e.schedulers},
		{"profiles", e.profiles},
	} {
		e.check = check.name
		before := len(e.findings)
		check.run(ctx)
		if len(e.findings) == before {
			e.add(OK, "", "nothing found")
		}
	}
	return e.findings
}

// add reports a finding, unless it has been reported.
func (e *examination) add(state State, advice, format string, args ...any) {
	finding := Finding{Check: e.check, State: state, Message: fmt.Sprintf(format, args...), Advice: advice}
	if !slices.Contains(e.findings, finding) {
		e.findings = append(e.findings, finding)
	}
}

// The advice for users who may not read something.
const (
	askForPermission = "ask for the permission, or run this as a user who has it"
	viewerPermits    = "the ClusterRole livesched-viewer permits it, with a ClusterRoleBinding"
)

// clientPermits is the advice for users who may not read what the Role livesched-client permits.
func (e *examination) clientPermits() string {
	return fmt.Sprintf("the Role livesched-client in %s permits it", e.Namespace)
}

// unreadable reports that something could not be read, with the advice for users who may not read
// it.
func (e *examination) unreadable(advice, what string, err error) {
	if apierrors.IsForbidden(err) {
		e.add(Unknown, advice, "you may not read %s", what)
		return
	}
	e.add(Unknown, "", "%s could not be read: %v", what, err)
}

// Unmade returns the names of the checks that could not be made, at least in part, and the number
// of all checks.
func Unmade(findings []Finding) (unmade []string, all int) {
	last := ""
	for _, finding := range findings {
		if finding.Check != last {
			last = finding.Check
			all++
		}
		if finding.State == Unknown && !slices.Contains(unmade, finding.Check) {
			unmade = append(unmade, finding.Check)
		}
	}
	return unmade, all
}
