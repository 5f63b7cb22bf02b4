// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom returns what a binary consists of, in the format of CycloneDX. It is what the Go linker
// wrote into the binary, so that it lists the modules that are in it and no others.
func (s source) sbom(b binary) ([]byte, error) {
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	root := &cdx.Component{
		BOMRef: b.program, Type: cdx.ComponentTypeApplication, Name: b.program, Version: s.version,
		PackageURL: packageURL(info.Main.Path, s.version),
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	standard := cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: packageURL("std", strings.TrimPrefix(info.GoVersion, "go")),
	}
	standard.BOMRef = standard.PackageURL
	components := []cdx.Component{standard}
	references := []string{standard.BOMRef}
	for _, dependency := range info.Deps {
		c := component(dependency)
		components = append(components, c)
		references = append(references, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: s.epoch.Format("2006-01-02T15:04:05Z"), Component: root}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: b.program, Dependencies: &references}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

// component describes a module as the build used it, after replacement.
func component(module *debug.Module) cdx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	c := cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version,
		PackageURL: packageURL(module.Path, module.Version),
	}
	c.BOMRef = c.PackageURL
	if module.Sum != "" {
		// The hash of go.sum is of the module's file tree, not of one file: it fits no hash of
		// CycloneDX.
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: module.Sum}}
	}
	return c
}

func packageURL(module, version string) string {
	return "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
}
