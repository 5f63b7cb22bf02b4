// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"flag"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// addVerbosityFlag adds kubectl's -v.
func (o *options) addVerbosityFlag(root *cobra.Command) {
	root.PersistentFlags().IntVarP(&o.verbosity, "v", "v", 0,
		"Log level. With 0, nothing is logged; 6 logs each request to the API server, and 8 also their contents.")
}

// startLogging logs to standard error if the user asks for it with -v.
func (o *options) startLogging() error {
	if o.verbosity <= 0 {
		return nil
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(o.verbosity)); err != nil {
		return err
	}
	klog.ClearLogger()
	klog.SetOutput(o.ErrOut)
	return flags.Set("logtostderr", "false") // to the output above
}
