// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
)

// downloadTimeout limits the time for a snapshot if --request-timeout is not set.
const downloadTimeout = 90 * time.Second

type snapshotOptions struct {
	*options
	livesched remoteOptions
	file      string
	redact    bool
	decisions int
}

func newSnapshot(shared *options) *cobra.Command {
	o := &snapshotOptions{options: shared}
	command := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the state of the scheduler to a file, for a bug report or for replay",
		Long: "Write the state of the scheduler to a file: nodes, pods and the other objects that decisions depend on, profiles and policies, and the latest " +
			"decisions. `kubectl livesched replay` makes these decisions again, without the cluster.\n\n" +
			"The file has no Secrets, no ConfigMaps, and of pods neither environment variables, commands nor annotations. Unless you use --redact=false, " +
			"names, namespaces, labels, images and all other strings that are not words of Kubernetes are replaced by pseudonyms, which nobody can " +
			"turn back. Quantities, times and numbers of objects stay.\n\n" +
			"The command requires the permissions of the Role livesched-client in livesched's namespace, and the permission to get the " +
			"resource snapshots.livesched.io with the name redacted or plain, which the ClusterRole livesched-debugger includes.",
		Example: "  kubectl livesched snapshot -o bug.gz\n  kubectl livesched replay bug.gz",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVarP(&o.file, "output", "o", "livesched-snapshot.gz", "File to write; - is standard output.")
	flags.BoolVar(&o.redact, "redact", true, "Replace names, labels and other strings by pseudonyms.")
	flags.IntVar(&o.decisions, "decisions", 10000, "Largest number of decisions, the latest ones. Only the leader has them: with 0, another replica is asked if there is one.")
	o.livesched.addFlags(command)
	return command
}

func (o *snapshotOptions) run(ctx context.Context) error {
	if err := o.livesched.check(); err != nil {
		return err
	}
	if o.decisions < 0 {
		return fmt.Errorf("--decisions: must be at least 0, not %d", o.decisions)
	}
	if o.file == "-" {
		return o.download(ctx, o.Out)
	}
	size, err := writeFile(o.file, func(w io.Writer) error { return o.download(ctx, w) })
	if err != nil {
		return err
	}
	what := "redacted"
	if !o.redact {
		what = "not redacted: it has the names and labels of your cluster"
	}
	_, err = fmt.Fprintf(o.Out, "Wrote %s (%s, %s)\n", o.file, bytesOf(size), what)
	return err
}

// download writes the snapshot.
func (o *snapshotOptions) download(ctx context.Context, to io.Writer) error {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	timeout := config.Timeout
	if timeout == 0 {
		timeout = downloadTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	livesched := &remote.Livesched{
		Config: config, Namespace: o.liveschedNamespace, Lease: o.livesched.lease, URL: o.livesched.url, CAFile: o.livesched.ca,
	}
	name := "plain"
	if o.redact {
		name = "redacted"
	}
	return livesched.Download(ctx, "snapshots", name, map[string]string{"decisions": strconv.Itoa(o.decisions)}, o.decisions > 0, to)
}

// writeFile writes a file that only its owner can read. If that fails, there is no such file, or
// the one that there was before. It returns the size.
func writeFile(name string, write func(io.Writer) error) (size int64, err error) {
	temporary, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // it is there only if something failed
	err = write(temporary)
	if err == nil {
		size, err = temporary.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(temporary.Name(), name)
}

// bytesOf returns the size of a file for people.
func bytesOf(size int64) string {
	if size < 1e6 {
		return fmt.Sprintf("%.1f kB", float64(size)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(size)/1e6)
}
