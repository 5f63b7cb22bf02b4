// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs reads the documentation, and its tests check it against the program:
//
//	pages.go           reads the Markdown files: fenced blocks, inline code, and the commands in them
//	steps.go           what a reader of a page does: files to save, and commands to run
//	output.go          compares an output on a page with what a command prints
//	notrun.go          the commands that no test runs, with the reason
//	commands_test.go   make targets, commands and flags of kubectl livesched, flags of livesched,
//	                   and files of this repository exist
//	manifests_test.go  objects of livesched are valid
//	upgrade_test.go    the files that follow a version of Kubernetes are those of the table
//	layers_test.go     imports go downwards, in the order of internal/layers.txt
//	names_test.go      reasons, verdicts, metrics, flags and packages exist, and are all described
//
// The suite of kubectl livesched takes all other steps, on a real API server. test/e2e/profiles
// applies the recipes, and test/tutorials follows the tutorials.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Page is a Markdown file.
type Page struct {
	File, text string
	blocks     []block
	// inline is the code in backticks outside of blocks.
	inline []string
}

// block is a fenced block.
type block struct {
	language string
	lines    []string
	// before is the text since the block before, and heading the last one of a section ("## ").
	before, heading string
}

func (b block) text() string { return strings.Join(b.lines, "\n") + "\n" }

// Manifests returns the YAML blocks of a page, by the heading of their section. There is at most
// one in a section of a page for which this is used.
func (p Page) Manifests() map[string]string {
	all := map[string]string{}
	for _, b := range p.blocks {
		if b.language == "yaml" {
			all[b.heading] += b.text()
		}
	}
	return all
}

// Pages returns README.md, CONTRIBUTING.md and the Markdown files under docs.
func Pages(root string) ([]Page, error) {
	files := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			name, _ := filepath.Rel(root, path)
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]Page, 0, len(files))
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		all = append(all, parse(file, string(content)))
	}
	return all, nil
}

var code = regexp.MustCompile("`([^`]+)`")

func parse(file, text string) Page {
	p := Page{File: file, text: text}
	var prose strings.Builder
	read := 0 // of prose, for blocks before
	var open *block
	heading := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open = &block{language: language, before: prose.String()[read:], heading: heading}
			read = prose.Len()
		case fence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		default:
			if title, found := strings.CutPrefix(line, "## "); found {
				heading = title
			}
			prose.WriteString(line + " ") // code may be broken over two lines
		}
	}
	for _, found := range code.FindAllStringSubmatch(prose.String(), -1) {
		p.inline = append(p.inline, found[1])
	}
	return p
}

// commands returns the commands of a page, without prompts, comments, output and here-documents,
// each as words. A pipeline is several commands.
func (p Page) commands() [][]string {
	var all [][]string
	for _, b := range p.blocks {
		if b.language != "" && b.language != "sh" && b.language != "console" {
			continue
		}
		for _, line := range b.commandLines() {
			all = append(all, split(line.text)...)
		}
	}
	for _, line := range p.inline {
		all = append(all, split(line)...)
	}
	return all
}

var hereDocument = regexp.MustCompile(`<<'?(\w+)'?`)

// commandLine is a command, and the lines of its here-document with the last one, which ends it.
type commandLine struct{ text, input string }

// commandLines returns the lines of a block that a shell would read. If a line begins with a
// prompt, the others are output.
func (b block) commandLines() []commandLine {
	prompts := false
	for _, line := range b.lines {
		prompts = prompts || strings.HasPrefix(line, "$ ")
	}
	var lines []commandLine
	command, end := "", ""
	for _, line := range b.lines {
		switch {
		case end != "":
			lines[len(lines)-1].input += line + "\n"
			if line == end {
				end = ""
			}
			continue
		case command == "" && prompts && !strings.HasPrefix(line, "$ "):
			continue
		}
		command += strings.TrimPrefix(line, "$ ")
		if here := hereDocument.FindStringSubmatch(command); here != nil {
			end = here[1]
		}
		if rest, more := strings.CutSuffix(command, `\`); more {
			command = rest
			continue
		}
		lines = append(lines, commandLine{text: command})
		command = ""
	}
	return lines
}

var (
	// A placeholder is one word.
	placeholder = regexp.MustCompile(`<[a-z][^<>]*>`)
	comment     = regexp.MustCompile(`(^|\s)#.*`)
	separator   = regexp.MustCompile(`\|\||&&|[|;&]|\$\(|\bdo\b|\$ `)
	setting     = regexp.MustCompile(`^[A-Za-z_]+=`)
	quoted      = regexp.MustCompile(`"[^"$]*"|'[^']*'`)
)

// split returns the commands of a line, as words without quotes.
func split(line string) [][]string {
	// A quoted text is one word, and is no command.
	line = quoted.ReplaceAllStringFunc(line, func(text string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(` |&;#"'`, r) {
				return '_'
			}
			return r
		}, text)
	})
	line = placeholder.ReplaceAllString(comment.ReplaceAllString(line, ""), "X")
	var all [][]string
	for _, part := range separator.Split(line, -1) {
		words := strings.Fields(strings.Trim(part, `()"`))
		for len(words) > 0 && (setting.MatchString(words[0]) || words[0] == "export" || words[0] == "exec") {
			words = words[1:]
		}
		if len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}
