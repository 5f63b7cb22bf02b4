// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

const several = `# a comment

kind: A
metadata:
  name: first
---
# only a comment
---
kind: B
spec:
  list:
  - name: x
    args: {deep: 1}
  - name: y
--- # the third
kind: List
items:
- kind: C
  spec:
    field: 1
- kind: D
`

func TestDocumentsAndFieldsKeepTheirLines(t *testing.T) {
	documents, err := manifests.Parse("f.yaml", []byte(several))
	if err != nil {
		t.Fatal(err)
	}
	var places, kinds []string
	for i := range documents {
		places = append(places, documents[i].Place())
		kinds = append(kinds, documents[i].Text("kind"))
	}
	if !slices.Equal(kinds, []string{"A", "B", "C", "D"}) {
		t.Fatalf("kinds %v", kinds)
	}
	if want := []string{"f.yaml:3", "f.yaml:9 (document 2)", "f.yaml:18 (document 3)",
		"f.yaml:21 (document 3)"}; !slices.Equal(places, want) {
		t.Errorf("places %v, want %v", places, want)
	}
	lines := strings.Split(several, "\n")
	for _, test := range []struct {
		document int
		path     string
		want     string
	}{
		{0, "metadata.name", "  name: first"},
		{1, "spec.list[1].name", "  - name: y"},
		{1, "spec.list[0].args.deep", "    args: {deep: 1}"},
		{1, "spec.list[0].none.at.all", "  - name: x"},
		{1, "nothing", "kind: B"},
		{2, "spec.field", "    field: 1"},
		{3, "spec.field", "- kind: D"},
	} {
		if got := lines[documents[test.document].LineOf(test.path)-1]; got != test.want {
			t.Errorf("%s of document %d is in the line %q, want %q", test.path, test.document, got, test.want)
		}
	}
}

func TestTextsInFieldsHaveLinesOfTheFile(t *testing.T) {
	const text = "kind: ConfigMap\ndata:\n  literal: |\n    # comment\n    kind: X\n    field: 1\n  quoted: \"kind: " +
		"Y\\nfield: 2\"\n"
	documents, err := manifests.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]int{"data[literal]": {5, 6}, "data[quoted]": {7, 7}} {
		key := strings.TrimSuffix(strings.TrimPrefix(path, "data["), "]")
		inner, err := documents[0].Inner(path, documents[0].Text("data", key))
		if err != nil || len(inner) != 1 {
			t.Fatalf("%v: %v", err, inner)
		}
		if got := [2]int{inner[0].Line, inner[0].LineOf("field")}; got != want {
			t.Errorf("%s: lines %v, want %v", path, got, want)
		}
	}
}

func TestJSONIsDecoded(t *testing.T) {
	documents, err := manifests.Parse("f.json", []byte("{\n\t\"kind\": \"A\",\n\t\"number\": 12345678901234567,\n"+
		"\t\"list\": [\n\t\t1.5\n\t]\n}\n{\"kind\": \"B\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(documents) != 2 || documents[1].Text("kind") != "B" ||
		documents[0].Object["number"] != int64(12345678901234567) {
		t.Fatalf("%+v", documents)
	}
	if line := documents[0].LineOf("list[0]"); line != 5 {
		// Two objects in one document are not YAML: then the line is unknown.
		if line != 0 {
			t.Errorf("line %d", line)
		}
	}
}

func TestErrorsNameTheDocument(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"not an object":     {"- a\n", "f:1: document 1: must be an object"},
		"not YAML":          {"a: b\n---\na: [\n", "f:3: document 2: "},
		"a duplicate field": {"a: 1\na: 2\n", `already set`},
		"a template":        {"{{- if .Values.x }}\nkind: A\n{{- end }}\n", "render it first"},
		"a template field":  {"kind: A\nname: {{ .Values.x }}\n", "render it first"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := manifests.Parse("f", []byte(test.text)); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestFilesAndDirectoriesAreRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "kind: A\n", "b.json": `{"kind":"B"}`, "c.txt": "kind: C\n",
		"sub/d.yml": "kind: D\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		paths     []string
		recursive bool
		want      string
	}{
		{[]string{dir}, false, "A B"},
		{[]string{dir}, true, "A B D"},
		{[]string{filepath.Join(dir, "c.txt"), "-"}, false, "C in"},
	} {
		documents, err := manifests.Read(test.paths, test.recursive, strings.NewReader("kind: in\n"))
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for i := range documents {
			kinds = append(kinds, documents[i].Text("kind"))
		}
		if got := strings.Join(kinds, " "); got != test.want {
			t.Errorf("%v: got %q, want %q", test.paths, got, test.want)
		}
	}
	if _, err := manifests.Read([]string{filepath.Join(dir, "none.yaml"), t.TempDir()}, false, nil); err == nil ||
		!strings.Contains(err.Error(), "none.yaml") || !strings.Contains(err.Error(), "no file that ends in .yaml") {
		t.Errorf("got error %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(several))
	f.Add([]byte("{\n\t\"kind\": \"A\"}\n{}"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		documents, err := manifests.Parse("f", text)
		if err != nil {
			return
		}
		last := strings.Count(string(text), "\n") + 2
		for i := range documents {
			for _, path := range []string{"", "kind", "spec.a[0].b", "items[3].metadata.name"} {
				if line := documents[i].LineOf(path); line < 0 || line > last {
					t.Errorf("%q is in line %d of %d", path, line, last)
				}
			}
		}
	})
}
