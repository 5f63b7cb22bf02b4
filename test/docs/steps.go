// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
)

// Step is a file that a reader saves, or a command that a reader runs.
type Step struct {
	// File is the name of the file that a page says to save, or says that a command has written.
	File, Content string
	// Command is a line for a shell, without prompt and comment, and Output what the page shows of
	// what it prints.
	Command, Output string
	// Input is the here-document of the command, with the line that ends it.
	Input string
}

// Steps returns the steps of a page, from top to bottom: what is in its blocks. A YAML block is a
// file if the text before it names one.
func (p Page) Steps() []Step {
	var steps []Step
	var names []string
	for _, b := range p.blocks {
		if found := savedAs.FindAllStringSubmatch(b.before, -1); found != nil {
			names = nil
			for _, match := range found {
				names = append(names, match[1])
			}
		}
		switch {
		case b.language == "yaml" && len(names) > 0:
			steps = append(steps, Step{File: names[0], Content: b.text()})
			names = names[1:]
		case b.language == "" || b.language == "sh" || b.language == "console":
			steps = append(steps, b.commands()...)
		}
	}
	return steps
}

// "Save two workloads as `infer.yaml` and `train.yaml`".
var savedAs = regexp.MustCompile("`([a-z-]+\\.yaml)`")

// commands returns the commands of a block. A block without a language and without prompts shows
// commands if its lines begin with one.
func (b block) commands() []Step {
	if !strings.Contains(b.text(), "$ ") || b.language == "sh" {
		var steps []Step
		for _, line := range b.commandLines() {
			if command := withoutComment(line.text); command != "" &&
				(b.language != "" || strings.HasPrefix(command, "kubectl ")) {
				steps = append(steps, Step{Command: command, Input: line.input})
			}
		}
		return steps
	}
	var steps []Step
	for text := range strings.SplitSeq("\n"+b.text(), "\n$ ") {
		text, output, _ := strings.Cut(text, "\n")
		for strings.HasSuffix(text, `\`) {
			var more string
			more, output, _ = strings.Cut(output, "\n")
			text = strings.TrimSuffix(text, `\`) + more
		}
		if command := withoutComment(text); command != "" {
			steps = append(steps, Step{Command: command, Output: output})
		}
	}
	return steps
}

func withoutComment(line string) string {
	return strings.Join(strings.Fields(comment.ReplaceAllString(line, "")), " ")
}
