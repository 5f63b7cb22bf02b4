// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

import './index';
import * as lib from '@kinvolk/headlamp-plugin/lib';
import { screen } from '@testing-library/react';
import React from 'react';
import {
  begin,
  end,
  explanationExamples,
  podPath,
  profileExamples,
  profilesPath,
  show,
} from './testing';

vi.mock('@kinvolk/headlamp-plugin/lib', async original => ({
  ...(await original<typeof lib>()),
  registerDetailsViewSection: vi.fn(),
  registerRoute: vi.fn(),
  registerSidebarEntry: vi.fn(),
}));

const sections = vi.mocked(lib.registerDetailsViewSection).mock.calls.map(([section]) => section);
const routes = vi.mocked(lib.registerRoute).mock.calls.map(([route]) => route);
const entries = vi.mocked(lib.registerSidebarEntry).mock.calls.map(([entry]) => entry);

beforeEach(() => {
  begin().answers[profilesPath] = profileExamples.answer;
});
afterEach(end);

test('the sidebar has an entry for each page', () => {
  expect(entries.map(e => e.label)).toEqual(['Scheduling', 'Pending pods', 'Profiles']);
  for (const entry of entries) {
    expect(routes.map(r => r.path)).toContain(entry.url);
  }
  for (const route of routes) {
    const entry = entries.find(e => e.name === route.sidebar);
    expect(entry).toMatchObject({ parent: 'livesched', url: route.path });
  }
});

test('each route has a page', async () => {
  for (const [label, title] of [
    ['Pending pods', 'Pending pods'],
    ['Profiles', 'Scheduler profiles'],
  ]) {
    const Page = routes.find(r => r.name === label)?.component as React.ComponentType;
    const { unmount } = await show(<Page />);
    expect(screen.getByRole('heading', { level: 1, name: title })).toBeInTheDocument();
    unmount();
  }
});

test('the page of a pod has the section, and other pages do not', async () => {
  const [section] = sections as ((props: object) => React.ReactElement | null)[];
  expect(sections).toHaveLength(1);
  expect(section({ resource: { kind: 'Deployment' } })).toBeNull();
  expect(section({ resource: undefined })).toBeNull();
  const server = begin();
  server.answers[profilesPath] = profileExamples.answer;
  server.answers[podPath('ml', 'llama-train-0')] = explanationExamples.fitsWhenFreed.answer;
  const resource = {
    kind: 'Pod',
    cluster: 'main',
    jsonData: {
      metadata: { namespace: 'ml', name: 'llama-train-0' },
      spec: { schedulerName: 'gpu' },
    },
  };
  await show(<>{section({ resource })}</>);
  expect(screen.getByRole('heading', { name: 'Scheduling' })).toBeInTheDocument();
});
