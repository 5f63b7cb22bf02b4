// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"flag"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// maxVerbosity is the highest level of messages that zap can express.
const maxVerbosity = 127

// logging configures the log. Everything in the process writes to the same logger: livesched,
// controller-runtime, klog with Kubernetes' libraries, slog and log.
type logging struct{ zap ctrlzap.Options }

// addFlags adds controller-runtime's flags --zap-*, and kube-scheduler's -v and --logging-format,
// which set two of them. Of two flags that set the same, the last one counts.
func (l *logging) addFlags(fs *pflag.FlagSet) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	l.zap.BindFlags(flags)
	fs.AddGoFlagSet(flags)
	fs.VarP(&alias{of: flags.Lookup("zap-log-level"), kind: "int", text: "0", translate: zapLevel},
		"v", "v", "Verbosity of the log: messages up to this level are written. Sets --zap-log-level.")
	fs.Var(&alias{of: flags.Lookup("zap-encoder"), kind: "string", text: "json", translate: zapEncoder},
		"logging-format", `Format of the log: "json" or "text". Sets --zap-encoder.`)
}

// apply makes the process use the configured logger, and returns it. Call it before anything logs.
func (l *logging) apply() logr.Logger {
	logger := l.logger()
	ctrl.SetLogger(logger)
	// Code that asks klog for a logger gets this one, whose level counts. Code that calls klog's
	// functions is subject to klog's own level.
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(verbosityOf(logger))) // a number is valid
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger)))
	return logger
}

// logger returns the configured logger. Unlike controller-runtime's, it does not sample: it drops
// no line of a dump.
func (l *logging) logger() logr.Logger {
	var unsampled zapcore.Core
	options := l.zap
	options.ZapOpts = append(options.ZapOpts, zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		unsampled = core // controller-runtime samples what comes after this option
		return core
	}))
	sampled := ctrlzap.NewRaw(ctrlzap.UseFlagOptions(&options))
	return zapr.NewLogger(sampled.WithOptions(zap.WrapCore(func(zapcore.Core) zapcore.Core { return unsampled })))
}

// verbosityOf returns the highest level of a logger's messages.
func verbosityOf(logger logr.Logger) int {
	v := 0
	for v < maxVerbosity && logger.V(v+1).Enabled() {
		v++
	}
	return v
}

// alias is a flag that sets another one. It implements pflag.Value.
type alias struct {
	of   *flag.Flag
	kind string
	text string // the value
	// translate returns the value of the other flag. Each alias has its own words.
	translate func(string) (string, error)
}

func (a *alias) String() string { return a.text }
func (a *alias) Type() string   { return a.kind }

func (a *alias) Set(text string) error {
	value, err := a.translate(text)
	if err != nil {
		return err
	}
	a.text = text
	return a.of.Value.Set(value)
}

// zapLevel translates -v.
func zapLevel(verbosity string) (string, error) {
	switch v, err := strconv.Atoi(verbosity); {
	case err != nil || v < 0 || v > maxVerbosity:
		return "", fmt.Errorf("must be a number from 0 to %d", maxVerbosity)
	case v == 0:
		return "info", nil
	default:
		return verbosity, nil
	}
}

// zapEncoder translates --logging-format.
func zapEncoder(format string) (string, error) {
	switch format {
	case "json":
		return "json", nil
	case "text":
		return "console", nil
	default:
		return "", fmt.Errorf(`must be "json" or "text"`)
	}
}
