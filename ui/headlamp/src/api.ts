// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Requests to the API server of the cluster, as the user who is signed in to Headlamp.
//
//   page -> poll -> request -> API server -> livesched, through the aggregation layer
//                           -> SchedulerProfiles, which are ordinary objects
//                -> Problem: what failed, and who can do something about it

import { ApiProxy } from '@kinvolk/headlamp-plugin/lib';
import { PendingKindList, PodExplanation, SchedulerProfileList } from './types';

const visibility = '/apis/visibility.livesched.io/v1alpha1';
const profilesPath = '/apis/livesched.io/v1alpha1/schedulerprofiles';

/** Why something cannot be shown. It is shown in its place. */
export type Problem = {
  /** The status of the answer, 0 if it is no answer. */
  status: number;
  title: string;
  text: string;
  /** What to do about it. */
  help?: string;
  /** Means that it is tried again, and may succeed. */
  retried: boolean;
};

/** An error with what to show for it. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.title);
  }
}

/** Explains a pod. The answer may be as old as maxAge, such as "10s". */
export function explain(cluster: string, namespace: string, name: string, maxAge: string) {
  const pod = `${encodeURIComponent(namespace)}/podexplanations/${encodeURIComponent(name)}`;
  return fromLivesched<PodExplanation>(
    cluster,
    `${visibility}/namespaces/${pod}?maxAge=${maxAge}`,
    'The ClusterRole livesched-viewer permits it.'
  );
}

/** Lists the largest kinds of pending pods of a namespace, or of all if it is undefined. */
export function pendingKinds(cluster: string, namespace: string | undefined, limit: number) {
  const scope = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  return fromLivesched<PendingKindList>(
    cluster,
    `${visibility}${scope}/pendingkinds?limit=${limit}`,
    namespace === undefined
      ? 'The ClusterRole livesched-viewer permits it, with a ClusterRoleBinding. If you may view ' +
          'one namespace only, choose it above.'
      : 'The ClusterRole livesched-viewer permits it.'
  );
}

/** Lists the SchedulerProfiles. */
export async function schedulerProfiles(cluster: string): Promise<SchedulerProfileList> {
  try {
    return await request<SchedulerProfileList>(cluster, profilesPath);
  } catch (error) {
    const problem = problemOf(
      error,
      'The ClusterRole livesched-viewer permits it, with a ClusterRoleBinding.'
    );
    if (problem.status === 404) {
      problem.title = 'livesched is not installed.';
      problem.text = 'The API server does not know SchedulerProfiles.';
    }
    throw new ProblemError(problem);
  }
}

async function fromLivesched<T>(cluster: string, path: string, role: string): Promise<T> {
  try {
    return await request<T>(cluster, path);
  } catch (error) {
    const problem = problemOf(error, role);
    if (problem.status === 404 || problem.status === 503) {
      throw new ProblemError((await apiProblem(cluster)) ?? problem);
    }
    throw new ProblemError(problem);
  }
}

function request<T>(cluster: string, path: string): Promise<T> {
  return ApiProxy.clusterRequest(path, { cluster, autoLogoutOnAuthError: false });
}

/** Returns why the visibility API as a whole cannot be used, undefined if it can. */
async function apiProblem(cluster: string): Promise<Problem | undefined> {
  try {
    await request(cluster, visibility);
    return undefined;
  } catch (error) {
    const { status } = problemOf(error, '');
    const enable =
      'with the flag --visibility-api, or with visibilityAPI.enabled=true in the Helm chart';
    switch (status) {
      case 404:
        return {
          status,
          title: 'The visibility API is not enabled.',
          text: 'The API server does not know visibility.livesched.io.',
          help: `livesched serves it ${enable}.`,
          retried: false,
        };
      case 503:
        return {
          status,
          title: 'The visibility API does not answer.',
          text: 'The API server does not reach livesched for visibility.livesched.io.',
          help:
            `livesched serves it ${enable}. If it is enabled, ` +
            '"kubectl get apiservice v1alpha1.visibility.livesched.io" says what is wrong.',
          retried: true,
        };
    }
    return undefined;
  }
}

const titles: Record<number, string> = {
  0: 'This page does not understand the answer.',
  400: 'livesched does not accept these values.',
  401: 'You are not signed in.',
  403: 'You may not see this.',
  404: 'Not found.',
  408: 'livesched did not answer in time.',
  429: 'livesched is busy.',
  502: 'Headlamp does not reach the cluster.',
  503: 'livesched cannot answer now.',
  504: 'livesched did not answer in time.',
};

/** Returns what to show for an error. The role is what permits the request. */
export function problemOf(error: unknown, role: string): Problem {
  if (error instanceof ProblemError) {
    return error.problem;
  }
  const { message = '', status = 0 } = error as { message?: string; status?: number };
  // Headlamp puts the text of the status before the message of the answer.
  const text = status ? /^.*? - ([^]*)$/.exec(message)?.[1] ?? message : message;
  return {
    status,
    title: titles[status] ?? 'livesched failed to answer.',
    text: text === 'undefined' ? '' : text,
    help: status === 403 ? role : undefined,
    retried: status === 408 || status === 429 || status >= 500,
  };
}
