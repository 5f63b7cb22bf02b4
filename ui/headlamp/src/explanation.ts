// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// What the pages say about one pod. internal/dashboard/pod.go, kinds.go and scores.go say the same.

import {
  BoundExplanation,
  NodeScore,
  PendingExplanation,
  PodExplanation,
  Suggestion,
} from './types';
import {
  age,
  grouped,
  headline,
  hiddenNode,
  many,
  podGroup,
  refusal,
  scoreColumns,
  shortage,
  span,
  suggestion,
  Tone,
  whyNot,
} from './words';

/** A line of the summary. If it names a node, it links there. */
export type Fact = { name: string; text: string; node?: string };

export type ScoresView = {
  plugins: string[];
  rows: { node: string; chosen: boolean; total: number; scores: number[] }[];
  /** Plugins that score all these nodes alike. */
  equal: string;
  hidden: boolean;
};

/** Why a pod waits, or why it is on its node. */
export type ExplanationView = {
  headline: string;
  tone: Tone;
  facts: Fact[];
  shortage: string[];
  tried: Suggestion[];
  untried: Suggestion[];
  group: string;
  waits: string[];
  /** Why plugins refuse the pod whatever the node is. */
  refusals: string[];
  scores?: ScoresView;
};

const places: Record<string, string> = {
  Active: 'active: it is tried as soon as those before it have been',
  Backoff: 'back-off: it waits a while after a failed attempt',
  ErrorBackoff: 'back-off: it waits a while after an error',
  Unschedulable: 'unschedulable: it waits for an event that may help',
  Gated: 'gated: it is not admitted to the queue yet',
  InFlight: 'being decided',
};

export function explanationView(e: PodExplanation): ExplanationView {
  const v: ExplanationView = {
    headline: headline(e),
    tone: 'warn',
    facts: [],
    shortage: [],
    tried: [],
    untried: [],
    group: '',
    waits: [],
    refusals: [],
  };
  if (e.bound) {
    bound(v, e, e.bound);
  } else if (e.pending) {
    pending(v, e, e.pending);
  }
  if (e.profile) {
    add(v, 'Profile', e.profile + (e.revision ? `, revision ${e.revision}` : ''));
  } else {
    add(v, 'Scheduler name', e.schedulerName);
  }
  return v;
}

/** Adds a fact, unless it is empty. */
function add(v: ExplanationView, name: string, text: string | undefined, node?: string) {
  if (text) {
    v.facts.push(node ? { name, text, node } : { name, text });
  }
}

function pending(v: ExplanationView, e: PodExplanation, p: PendingExplanation) {
  if (['NeverFits', 'Unknown', 'NoProfile'].includes(e.verdict)) {
    v.tone = 'bad';
  } else if (e.verdict === 'Binding') {
    v.tone = 'good';
  }
  add(v, 'Pending for', p.since && age(p.since));
  add(v, 'In the queue', p.place && (places[p.place] ?? p.place));
  add(v, 'Attempts', p.attempts && p.attempts > 0 ? grouped(p.attempts) : '');
  add(v, 'Next try', nextTry(e.verdict, p));
  add(v, 'Fits', e.feasible > 0 ? `${grouped(e.feasible)} of ${grouped(e.nodes)} nodes` : '');
  add(v, 'Its node will be', p.nominatedNode, p.nominatedNode);
  if (p.alike && p.alike > 0) {
    const verb = p.alike === 1 ? 'waits' : 'wait';
    add(v, 'Alike', `${many(p.alike, 'other pod')} ${verb} for the same reason`);
  }
  add(v, 'Scheduling gates', p.gates?.join(', '));
  add(v, 'Held back by', p.gatingPlugin && `${p.gatingPlugin}: ${p.gatingMessage ?? ''}`);
  add(v, 'Condition PodScheduled', p.reason);
  v.group = p.podGroup ? podGroup(p.podGroup) : '';
  v.shortage = shortages(p);
  v.tried = (p.suggestions ?? [])
    .filter(s => s.verified)
    .map(s => ({ ...s, description: suggestion(s, p.alike) }));
  v.untried = (p.suggestions ?? []).filter(s => !s.verified);
  v.waits = (p.waitsFor ?? []).map(w =>
    w.plugins?.length ? `${w.event} (${w.plugins.join(', ')})` : w.event
  );
  v.refusals = (p.podRefusals ?? []).map(refusal);
}

/** Tells when the pod is tried again at the latest. It is "" if it waits for an event only. */
function nextTry(verdict: string, p: PendingExplanation): string {
  if (!p.nextTry || verdict === 'Gated' || verdict === 'Binding') {
    return '';
  }
  const left = Date.parse(p.nextTry) - Date.now();
  return left > 0 ? `in ${span(left)} at the latest` : 'now';
}

/** Lists what is missing on the closest nodes. */
function shortages(p: PendingExplanation): string[] {
  const texts = (p.groups ?? []).flatMap(g =>
    (g.refusals ?? []).flatMap(r =>
      (r.shortBy ?? []).map(
        s => `${many(g.nodes, 'node')} of ${(g.pools ?? []).join(', ')}: each ${shortage(s)}`
      )
    )
  );
  return [...new Set(texts)].slice(0, 5);
}

function bound(v: ExplanationView, e: PodExplanation, b: BoundExplanation) {
  v.tone = 'good';
  v.headline = b.node
    ? `It is on the node ${b.node}`
    : 'It is on a node whose name is hidden: you may not list nodes';
  add(v, 'Node', b.node, b.node);
  const own = (b.top ?? []).find(n => n.node === b.node && b.node !== '');
  add(v, 'Total', own && grouped(own.total));
  if (b.basis === 'Recorded') {
    add(v, 'Decided', `${age(b.decided)} ago, as it was recorded`);
  } else if (b.basis === 'Recomputed') {
    add(
      v,
      'Decided',
      'not recorded: decided again as if it were pending, in the present state of the cluster'
    );
  }
  add(v, 'Since then', b.changes ? `${many(b.changes, 'change')} of nodes and pods` : '');
  add(v, 'It fitted', e.feasible > 0 ? `${grouped(e.feasible)} of ${grouped(e.nodes)} nodes` : '');
  add(v, 'With the highest total', b.tied && b.tied > 1 ? many(b.tied, 'node') : '');
  v.scores = scoresView(b.top ?? [], b.node);
}

/** Returns the table of scores. It is undefined if there are none. */
function scoresView(top: NodeScore[], chosen: string): ScoresView | undefined {
  if (top.length === 0) {
    return undefined;
  }
  const { differ, equal } = scoreColumns(top);
  return {
    plugins: differ,
    equal: equal.join(', '),
    hidden: top.some(n => n.node === ''),
    rows: top.map(n => ({
      node: n.node || hiddenNode,
      chosen: n.node === chosen && chosen !== '',
      total: n.total,
      scores: differ.map(plugin => n.scores?.[plugin] ?? 0),
    })),
  };
}

/** Why the pods of a kind wait, in a row of the table. */
export type WhyView = {
  headline: string;
  why: string;
  nodes: string;
  help: string;
  tried: boolean;
};

export function whyView(e: PodExplanation): WhyView {
  const v: WhyView = { headline: headline(e), why: '', nodes: '', help: '', tried: false };
  const p = e.pending;
  if (!p) {
    return v;
  }
  if (p.podRefusals?.length) {
    v.why = refusal(p.podRefusals[0]);
  } else if (e.verdict === 'GroupDoesNotFit' && p.podGroup) {
    v.why = podGroup(p.podGroup);
  } else if (p.groups?.length) {
    v.why = whyNot(p.groups[0]);
    v.nodes = many(p.groups[0].nodes, 'node');
  } else {
    v.why = e.message ?? '';
  }
  const help = p.suggestions?.find(s => s.verified) ?? p.suggestions?.[0];
  if (help) {
    v.help = suggestion(help, p.alike);
    v.tried = help.verified;
  }
  return v;
}
