// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// The words of the pages are those of the Go code, which has written the fixtures.

import words from '../fixtures/words.json';
import { problemOf } from './api';
import { explanationView, whyView } from './explanation';
import { joined, kindName, placeWords, requestsWords, verdictWords } from './kinds';
import { profileRow } from './profiles';
import { explanationExamples, kindExamples, now, profileExamples } from './testing';
import { NodeGroup, ShadowStatus } from './types';
import {
  age,
  agreement,
  many,
  podGroup,
  refusal,
  resultTone,
  shortReason,
  span,
  whyNot,
} from './words';

beforeEach(() => {
  vi.useFakeTimers({ now: new Date(now) });
});
afterEach(() => {
  vi.useRealTimers();
});

test('single words', () => {
  expect(Object.keys(words.spans).length).toBeGreaterThan(5);
  for (const [ms, text] of Object.entries(words.spans)) {
    expect(span(Number(ms))).toBe(text);
  }
  for (const { n, noun, text } of words.counts) {
    expect(many(n, noun)).toBe(text);
  }
  for (const { answer, shown } of words.refusals) {
    expect(refusal(answer)).toBe(shown);
  }
  for (const { answer, shown } of words.groups) {
    expect(podGroup(answer)).toBe(shown);
  }
  for (const { answer, shown } of words.reasons) {
    expect(shortReason(answer)).toBe(shown);
  }
  for (const { answer, shown } of words.whyNot) {
    expect(whyNot(answer as NodeGroup)).toBe(shown);
  }
  for (const { answer, shown } of words.agreement) {
    expect(agreement(answer as ShadowStatus)).toBe(shown);
  }
  for (const [result, tone] of Object.entries(words.results)) {
    expect(resultTone(result)).toBe(tone);
  }
});

test('titles of errors', () => {
  for (const [status, title] of Object.entries(words.titles)) {
    expect(problemOf({ status: Number(status) }, '').title).toBe(title);
  }
});

test.each(Object.entries(explanationExamples))('explanation: %s', (_, { answer, shown }) => {
  const { scores, tone, tried, untried, ...texts } = explanationView(answer);
  expect({
    ...texts,
    tone,
    facts: texts.facts.map(({ name, text }) => ({ name, text })),
    tried: tried.map(s => s.description),
    untried: untried.map(s => s.description),
    scores: scores ?? null,
    whyNot: (answer.pending?.groups ?? []).map(whyNot),
    row: whyView(answer),
  }).toEqual({
    headline: shown.headline,
    tone: shown.class,
    facts: shown.facts ?? [],
    shortage: shown.shortage ?? [],
    tried: shown.tried ?? [],
    untried: shown.untried ?? [],
    group: shown.group,
    waits: shown.waits ?? [],
    refusals: shown.refusals ?? [],
    whyNot: shown.whyNot ?? [],
    scores: shown.scores,
    row: shown.row,
  });
});

test.each(Object.entries(kindExamples))('pending kinds: %s', (_, { answer, shown }) => {
  const items = answer.items ?? [];
  expect(verdictWords(answer, [])).toEqual([shown.text, shown.oldest]);
  expect(answer.kinds - items.length).toBe(shown.left);
  expect(
    items.map(k => ({
      name: kindName(k),
      place: placeWords(k),
      age: age(k.since),
      requests: requestsWords(k.requests),
      reason: shortReason(k.message),
      class: resultTone(k.result),
    }))
  ).toEqual(shown.rows ?? []);
});

test('kinds of several namespaces', () => {
  const { some, one } = kindExamples;
  const list = joined([one.answer, some.answer]);
  expect(list.pods).toBe(one.answer.pods + some.answer.pods);
  expect(list.kinds).toBe(one.answer.kinds + some.answer.kinds);
  const pods = (list.items ?? []).map(k => k.pods);
  expect(pods).toEqual([...pods].sort((a, b) => b - a));
  expect(verdictWords(list, ['ci', 'ml'])[0]).toBe(
    '1,313 pods wait in the namespaces ci, ml in 5 kinds.'
  );
});

test('profiles', () => {
  const rows = (profileExamples.answer.items ?? []).map(profileRow);
  expect(
    rows.map(({ since, ...row }) => ({
      ...row,
      age: row.revision ? age(since) : '',
      programmed: undefined,
    }))
  ).toEqual(profileExamples.shown);
  expect(rows.map(row => row.programmed)).toContain('False');
});
