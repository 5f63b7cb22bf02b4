// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// The words of internal/words and internal/dashboard, so that the command line, the dashboard and
// these pages say the same. Tests compare them with what the Go code says.

import {
  NodeGroup,
  NodeScore,
  PodExplanation,
  PodGroupFit,
  Refusal,
  ShadowStatus,
  Shortage,
  Suggestion,
} from './types';

/** Stands for the name of a node that the user may not see. */
export const hiddenNode = '(hidden)';

const english = new Intl.NumberFormat('en');

/** Returns a number with a comma after each three digits. */
export function grouped(n: number): string {
  return english.format(n);
}

/** Returns a number and its noun in the singular or plural, such as "1,200 policies". */
export function many(n: number, noun: string): string {
  if (n === 1) {
    return `1 ${noun}`;
  }
  const plural = noun.endsWith('y')
    ? noun.slice(0, -1) + 'ies'
    : noun + (noun.endsWith('s') ? 'es' : 's');
  return `${grouped(n)} ${plural}`;
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Returns a duration in milliseconds, in at most two units. */
export function span(ms: number): string {
  const whole = (unit: number, of = ms) => Math.floor(of / unit);
  if (ms < second) {
    return '0 s';
  }
  if (ms < 2 * minute) {
    return `${whole(second)} s`;
  }
  if (ms < 2 * hour) {
    return `${whole(minute)} min`;
  }
  if (ms < 2 * day) {
    return `${whole(hour)} h ${whole(minute, ms % hour)} min`;
  }
  return `${whole(day)} d ${whole(hour, ms % day)} h`;
}

/** Returns how long ago something was. */
export function age(of: string | null | undefined): string {
  return of ? span(Date.now() - Date.parse(of)) : 'unknown';
}

const headlines: Record<string, string> = {
  NeverFits: 'No node fits',
  FitsWhenFreed: 'No node can take it now',
  GroupDoesNotFit: 'Its pod group does not fit',
  WaitingForTurn: 'It fits, and waits for its turn',
  WaitingForVictims: 'It waits until preempted pods have ended',
  Binding: 'It is being bound to its node',
  Gated: 'It is held back, and not tried',
  NoProfile: 'No profile schedules it',
  OtherScheduler: 'Another scheduler is responsible',
  Unknown: 'livesched could not find out why',
  Bound: 'It is on a node',
};

/**
 * Returns what the verdict means, as a sentence without its full stop. A verdict of a newer
 * livesched stands for itself.
 */
export function headline(e: PodExplanation): string {
  const text = headlines[e.verdict] ?? e.verdict;
  const counts = e.verdict === 'NeverFits' || e.verdict === 'FitsWhenFreed';
  return counts && e.nodes > 0 ? `${text} (of ${grouped(e.nodes)})` : text;
}

// The most pods that livesched counts for a suggestion.
const mostFits = 500;

/** Returns a change, and how many of the pods that wait for the same reason it lets run. */
export function suggestion(s: Suggestion, alike = 0): string {
  const fits = s.fits ?? 0;
  const all = alike + 1;
  if (fits === 0 || alike === 0) {
    return s.description;
  }
  if (fits >= all) {
    return `${s.description} All ${grouped(all)} pods that wait for the same reason would run.`;
  }
  const atLeast = fits >= mostFits ? 'At least ' : '';
  return `${s.description} ${atLeast}${grouped(fits)} of the ${grouped(
    all
  )} pods that wait for the same reason would run.`;
}

/**
 * Returns why a plugin refuses a pod: the detail and what is short, or else the words of the
 * plugin.
 */
export function refusal(r: Refusal): string {
  const detail = r.detail ?? '';
  const texts = detail ? [detail] : [];
  for (const s of r.shortBy ?? []) {
    if (!detail.includes(`no ${s.resource} (`)) {
      texts.push(shortage(s));
    }
  }
  if (texts.length > 0) {
    return texts.join(', ');
  }
  return r.messages?.length
    ? r.messages[0].replace(/\.$/, '')
    : `refused by the plugin ${r.plugin}`;
}

/** Returns what nodes lack. */
export function shortage(s: Shortage): string {
  const amount =
    s.resource === 'pods' ? `room for ${s.quantity} more pods` : `${s.quantity} ${s.resource}`;
  return s.most === undefined
    ? `lacks ${amount}`
    : `lacks at least ${amount} (${many(s.nodes, 'node')}), at most ${s.most}`;
}

/** Returns why the nodes of a group refuse the pod. */
export function whyNot(g: NodeGroup): string {
  const texts = [...new Set((g.refusals ?? []).map(refusal))];
  if (g.partial) {
    if (texts.length === 0) {
      return 'various reasons';
    }
    texts.push('and other reasons on some of them');
  }
  return texts.join('; ');
}

/** Describes how many pods of a group, or groups of a composite group, fit. */
export function podGroup(g: PodGroupFit): string {
  const kind = g.composite ? 'Composite pod group' : 'Pod group';
  const members = many(g.needed, g.composite ? 'group' : 'pod');
  const fit = `${grouped(g.fit)} ${g.fit === 1 ? 'fits' : 'fit'} now`;
  const domain = g.domain ? ` in ${g.domain}` : '';
  const ready = g.ready === 1 ? '1 is ready.' : `${grouped(g.ready)} are ready.`;
  const more = g.incomplete ? ' The time was up: more may fit.' : '';
  return `${kind} ${g.name}: ${members} must be placed together, and ${fit}${domain}; ${ready}${more}`;
}

const inOtherColumns = /^(\d+\/\d+ nodes are available: |pod group \S+: )/;
const inVain = /;?( no new claims to deallocate,)? preemption: \d+\/\d+ nodes .*$/;

/**
 * Returns the message of a decision without what other columns say, and without why preemption does
 * not help.
 */
export function shortReason(message = ''): string {
  return message
    .trim()
    .replace(/\s+/g, ' ')
    .replace(inOtherColumns, '')
    .replace(inVain, '')
    .replace(/\.$/, '');
}

/** Returns the share of decisions on which a shadow agrees, rounded down. */
export function agreement(s: ShadowStatus): string {
  return s.decisions === 0 ? '0 %' : `${Math.floor((s.agreed * 1000) / s.decisions) / 10} %`;
}

/**
 * Returns the plugins whose scores differ between nodes, with the greatest difference first, and
 * the others with their score.
 */
export function scoreColumns(top: NodeScore[]): { differ: string[]; equal: string[] } {
  const of = (plugin: string) => top.map(n => n.scores?.[plugin] ?? 0);
  const least = (plugin: string) => Math.min(...of(plugin));
  const most = (plugin: string) => Math.max(...of(plugin));
  const plugins = [...new Set(top.flatMap(n => Object.keys(n.scores ?? {})))].sort();
  const differs = (plugin: string) => top.length === 1 || least(plugin) !== most(plugin);
  return {
    differ: plugins
      .filter(differs)
      .sort((a, b) => most(b) - least(b) - (most(a) - least(a)) || most(b) - most(a)),
    equal: plugins.filter(plugin => !differs(plugin)).map(plugin => `${plugin} ${least(plugin)}`),
  };
}

/** What a text is about: it chooses the colour of its label. */
export type Tone = 'good' | 'warn' | 'bad';

/** Returns the tone of the result of a decision. */
export function resultTone(result: string | undefined): Tone {
  switch (result) {
    case 'Unschedulable':
      return 'warn';
    case 'Failed':
    case 'BindFailed':
      return 'bad';
  }
  return 'good';
}
