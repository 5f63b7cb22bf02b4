// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// templates renders the files of objects. Each file is parsed once.
type templates struct {
	// dir is the directory to which paths are relative.
	dir string

	mu     sync.Mutex
	parsed map[string]*template.Template // by path; guarded by mu
}

func newTemplates(dir string) *templates {
	return &templates{dir: dir, parsed: map[string]*template.Template{}}
}

// render fills in a file, for the index-th of a number of objects, and decodes it strictly.
func (t *templates) render(path string, with map[string]any, index, count int, into any) error {
	parsed, err := t.parse(path)
	if err != nil {
		return err
	}
	environment := map[string]any{}
	maps.Copy(environment, with)
	environment["Index"], environment["Count"] = index, count
	var text bytes.Buffer
	if err := parsed.Execute(&text, environment); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text.Bytes(), into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (t *templates) parse(path string) (*template.Template, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if parsed, ok := t.parsed[path]; ok {
		return parsed, nil
	}
	text, err := t.read(path)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(path).Funcs(functions).Parse(string(text))
	if err != nil {
		return nil, err
	}
	t.parsed[path] = parsed
	return parsed, nil
}

func (t *templates) read(path string) ([]byte, error) { return os.ReadFile(filepath.Join(t.dir, path)) }

// plain decodes a file that is no template.
func (t *templates) plain(path string, into any) error {
	text, err := t.read(path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// functions are those that the templates call. An error of one ends the execution of its template.
var functions = template.FuncMap{
	"AddFloat":      sum,
	"AddInt":        func(numbers ...any) (int, error) { return whole(sum(numbers...)) },
	"SubtractFloat": difference,
	"SubtractInt":   func(a, b any) (int, error) { return whole(difference(a, b)) },
	"MultiplyFloat": product,
	"MultiplyInt":   func(numbers ...any) (int, error) { return whole(product(numbers...)) },
	"DivideFloat":   quotient,
	"DivideInt":     func(a, b any) (int, error) { return whole(quotient(a, b)) },
	"Int":           func(a any) (int, error) { return whole(number(a)) },
	"Mod":           modulo,
	"JSON":          toJSON,
}

func number(value any) (float64, error) {
	switch v := value.(type) {
	case float64:
		return v, nil
	case int:
		return float64(v), nil
	case string:
		return strconv.ParseFloat(v, 64)
	}
	return 0, fmt.Errorf("%v is not a number", value)
}

func whole(x float64, err error) (int, error) { return int(x), err }

func sum(numbers ...any) (float64, error) {
	return fold(0, func(a, b float64) float64 { return a + b }, numbers)
}

func product(numbers ...any) (float64, error) {
	return fold(1, func(a, b float64) float64 { return a * b }, numbers)
}

func fold(total float64, with func(a, b float64) float64, numbers []any) (float64, error) {
	for _, value := range numbers {
		x, err := number(value)
		if err != nil {
			return 0, err
		}
		total = with(total, x)
	}
	return total, nil
}

func difference(a, b any) (float64, error) {
	x, y, err := two(a, b)
	return x - y, err
}

func quotient(a, b any) (float64, error) {
	x, y, err := two(a, b)
	if err == nil && y == 0 {
		err = fmt.Errorf("%v is divided by zero", a)
	}
	return x / y, err
}

func modulo(a, b any) (int, error) {
	x, y, err := two(a, b)
	switch {
	case err != nil:
		return 0, err
	case int(y) == 0:
		return 0, fmt.Errorf("%v is divided by zero", a)
	}
	return int(x) % int(y), nil
}

func two(a, b any) (x, y float64, err error) {
	if x, err = number(a); err != nil {
		return 0, 0, err
	}
	y, err = number(b)
	return x, y, err
}

func toJSON(value any) (string, error) {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // YAML reads the text
	err := e.Encode(value)
	return strings.TrimSpace(text.String()), err
}

// standardPod is the pod of operations without a template.
func standardPod() *corev1.Pod {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("500Mi"),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "pause", Image: "registry.k8s.io/pause:3.10.2", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Limits: room, Requests: room},
		}}},
	}
}

// standardNode is the node of operations without a template.
func standardNode(prefix string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("32Gi"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room.DeepCopy(), Phase: corev1.NodeRunning,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}
