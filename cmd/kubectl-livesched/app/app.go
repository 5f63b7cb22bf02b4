// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app implements the command line of `kubectl livesched`, with one file for each command.
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
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
	"github.com/livesched/livesched/internal/scheduler/capture"
)

// Exit codes.
const (
	exitOK = 0
	// exitFound means that a command has findings: errors, losses or differences.
	exitFound = 1
	// exitFailed means that a command failed.
	exitFailed = 2
)

// errFound ends a command with exitFound. The output of the command reports the findings.
var errFound = errors.New("found")

// OpenReplay opens a snapshot. The caller must call Close.
type OpenReplay func(context.Context, *capture.Snapshot) (Replay, error)

// Main runs the command line until it is done or interrupted, and returns the exit code. If replay
// is nil, the command replay runs another program.
func Main(args []string, in io.Reader, out, errOut io.Writer, replay OpenReplay) int {
	// kube-scheduler's defaulting and the clients log messages that do not help users.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return Run(ctx, args, genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut}, replay)
}

// Run runs the command line until it or the context is done, and returns the exit code.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, replay OpenReplay) int {
	root := newRoot(&options{IOStreams: streams, args: args, openReplay: replay})
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	err = remote.WithRole(usageError(command, err))
	var exit exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFound
	case errors.As(err, &exit):
		return int(exit)
	default:
		_, _ = fmt.Fprintf(streams.ErrOut, "error: %v\n", err)
		return exitFailed
	}
}

// options holds what all commands share.
type options struct {
	genericiooptions.IOStreams
	args       []string   // the command line
	openReplay OpenReplay // nil: another program has it
	flags      *genericclioptions.ConfigFlags
	// liveschedNamespace is the namespace that livesched runs in.
	liveschedNamespace string
	color              string
	verbosity          int
}

func newRoot(o *options) *cobra.Command {
	o.flags = genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{
		Use: "kubectl-livesched",
		Short: "Explain why pods are pending; simulate, check, convert, inspect, compare and roll back profiles and " +
			"policies",
		Long: "Explain why pods are pending. Simulate, check, convert, inspect, compare and roll back the " +
			"SchedulerProfiles and SchedulingPolicies of livesched.\n\n" +
			"If kubectl-livesched is in your PATH, run it as `kubectl livesched`.\n\n" +
			"Exit codes: 0 for success; 1 if validate finds errors, convert writes objects that livesched would not " +
			"accept (with --strict: " +
			"or loses settings), diff or replay finds differences, a check of doctor fails, or simulate or replay " +
			"finds what --fail-on names; 2 if a command fails, or doctor could not make all checks.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(os.Args[0])},
	}
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	o.addClusterFlags(root)
	root.PersistentFlags().StringVar(&o.liveschedNamespace, "livesched-namespace", convert.DefaultNamespace,
		"Namespace that livesched runs in, with its Lease, its revisions and the Secrets of its extenders.")
	o.addColorFlag(root)
	o.addVerbosityFlag(root)
	root.PersistentPreRunE = func(command *cobra.Command, _ []string) error {
		return errors.Join(o.startLogging(), o.openTerminal(command), checkRemote(command))
	}
	groups := o.groups()
	groups.Add(root)
	root.AddCommand(newVersion(o))
	addNoHeadersFlag(root)
	o.addCompletions(root)
	addHelp(root, groups)
	return root
}

// displayName returns the name that users run the command by. kubectl derives the names of its
// plugins from their files.
func displayName(program string) string {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if rest, isPlugin := strings.CutPrefix(name, "kubectl-"); isPlugin {
		return "kubectl " + rest
	}
	return name
}

// addClusterFlags adds the flags of kubectl that select the cluster and the user. Commands have
// their own flags for the namespace.
func (o *options) addClusterFlags(root *cobra.Command) {
	o.flags.Namespace = nil
	o.flags.AddFlags(root.PersistentFlags())
}

// addFormerNamespaceFlag accepts -n for --livesched-namespace, as it once was, on a command without
// objects in a namespace. On others, -n is the namespace of the objects.
func (o *options) addFormerNamespaceFlag(command *cobra.Command) {
	command.Flags().StringVarP(&o.liveschedNamespace, "namespace", "n", convert.DefaultNamespace, "")
	_ = command.Flags().MarkHidden("namespace") // fails only if the flag does not exist
}

// addPluginsFlag adds --plugins.
func addPluginsFlag(command *cobra.Command, target *[]string) {
	command.Flags().StringSliceVar(target, "plugins", nil,
		"Names of the out-of-tree plugins that your livesched is built with, in addition to the built-in ones.")
}
