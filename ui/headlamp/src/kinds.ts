// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// What the page of pending pods says. internal/dashboard/kinds.go and amounts.go say the same.

import { PendingKind, PendingKindList } from './types';
import { age, grouped, many } from './words';

/** Names what the pods of a kind belong to. */
export function kindName(k: PendingKind): string {
  if (k.podGroup && !k.owner) {
    return `podgroup/${k.podGroup}`;
  }
  return k.owner || `pod/${k.pod}`;
}

/** Tells where the pods of a kind are in the queue. */
export function placeWords(k: PendingKind): string {
  const { active = 0, backoff = 0, unschedulable = 0, gated = 0 } = k;
  const places: [number, string][] = [
    [unschedulable, 'unschedulable'],
    [backoff, 'back-off'],
    [active, 'active'],
    [gated, 'gated'],
    [k.pods - active - backoff - unschedulable - gated, 'being decided'],
  ];
  const only = places.find(([pods]) => pods === k.pods);
  if (only) {
    return only[1];
  }
  return places
    .filter(([pods]) => pods > 0)
    .map(([pods, name]) => `${grouped(pods)} ${name}`)
    .join(', ');
}

/** Returns the place of a resource in lists: extended resources first, then CPU and memory. */
function order(name: string): number {
  switch (name) {
    case 'cpu':
      return 1;
    case 'memory':
      return 2;
  }
  return name.includes('/') && !name.startsWith('kubernetes.io/') ? 0 : 4;
}

/** Lists what a pod requests. */
export function requestsWords(requests: Record<string, string> = {}): string {
  const texts = Object.keys(requests)
    .filter(name => name !== 'pods' && parseFloat(requests[name]) !== 0)
    .sort((a, b) => order(a) - order(b) || (a < b ? -1 : 1))
    .map(name => `${requests[name]} ${name}`);
  return texts.join(', ') || 'nothing';
}

/** Tells in two sentences how many pods wait, and how long. */
export function verdictWords(list: PendingKindList, namespaces: string[]): [string, string] {
  const where = namespaces.length
    ? ` in the ${namespaces.length === 1 ? 'namespace' : 'namespaces'} ${namespaces.join(', ')}`
    : '';
  if (list.pods === 0) {
    return [`No pod waits${where}.`, ''];
  }
  const verb = list.pods === 1 ? 'waits' : 'wait';
  const text = `${many(list.pods, 'pod')} ${verb}${where} in ${many(list.kinds, 'kind')}.`;
  const items = list.items ?? [];
  const oldest = items
    .map(k => k.since ?? '')
    .filter(since => since)
    .sort((a, b) => Date.parse(a) - Date.parse(b))[0];
  if (!oldest) {
    return [text, ''];
  }
  if (list.pods === 1) {
    return [text, `It has waited ${age(oldest)}.`];
  }
  const which =
    list.kinds > items.length ? `oldest of the ${grouped(items.length)} largest kinds` : 'oldest';
  return [text, `The ${which} has waited ${age(oldest)}.`];
}

/** Puts the lists of several namespaces together, with the most pods first. */
export function joined(lists: PendingKindList[]): PendingKindList {
  return {
    items: lists.flatMap(list => list.items ?? []).sort(byPods),
    kinds: lists.reduce((sum, list) => sum + list.kinds, 0),
    pods: lists.reduce((sum, list) => sum + list.pods, 0),
  };
}

/** The order with the most pods first and, of equally many, the one that waits longest. */
export function byPods(a: PendingKind, b: PendingKind): number {
  return b.pods - a.pods || byAge(a, b);
}

/** The order with the kind that waits longest first. */
export function byAge(a: PendingKind, b: PendingKind): number {
  const since = (k: PendingKind) => (k.since ? Date.parse(k.since) : Number.MAX_SAFE_INTEGER);
  return since(a) - since(b);
}
