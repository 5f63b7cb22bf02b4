// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// What the page of profiles says. internal/dashboard/profiles.go says the same.

import { Condition, RolloutStatus, SchedulerProfile } from './types';
import { agreement, grouped, many, Tone } from './words';

/** One profile. */
export type ProfileRow = {
  name: string;
  schedulerName: string;
  revision: string;
  since: string | null;
  /** The status of the condition Ready: whether this generation of the spec is active. */
  ready: string;
  /** Why it is not True. */
  problem: string;
  /** The status of the condition Programmed: whether pods are scheduled with this generation. */
  programmed: string;
  rollout: string;
  rolloutBad: boolean;
  shadow: string;
};

export function profileRow(p: SchedulerProfile): ProfileRow {
  const status = p.status ?? {};
  const isShadow = p.spec?.mode === 'Shadow';
  const [ready, problem] = conditionWords(p, 'Ready');
  const [rollout, rolloutBad] = rolloutWords(status.rollout);
  return {
    name: p.metadata.name,
    schedulerName:
      status.schedulerName || p.spec?.schedulerName || (isShadow ? '' : p.metadata.name),
    revision: status.active?.revision ?? '',
    since: status.active?.since ?? null,
    ready,
    problem,
    programmed: conditionWords(p, 'Programmed')[0],
    rollout,
    rolloutBad,
    shadow: shadowWords(p),
  };
}

/** Returns the status of a condition, "Unknown" if it is about an older spec, and why not True. */
function conditionWords(p: SchedulerProfile, type: string): [string, string] {
  const condition: Condition | undefined = p.status?.conditions?.find(c => c.type === type);
  if (!condition) {
    return ['Unknown', 'livesched has not processed it.'];
  }
  const { observedGeneration = 0 } = condition;
  if (observedGeneration > 0 && observedGeneration < (p.metadata.generation ?? 0)) {
    return ['Unknown', 'livesched has not processed its latest change.'];
  }
  if (condition.status === 'True') {
    return ['True', ''];
  }
  const message = condition.message ? `: ${condition.message}` : '';
  return [condition.status, (condition.reason ?? '') + message];
}

/** Returns the tone of the status of a condition. */
export function conditionTone(status: string): Tone {
  return status === 'True' ? 'good' : status === 'False' ? 'bad' : 'warn';
}

/** Describes a roll-out, and whether it was aborted. It is "" if there is none. */
function rolloutWords(r: RolloutStatus | undefined): [string, boolean] {
  if (!r) {
    return ['', false];
  }
  if (r.phase === 'Healthy') {
    return [r.phase, false];
  }
  const stage = r.stage ? `: stage ${r.stage}, ${grouped(r.weight)} % of owners` : '';
  const canary = !r.canaryRevision
    ? ''
    : r.stage
    ? ` get ${r.canaryRevision}`
    : `: revision ${r.canaryRevision}`; // no owner gets it any more
  const message = r.message ? `. ${r.message}` : '';
  return [r.phase + stage + canary + message, r.phase === 'Degraded'];
}

/** Tells how often a shadow agrees, rounded down. It is "" for other profiles. */
function shadowWords(p: SchedulerProfile): string {
  const s = p.status?.shadow;
  if (!s) {
    return p.spec?.shadow ? 'Shadow: no decisions yet' : '';
  }
  return s.decisions === 0
    ? `Shadow of ${s.profile}: no decisions yet`
    : `Agrees with ${s.profile} in ${agreement(s)} of ${many(s.decisions, 'decision')}`;
}

/** Returns the scheduler names of the profiles that schedule pods. */
export function schedulerNames(profiles: SchedulerProfile[]): string[] {
  return profiles.map(p => profileRow(p).schedulerName).filter(name => name);
}
