// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/words"
)

// The names of snapshots.
const (
	redactedSnapshot = "redacted"
	plainSnapshot    = "plain"
)

type snapshotOptions struct {
	*options
	livesched  remoteOptions
	file       string
	former     string // the former flag for the file
	force      bool
	redact     bool
	pseudonyms string
	decisions  int
}

func newSnapshot(shared *options) *cobra.Command {
	o := &snapshotOptions{options: shared}
	command := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the state of the scheduler to a file, for a bug report or for replay",
		Long: "Write the state of the scheduler to a file: nodes, pods and the other objects that decisions depend " +
			"on, profiles and policies, and the latest " +
			"decisions. `kubectl livesched replay` makes these decisions again, without the cluster.\n\n" +
			"The file has no Secrets, no ConfigMaps, and of pods neither environment variables, commands nor " +
			"annotations. Unless you use --redact=false, " +
			"names, namespaces, labels, images and all other strings that are not words of Kubernetes are replaced " +
			"by pseudonyms, which cannot be " +
			"reversed. Quantities, times and numbers of objects stay. With --pseudonyms, the names are replaced on " +
			"your machine, and a second file, " +
			"which you keep, has what each pseudonym stands for.\n\n" +
			"The command requires the permissions of the Role livesched-client in livesched's namespace, and the " +
			"permission to get the " +
			"resource snapshots.livesched.io with the name redacted or, for --redact=false and --pseudonyms, plain. " +
			"The ClusterRole livesched-debugger " +
			"includes both.",
		Example: "  kubectl livesched snapshot --file bug.gz\n  kubectl livesched replay bug.gz\n\n" +
			"  # With a file for yourself that has the names of the pods\n  kubectl livesched snapshot --file bug.gz " +
			"--pseudonyms names.tsv",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&o.file, "file", "livesched-snapshot.gz", "File to write; - is standard output.")
	flags.StringVarP(&o.former, "output", "o", "", "The former name of --file.")
	_ = flags.MarkHidden("output") // fails only if the flag does not exist
	flags.BoolVar(&o.force, "force", false, "Replace files that exist.")
	flags.BoolVar(&o.redact, "redact", true, "Replace names, labels and other strings by pseudonyms.")
	flags.StringVar(&o.pseudonyms, "pseudonyms", "",
		"Second file to write, with each pseudonym and what it stands for. It is not for others.")
	flags.IntVar(&o.decisions, "decisions", 10000, "Largest number of decisions, the latest ones. Only the leader "+
		"has them: with 0, another replica is asked if there is one.")
	o.livesched.addFlags(command)
	return command
}

// formatLike matches the output formats of other commands.
var formatLike = regexp.MustCompile(
	`^(json|yaml|wide|name|(jsonpath|jsonpath-as-json|go-template|template|custom-columns)(-file)?(=.*)?)$`)

// validate checks the flags. It takes the file from the former flag.
func (o *snapshotOptions) validate() error {
	switch {
	case formatLike.MatchString(o.former):
		return fmt.Errorf("--output: a snapshot has one format, and %s is not a file: name the file with --file",
			o.former)
	case o.decisions < 0:
		return fmt.Errorf("--decisions: must be at least 0, not %d", o.decisions)
	case o.pseudonyms != "" && !o.redact:
		return errors.New("--pseudonyms: a snapshot that is not redacted has no pseudonyms: leave out --redact=false")
	case o.former != "":
		// cobra would print it to standard output
		_, _ = fmt.Fprintln(o.ErrOut, "-o and --output for the file are deprecated: use --file")
		o.file = o.former
	}
	if o.pseudonyms == "-" || o.pseudonyms != "" && o.pseudonyms == o.file {
		return fmt.Errorf("--pseudonyms: must be another file, not %s", o.pseudonyms)
	}
	for _, name := range []string{o.file, o.pseudonyms} {
		if _, err := os.Lstat(name); err == nil && name != "-" && !o.force {
			return fmt.Errorf("the file %s exists: use --force to replace it, or name another one", name)
		}
	}
	return nil
}

func (o *snapshotOptions) run(ctx context.Context) error {
	var names map[string]string
	write := func(w io.Writer) (err error) {
		switch {
		case o.pseudonyms != "":
			names, err = o.redactHere(ctx, w)
		case o.redact:
			err = o.download(ctx, redactedSnapshot, w)
		default:
			err = o.download(ctx, plainSnapshot, w)
		}
		return err
	}
	report := o.ErrOut
	if o.file == "-" {
		if err := write(o.Out); err != nil {
			return err
		}
	} else {
		report = o.Out
		size, err := writeFile(o.file, write)
		if err != nil {
			return err
		}
		what := "redacted"
		if !o.redact {
			what = "not redacted: it has the names and labels of your cluster"
		}
		_, _ = fmt.Fprintf(report, "Wrote %s (%s, %s)\n", o.file, bytesOf(size), what)
	}
	if o.pseudonyms == "" {
		return nil
	}
	if _, err := writeFile(o.pseudonyms, func(w io.Writer) error { return writeNames(w, names) }); err != nil {
		return err
	}
	_, err := fmt.Fprintf(report, "Wrote %s (%s, for you alone)\n", o.pseudonyms, words.Many(len(names), "pseudonym"))
	return err
}

// redactHere downloads a plain snapshot and writes it with pseudonyms. It returns what they stand
// for.
func (o *snapshotOptions) redactHere(ctx context.Context, w io.Writer) (map[string]string, error) {
	from, to := io.Pipe()
	downloaded := make(chan error, 1)
	go func() {
		err := o.download(ctx, plainSnapshot, to)
		downloaded <- err
		to.CloseWithError(err)
	}()
	snapshot, err := capture.Read(from, capture.DefaultLimits)
	from.CloseWithError(err) // ends the download if the snapshot cannot be read
	if failed := <-downloaded; failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot of livesched: %w", err)
	}
	return capture.Redact(ctx, w, snapshot)
}

// download writes the snapshot with a name.
func (o *snapshotOptions) download(ctx context.Context, name string, to io.Writer) error {
	livesched, err := o.remote(&o.livesched, downloadTimeout)
	if err != nil {
		return err
	}
	return livesched.Download(ctx, "snapshots", name, map[string]string{"decisions": strconv.Itoa(o.decisions)},
		o.decisions > 0, to)
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

// writeNames writes the file of --pseudonyms: a pseudonym, a tab and what it stands for on each
// line, ordered by that.
func writeNames(w io.Writer, names map[string]string) error {
	pseudonyms := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[a], names[b]), cmp.Compare(a, b))
	})
	out := bufio.NewWriter(w)
	for _, pseudonym := range pseudonyms {
		_, _ = fmt.Fprintf(out, "%s\t%s\n", pseudonym, names[pseudonym]) // Flush has the error
	}
	return out.Flush()
}

// readNames reads the file of --pseudonyms.
func readNames(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--pseudonyms: %w", err)
	}
	names := map[string]string{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		pseudonym, stands, found := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		if !found {
			return nil, fmt.Errorf("--pseudonyms: %s:%d: must be a pseudonym, a tab and a name: is this the file "+
				"that snapshot --pseudonyms wrote?", name, number)
		}
		names[pseudonym] = stands
	}
	return names, nil
}
