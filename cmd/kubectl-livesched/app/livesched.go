// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
)

// The limits of the time for an answer of livesched if --request-timeout is not set.
const (
	answerTimeout = 30 * time.Second
	doctorTimeout = 10 * time.Second
	// queuesTimeout is short, since the rest of the output does not depend on the numbers of pods.
	queuesTimeout = 5 * time.Second
	// simulationTimeout is longer than the 30 seconds after which livesched ends a simulation,
	// because the plugin may have to try several replicas.
	simulationTimeout = time.Minute
	downloadTimeout   = 90 * time.Second
)

// remoteOptions are the flags that select a livesched.
type remoteOptions struct {
	lease, url, ca string
}

func (o *remoteOptions) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&o.lease, "lease", "livesched",
		"Name of livesched's Lease: the value of its flag --leader-election-name.")
	command.Flags().StringVar(&o.url, "livesched-url", os.Getenv("LIVESCHED_URL"),
		"URL of livesched's secure port, such as https://livesched.example:10259, instead of a forwarded port. "+
			"Default: the environment variable LIVESCHED_URL.")
	command.Flags().StringVar(&o.ca, "livesched-ca", os.Getenv("LIVESCHED_CA"),
		"File with the certificate authorities that verify --livesched-url. Default: the environment variable "+
			"LIVESCHED_CA, or the authorities of the system.")
}

// checkRemote returns an error if the flags of remoteOptions contradict each other.
func checkRemote(command *cobra.Command) error {
	ca, url := command.Flags().Lookup("livesched-ca"), command.Flags().Lookup("livesched-url")
	if ca != nil && ca.Value.String() != "" && url.Value.String() == "" {
		return errors.New("--livesched-ca (LIVESCHED_CA): has no effect without --livesched-url (LIVESCHED_URL)")
	}
	return nil
}

// remote returns the livesched that the flags select. An answer may take as long as
// --request-timeout or, without that, the timeout.
func (o *options) remote(at *remoteOptions, timeout time.Duration) (*remote.Livesched, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return &remote.Livesched{
		Config: config, Namespace: o.liveschedNamespace, Lease: at.lease, URL: at.url, CAFile: at.ca,
		Timeout: cmp.Or(config.Timeout, timeout),
	}, nil
}
