// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Answers are read as a stream: whatever an extender sends, memory holds no more than one value of
// it and what was asked about. Field names match regardless of case, as in encoding/json, with
// which kube-scheduler reads answers.

// decode lets read read one JSON value that is not longer than the limit, and ignores what follows.
func decode(r io.Reader, limit int64, read func(*json.Decoder) error) error {
	bounded := &io.LimitedReader{R: r, N: limit}
	err := read(json.NewDecoder(bounded))
	var about *problemError
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil, errors.As(err, &about):
		return err
	case bounded.N <= 0:
		return quoting("the answer is too long", fmt.Sprintf("more than %d bytes", limit))
	case errors.Is(err, io.EOF) && bounded.N == limit:
		return problem("the answer is empty")
	case errors.As(err, &syntax), errors.As(err, &mistyped):
		return quoting(notValid, err.Error())
	}
	return err // of the connection
}

// readObject reads an object or null, and calls field for each of its fields, which must read the
// value. It reports whether there was an object.
func readObject(d *json.Decoder, field func(name string) error) (bool, error) {
	if present, err := begin(d, '{'); !present || err != nil {
		return false, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false, err
		}
		text, _ := name.(string) // keys are strings: the decoder checks that
		if err := field(text); err != nil {
			return false, err
		}
	}
	_, err := d.Token()
	return true, err
}

// readArray reads an array or null, and calls element for each element, which must read it. It
// reports whether there was an array.
func readArray(d *json.Decoder, element func() error) (bool, error) {
	if present, err := begin(d, '['); !present || err != nil {
		return false, err
	}
	for d.More() {
		if err := element(); err != nil {
			return false, err
		}
	}
	_, err := d.Token()
	return true, err
}

// begin reads the beginning of an object or an array, or null.
func begin(d *json.Decoder, delimiter json.Delim) (present bool, err error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return false, err
	case token == nil:
		return false, nil
	case token != delimiter:
		return false, quoting(notValid, fmt.Sprintf("%v instead of %v", token, delimiter))
	}
	return true, nil
}

// readText reads a string or null, which is the empty one.
func readText(d *json.Decoder) (string, error) {
	token, err := d.Token()
	if err != nil || token == nil {
		return "", err
	}
	text, ok := token.(string)
	if !ok {
		return "", quoting(notValid, fmt.Sprintf("%v instead of a string", token))
	}
	return text, nil
}

// skip reads a value and keeps nothing of it.
func skip(d *json.Decoder) error {
	depth := 0
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// is reports whether a field has a name.
func is(field, name string) bool { return strings.EqualFold(field, name) }
