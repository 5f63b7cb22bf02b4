// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

// fileOptions are kubectl's flags -f and -R.
type fileOptions struct {
	files     []string
	recursive bool
}

// addFileFlags adds the flags. The argument what describes the contents of the files.
func (o *fileOptions) addFileFlags(command *cobra.Command, what string) {
	command.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "File or directory with "+what+
		"; - is standard input. The flag can be repeated.")
	command.Flags().BoolVarP(&o.recursive, "recursive", "R", false, "Also read subdirectories.")
}

func (o *fileOptions) readFiles(in io.Reader) ([]manifests.Document, error) {
	return manifests.Read(o.files, o.recursive, in)
}
