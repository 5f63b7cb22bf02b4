// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the command line of `kubectl livesched`: one file for each command.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/internal/scheduler/plugins"
)

// Exit codes.
const (
	exitOK = 0
	// exitFound is for what a command was asked to look for: errors, losses, differences.
	exitFound = 1
	// exitFailed is for a command that could not do its work.
	exitFailed = 2
)

// errFound ends a command whose output has said what was found.
var errFound = errors.New("found")

// Main is the main program. It returns the exit code.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	// The defaulting of kube-scheduler, and clients, log what is of no interest here.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return Run(ctx, args, genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut})
}

// Run runs the command line until it is done, or the context is, and returns the exit code.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	root := newRoot(streams)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFound
	default:
		_, _ = fmt.Fprintf(streams.ErrOut, "error: %v\n", err)
		return exitFailed
	}
}

// options are what all commands share.
type options struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, flags: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use:   "kubectl-livesched",
		Short: "Check, convert, inspect, compare and roll back the profiles and policies of livesched",
		Long: "Check, convert, inspect, compare and roll back the SchedulerProfiles and SchedulingPolicies of livesched.\n\n" +
			"Installed as kubectl-livesched in the PATH, it is called `kubectl livesched`. Exit codes: 0; 1 where validate finds errors, " +
			"convert --strict losses, or diff differences; 2 where a command fails.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(os.Args[0])},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	o.addClusterFlags(root)
	root.AddCommand(newValidate(o), newConvert(o), newStatus(o), newHistory(o), newRollback(o), newDiff(o), newVersion(o))
	return root
}

// displayName is how the command is called: kubectl calls plugins by the name of their file.
func displayName(program string) string {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if rest, isPlugin := strings.CutPrefix(name, "kubectl-"); isPlugin {
		return "kubectl " + rest
	}
	return name
}

// addClusterFlags adds the flags of kubectl that say which cluster is meant, without those that
// nobody needs here.
func (o *options) addClusterFlags(root *cobra.Command) {
	f := o.flags
	f.CacheDir, f.DisableCompression, f.Namespace, f.Password, f.Username, f.TLSServerName = nil, nil, nil, nil, nil, nil
	f.AuthInfoName, f.BearerToken, f.CertFile, f.KeyFile, f.ClusterName = nil, nil, nil, nil, nil
	f.AddFlags(root.PersistentFlags())
}

// registered are the names of the plugins that livesched has: those of this binary, and others that
// the caller knows of.
func registered(others []string) (sets.Set[string], error) {
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		return nil, err
	}
	return sets.KeySet(registry).Insert(others...), nil
}

// addPluginsFlag adds --plugins.
func addPluginsFlag(command *cobra.Command, target *[]string) {
	command.Flags().StringSliceVar(target, "plugins", nil, "Names of out-of-tree plugins that are compiled into your livesched, beside those that it always has.")
}

// addFilesFlags adds -f and -R, as kubectl has them.
func addFilesFlags(command *cobra.Command, files *[]string, recursive *bool, what string) {
	command.Flags().StringSliceVarP(files, "filename", "f", nil, "File or directory with "+what+"; - is standard input. Can be repeated.")
	command.Flags().BoolVarP(recursive, "recursive", "R", false, "Read the directories in directories, too.")
	_ = command.MarkFlagRequired("filename") // fails for a flag that does not exist
}
