// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// What the tests share: Headlamp's surroundings of a page, and an API server that answers what a
// test says. Of Headlamp itself, all but the browser's database is real.

import '@kinvolk/headlamp-plugin/lib'; // its routes
import '@testing-library/jest-dom/vitest';
import {
  darkTheme,
  lightTheme,
} from '@kinvolk/headlamp-plugin/lib/components/App/defaultAppThemes';
import { createMuiTheme } from '@kinvolk/headlamp-plugin/lib/lib/themes';
import store from '@kinvolk/headlamp-plugin/lib/redux/stores/store';
import { ThemeProvider } from '@mui/material/styles';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, render } from '@testing-library/react';
import axe from 'axe-core';
import React from 'react';
import { Provider } from 'react-redux';
import { MemoryRouter } from 'react-router-dom';
import explanations from '../fixtures/explanations.json';
import pendingKinds from '../fixtures/pendingkinds.json';
import profiles from '../fixtures/profiles.json';
import { ExplanationView, WhyView } from './explanation';
import { PendingKindList, PodExplanation, SchedulerProfileList } from './types';

/** What livesched's own pages show for an example. null stands for an empty list. */
export type Example<A, S> = { answer: A; shown: S };

type ShownExplanation = Record<keyof ExplanationView, any> & {
  class: string;
  row: WhyView;
  whyNot: string[] | null;
};

export const explanationExamples = explanations as unknown as Record<
  keyof typeof explanations,
  Example<PodExplanation, ShownExplanation>
>;
export const kindExamples = pendingKinds as unknown as Record<
  keyof typeof pendingKinds,
  Example<PendingKindList, (typeof pendingKinds)['some']['shown']>
>;
export const profileExamples = profiles as unknown as Example<
  SchedulerProfileList,
  (typeof profiles)['shown']
>;

/** The time of the examples. */
export const now = '2000-01-01T00:00:00Z';

/** The paths that the pages ask. */
export const api = '/apis/visibility.livesched.io/v1alpha1';
export const profilesPath = '/apis/livesched.io/v1alpha1/schedulerprofiles';
export const podPath = (namespace: string, name: string) =>
  `${api}/namespaces/${namespace}/podexplanations/${name}`;

/** An API server: answers by path, which tests may change, and the requests so far. */
export class Server {
  readonly answers: Record<string, unknown> = {};
  readonly requests: string[] = [];

  /** Answers a request for a path, with or without its query. */
  fetch = async (url: string): Promise<Response> => {
    const path = url.replace(/^https?:\/\/[^/]+(\/clusters\/main)?/, '');
    this.requests.push(path);
    const answer = this.answers[path] ?? this.answers[path.replace(/\?.*/, '')];
    if (answer instanceof Failure) {
      return answer.response();
    }
    return answer === undefined
      ? new Failure(404, undefined).response()
      : new Response(JSON.stringify(answer), { status: 200 });
  };

  /** Returns how often a path was asked for. */
  count(path: string): number {
    return this.requests.filter(r => r.replace(/\?.*/, '') === path).length;
  }
}

/** An answer that is an error, with the message of a Status or, without one, as plain text. */
export class Failure {
  constructor(readonly status: number, readonly message: string | undefined) {}

  response(): Response {
    const body = this.message === undefined ? 'page' : JSON.stringify({ message: this.message });
    return new Response(body, { status: this.status, statusText: `Status ${this.status}` });
  }
}

let server: Server;

/** Begins a test: the time stands still until `pass`, and the returned API server answers. */
export function begin(): Server {
  vi.useFakeTimers({ now: new Date(now) });
  vi.stubGlobal('indexedDB', emptyDatabase);
  window.history.replaceState({}, '', '/c/main/livesched');
  server = new Server();
  vi.stubGlobal('fetch', server.fetch);
  return server;
}

/** Ends a test. */
export function end() {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
}

/** Headlamp's database of kubeconfigs, without any. */
const emptyDatabase = {
  open: () => {
    const cursor: any = {};
    const objectStore = () => ({
      openCursor: () => {
        queueMicrotask(() => cursor.onsuccess({ target: { result: null } }));
        return cursor;
      },
    });
    const request: any = {};
    const result = { transaction: () => ({ objectStore }) };
    queueMicrotask(() => request.onsuccess({ target: { result } }));
    return request;
  },
};

/** Shows a page as Headlamp does, and waits until the first answers are there. */
export async function show(page: React.ReactElement) {
  const shown = render(surrounded(page));
  for (let answers = 0; answers < 3; answers++) {
    await pass(0); // an answer leads to the next request
  }
  return shown;
}

/** Surrounds a page with what Headlamp surrounds it with. */
export function surrounded(page: React.ReactElement, dark = false) {
  const theme = createMuiTheme(dark ? darkTheme : lightTheme);
  return (
    <Provider store={store}>
      <ThemeProvider theme={theme}>
        <QueryClientProvider client={new QueryClient()}>
          <MemoryRouter>{page}</MemoryRouter>
        </QueryClientProvider>
      </ThemeProvider>
    </Provider>
  );
}

/** Lets time pass. */
export async function pass(ms: number) {
  await act(async () => {
    await vi.advanceTimersByTimeAsync(ms);
  });
}

/** Returns what axe finds wrong with a page. jsdom does no layout, so it finds nothing of colours. */
export async function inaccessible(container: Element): Promise<string[]> {
  vi.useRealTimers();
  const found = await axe.run(container, { rules: { 'color-contrast': { enabled: false } } });
  return found.violations.map(v => `${v.id}: ${v.nodes.map(n => n.html).join(' ')}`);
}
