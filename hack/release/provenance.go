// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const statementType = "application/vnd.in-toto+json"

// statement is an in-toto statement with the provenance that SLSA defines:
// https://slsa.dev/spec/v1.0/provenance
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies,omitempty"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID      string            `json:"id"`
			Version map[string]string `json:"version"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// envelope is a signed statement: https://github.com/secure-systems-lab/dsse
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []map[string]string `json:"signatures"`
}

// addStatements adds the provenance of everything that was added before, and of the image. With a
// key it is a signed envelope. Without one it is a claim, and the level of SLSA is 1.
func (r *release) addStatements(image string, digest v1.Hash) error {
	toolchain, err := r.toolchain()
	if err != nil {
		return err
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	s.Subject = []resource{{Name: image, Digest: map[string]string{digest.Algorithm: digest.Hex}}}
	for _, name := range slices.Sorted(maps.Keys(r.artifacts)) {
		s.Subject = append(s.Subject,
			resource{Name: name, Digest: map[string]string{"sha256": sha256Hex(r.artifacts[name])}})
	}
	build := &s.Predicate.BuildDefinition
	build.BuildType = repository + "/tree/main/hack/release"
	build.ExternalParameters = map[string]string{"version": r.version, "ldflags": r.ldflags,
		"SOURCE_DATE_EPOCH": fmt.Sprint(r.epoch.Unix())}
	if r.commit != "" {
		build.ResolvedDependencies = []resource{
			{URI: "git+" + repository, Digest: map[string]string{"gitCommit": r.commit}}}
	}
	s.Predicate.RunDetails.Builder.ID = builder()
	s.Predicate.RunDetails.Builder.Version = map[string]string{"go": toolchain}

	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if r.key == "" {
		r.artifacts["provenance.intoto.json"] = append(content, '\n')
		return nil
	}
	key, err := loadKey(r.key)
	if err != nil {
		return err
	}
	signed, err := key.envelope(content)
	r.artifacts["provenance.intoto.jsonl"] = signed
	return err
}

// envelope signs a statement.
func (k key) envelope(content []byte) ([]byte, error) {
	signature, err := k.sign(preAuthentication(content))
	if err != nil {
		return nil, err
	}
	signed, err := json.Marshal(envelope{
		PayloadType: statementType,
		Payload:     base64.StdEncoding.EncodeToString(content),
		Signatures:  []map[string]string{{"sig": base64.StdEncoding.EncodeToString(signature)}},
	})
	return append(signed, '\n'), err
}

// preAuthentication is what the signature of an envelope is of.
func preAuthentication(content []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementType), statementType, len(content), content)
}

// builder is who runs the build: a hosted one names itself in BUILDER_ID.
func builder() string {
	if id := os.Getenv("BUILDER_ID"); id != "" {
		return id
	}
	return repository + "/blob/main/docs/release.md#provenance"
}

// toolchain returns the version of Go that compiles in the repository.
func (s source) toolchain() (string, error) {
	command := exec.Command("go", "env", "GOVERSION")
	command.Dir = s.root
	output, err := command.Output()
	return strings.TrimSpace(string(output)), err
}
