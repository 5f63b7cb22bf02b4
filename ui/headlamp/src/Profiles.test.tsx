// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

import { screen, within } from '@testing-library/react';
import { listEvery, Profiles } from './Profiles';
import {
  begin,
  end,
  Failure,
  inaccessible,
  pass,
  profileExamples,
  profilesPath,
  Server,
  show,
} from './testing';

let server: Server;

beforeEach(() => {
  server = begin();
  server.answers[profilesPath] = profileExamples.answer;
});
afterEach(end);

test('each profile has what the dashboard shows, and leads to its page', async () => {
  await show(<Profiles />);
  const rows = screen.getAllByRole('row').slice(1);
  expect(rows).toHaveLength(profileExamples.shown.length);
  profileExamples.shown.forEach((shown, i) => {
    const cells = within(rows[i])
      .getAllByRole('cell')
      .map(c => c.textContent);
    expect(cells).toEqual([
      `${shown.ready} ${shown.problem}`,
      expect.stringMatching(/^(True|False|Unknown)$/),
      shown.revision || 'none',
      shown.age || '–',
      shown.schedulerName || '–',
      (shown.rollout ? `${shown.rollout} ` : '') + shown.shadow,
    ]);
    expect(within(rows[i]).getByRole('link', { name: shown.name })).toHaveAttribute(
      'href',
      `/c/main/customresources/schedulerprofiles.livesched.io/-/${shown.name}`
    );
  });
  const programmed = (name: string) =>
    within(screen.getByRole('row', { name: new RegExp(`^${name} `) })).getAllByRole('cell')[1];
  expect(programmed('binpack')).toHaveTextContent('True');
  expect(programmed('gpu')).toHaveTextContent('False');
  expect(programmed('stale')).toHaveTextContent('Unknown');
});

test('it is accessible', async () => {
  const { container } = await show(<Profiles />);
  expect(await inaccessible(container)).toEqual([]);
});

test('profiles are listed again', async () => {
  server.answers[profilesPath] = { items: [] };
  await show(<Profiles />);
  expect(screen.getByText('There is no SchedulerProfile.')).toBeInTheDocument();
  server.answers[profilesPath] = profileExamples.answer;
  await pass(listEvery);
  expect(screen.getByRole('link', { name: 'binpack' })).toBeInTheDocument();
});

test.each([
  [
    403,
    'schedulerprofiles is forbidden',
    [
      'You may not see this.',
      'schedulerprofiles is forbidden',
      'livesched-viewer permits it, with a ClusterRoleBinding',
    ],
  ],
  [404, undefined, ['livesched is not installed.']],
  [
    503,
    'etcd has no leader',
    ['livesched cannot answer now.', 'etcd has no leader', 'It is loaded again by itself.'],
  ],
])('a list that fails with status %s says why', async (status, message, words) => {
  server.answers[profilesPath] = new Failure(status, message);
  const { container } = await show(<Profiles />);
  for (const text of words) {
    expect(screen.getByRole('alert')).toHaveTextContent(text);
  }
  expect(await inaccessible(container)).toEqual([]);
});
