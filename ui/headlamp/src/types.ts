// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// What livesched answers: the types of api/v1alpha1, as JSON, as far as the pages show them.

export type PodExplanation = {
  metadata: { namespace: string; name: string };
  time?: string;
  verdict: string;
  message?: string;
  schedulerName: string;
  profile?: string;
  revision?: string;
  nodes: number;
  feasible: number;
  pending?: PendingExplanation;
  bound?: BoundExplanation;
};

export type PendingExplanation = {
  reason?: string;
  since?: string;
  place?: string;
  attempts?: number;
  nextTry?: string;
  alike?: number;
  nominatedNode?: string;
  gates?: string[];
  gatingPlugin?: string;
  gatingMessage?: string;
  victims?: PodReference[];
  podRefusals?: Refusal[];
  groups?: NodeGroup[];
  suggestions?: Suggestion[];
  waitsFor?: { event: string; plugins: string[] }[];
  podGroup?: PodGroupFit;
};

export type PodReference = {
  namespace: string;
  name: string;
  controller?: string;
  terminatingSince?: string;
  finalizers?: string[];
};

export type NodeGroup = {
  nodes: number;
  pools: string[] | null;
  refusals: Refusal[] | null;
  partial?: boolean;
  example?: string;
};

export type Refusal = {
  plugin: string;
  reason: string;
  detail?: string;
  messages?: string[];
  shortBy?: Shortage[];
};

export type Shortage = {
  resource: string;
  quantity: string;
  nodes: number;
  most?: string;
};

export type Suggestion = {
  type: string;
  description: string;
  node?: string;
  verified: boolean;
  fits?: number;
};

export type PodGroupFit = {
  name: string;
  composite?: boolean;
  needed: number;
  ready: number;
  fit: number;
  domain?: string;
  tried?: { domain?: string; fit: number }[];
  incomplete?: boolean;
};

export type BoundExplanation = {
  node: string;
  basis: string;
  changes?: number;
  decided?: string;
  tied?: number;
  top?: NodeScore[];
};

export type NodeScore = { node: string; total: number; scores?: Record<string, number> };

export type PendingKindList = {
  items: PendingKind[] | null;
  kinds: number;
  pods: number;
};

export type PendingKind = {
  namespace: string;
  pod: string;
  id: string;
  owner?: string;
  podGroup?: string;
  profile: string;
  schedulerName: string;
  pods: number;
  active?: number;
  backoff?: number;
  unschedulable?: number;
  gated?: number;
  since?: string;
  requests?: Record<string, string>;
  result?: string;
  message?: string;
};

export type SchedulerProfile = {
  metadata: { name: string; generation?: number };
  spec?: { schedulerName?: string; mode?: string; shadow?: { profileRef: { name: string } } };
  status?: {
    conditions?: Condition[];
    schedulerName?: string;
    active?: { revision: string; since: string | null };
    rollout?: RolloutStatus;
    shadow?: ShadowStatus;
  };
};

export type Condition = {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  observedGeneration?: number;
};

export type RolloutStatus = {
  phase: string;
  message?: string;
  canaryRevision?: string;
  stage?: string;
  weight: number;
};

export type ShadowStatus = { profile: string; decisions: number; agreed: number };

export type SchedulerProfileList = { items: SchedulerProfile[] | null };
