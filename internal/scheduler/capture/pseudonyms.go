// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
)

// pseudonym matches a pseudonym in a file.
var pseudonym = regexp.MustCompile(`x[a-z2-7]{13}`)

// ReadWithNames reads a redacted file, as Read does, and puts the names that are known in the place
// of their pseudonyms. Redacted stays true in the Header.
func ReadWithNames(from io.Reader, limits Limits, names map[string]string) (*Snapshot, error) {
	if len(names) == 0 {
		return Read(from, limits)
	}
	escaped := map[string][]byte{}
	for pseudonym, name := range names {
		text, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		escaped[pseudonym] = bytes.Trim(text, `"`)
	}
	return read(from, limits, func(line []byte) []byte {
		return pseudonym.ReplaceAllFunc(line, func(found []byte) []byte {
			if name, known := escaped[string(found)]; known {
				return name
			}
			return found
		})
	})
}

// Redact writes a snapshot with pseudonyms, as Write does, and returns what each of them stands
// for. A name with a domain, such as example.com/name, has a pseudonym for each of its parts. The
// snapshot must not be redacted. The error is an error of to, or the cause of ctx.
func Redact(ctx context.Context, to io.Writer, snapshot *Snapshot) (names map[string]string, err error) {
	if snapshot.Header.Redacted {
		return nil,
			errors.New("the snapshot is redacted already, and the names that its pseudonyms stand for are unknown")
	}
	in := &Input{
		Header: snapshot.Header, Profiles: snapshot.Profiles, Policies: snapshot.Policies, Nodes: snapshot.Nodes,
		Pods:    snapshot.Pods,
		Pending: snapshot.Pending, Nominations: snapshot.Nominations,
	}
	for _, object := range snapshot.Objects {
		in.Objects = append(in.Objects, object)
	}
	r := newRedactor(in)
	r.given = map[string]string{}
	err = compress(ctx, to, r, func(out *writer) {
		out.input(ctx, in)
		for _, group := range snapshot.PodGroups {
			out.write(ctx, Record{SchedulerPluginsPodGroup: group})
		}
		for i := range snapshot.Decisions {
			out.write(ctx, Record{Decision: &snapshot.Decisions[i]})
		}
	})
	return r.given, err
}
