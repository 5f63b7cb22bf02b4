// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

import { setNamespaceFilter } from '@kinvolk/headlamp-plugin/lib/redux/filterSlice';
import store from '@kinvolk/headlamp-plugin/lib/redux/stores/store';
import { act, fireEvent, screen, within } from '@testing-library/react';
import { explainEvery, listEvery, PendingPods } from './PendingPods';
import {
  api,
  begin,
  end,
  explanationExamples,
  Failure,
  inaccessible,
  kindExamples,
  pass,
  podPath,
  Server,
  show,
} from './testing';

const all = `${api}/pendingkinds`;
const of = (namespace: string) => `${api}/namespaces/${namespace}/pendingkinds`;
const items = kindExamples.some.answer.items ?? [];

let server: Server;

beforeEach(() => {
  server = begin();
  server.answers[all] = kindExamples.some.answer;
  server.answers[api] = {};
  server.answers['/api/v1/namespaces'] = { items: [], metadata: {} };
  const examples = [
    explanationExamples.fitsWhenFreed,
    explanationExamples.neverFits,
    explanationExamples.spread,
    explanationExamples.waitsForTurn,
  ];
  items.forEach((k, i) => {
    server.answers[podPath(k.namespace, k.pod)] = examples[i].answer;
  });
});
afterEach(() => {
  end();
  act(() => {
    store.dispatch(setNamespaceFilter([]));
  });
});

/** Returns the groups of rows, one for each kind. */
const kinds = () => screen.getAllByRole('rowgroup').slice(1);

test('each kind has a row with what waits, and one with why', async () => {
  const { shown } = kindExamples.some;
  const { container } = await show(<PendingPods />);
  expect(server.requests).toContain(`${all}?limit=50`);
  expect(container.textContent).toContain(`${shown.text} ${shown.oldest}`);
  expect(kinds()).toHaveLength(items.length);
  await pass(1000);
  shown.rows.forEach((row, i) => {
    const [first, second] = within(kinds()[i]).getAllByRole('row');
    for (const text of [row.name, row.place, row.age, row.requests]) {
      expect(first).toHaveTextContent(text);
    }
    const k = items[i];
    const link = within(first).getByRole('link', { name: row.name });
    expect(link).toHaveAttribute('href', `/c/main/pods/${k.namespace}/${k.pod}`);
    const { headline, why, nodes, help, tried } = [
      explanationExamples.fitsWhenFreed,
      explanationExamples.neverFits,
      explanationExamples.spread,
      explanationExamples.waitsForTurn,
    ][i].shown.row;
    expect(second).toHaveTextContent(`${headline}.${why && ` ${nodes}: ${why}.`}`);
    if (help) {
      expect(second).toHaveTextContent((tried ? 'Would help: ' : 'Might help, not tried: ') + help);
    }
  });
});

test('until a kind is explained, its latest decision is shown', async () => {
  await show(<PendingPods />);
  expect(kinds()[1]).toHaveTextContent('Unschedulable 400 Insufficient memory');
  expect(kinds()[3]).toHaveTextContent('Not tried yet');
  await pass(1000);
  expect(kinds()[1]).not.toHaveTextContent('400 Insufficient memory');
  expect(kinds()[3]).toHaveTextContent('It fits, and waits for its turn.');
});

test('it is accessible', async () => {
  const { container } = await show(<PendingPods />);
  await pass(1000);
  expect(await inaccessible(container)).toEqual([]);
});

test('kinds can be ordered by age', async () => {
  const { container } = await show(<PendingPods />);
  const oldestFirst = () => kinds().map(k => within(k).getAllByRole('cell')[1].textContent);
  const header = screen.getByRole('columnheader', { name: 'Oldest' });
  expect(header).not.toHaveAttribute('aria-sort');
  fireEvent.click(within(header).getByRole('button'));
  expect(header).toHaveAttribute('aria-sort', 'descending');
  expect(oldestFirst()).toEqual(['14 min', '12 min', '10 min', '9 min']);
  fireEvent.click(within(screen.getByRole('columnheader', { name: 'Pods' })).getByRole('button'));
  expect(container.querySelector('[aria-sort]')).toHaveTextContent('Pods');
});

test('kinds are listed again, and explained once a minute', async () => {
  await show(<PendingPods />);
  await pass(1000);
  expect(server.count(all)).toBe(1);
  const first = podPath(items[0].namespace, items[0].pod);
  expect(server.requests).toContain(`${first}?maxAge=55s`);
  server.answers[all] = kindExamples.one.answer;
  await pass(listEvery);
  expect(server.count(all)).toBe(2);
  expect(kinds()).toHaveLength(1);
  expect(server.count(first)).toBe(1);
  await pass(explainEvery);
  expect(server.count(first)).toBe(2);
});

test('with many kinds, the largest ten are explained, and more can be shown', async () => {
  server.answers[all] = kindExamples.more.answer;
  await show(<PendingPods />);
  await pass(5_000);
  const asked = new Set(server.requests.filter(r => r.includes('podexplanations')));
  expect(asked.size).toBe(10);
  expect(screen.getByText(/^3 more kinds\./)).toBeInTheDocument();
  fireEvent.click(screen.getByRole('button', { name: 'Show up to 500' }));
  await pass(0);
  expect(server.requests).toContain(`${all}?limit=500`);
});

test('if no pod waits, it says so', async () => {
  server.answers[all] = kindExamples.none.answer;
  await show(<PendingPods />);
  expect(screen.getByText('No pod waits.')).toBeInTheDocument();
  expect(screen.queryByRole('table')).toBeNull();
});

test('the namespaces that are chosen in Headlamp are asked for one by one', async () => {
  store.dispatch(setNamespaceFilter(['ml', 'ci']));
  server.answers[of('ml')] = kindExamples.one.answer;
  server.answers[of('ci')] = kindExamples.none.answer;
  await show(<PendingPods />);
  expect(server.count(all)).toBe(0);
  expect(screen.getByText('1 pod waits in the namespaces ci, ml in 1 kind.')).toBeInTheDocument();
});

describe('a list that fails', () => {
  test('because of permissions names the role, and the way with fewer permissions', async () => {
    server.answers[all] = new Failure(403, 'pendingkinds is forbidden');
    const { container } = await show(<PendingPods />);
    const note = screen.getByRole('alert');
    expect(note).toHaveTextContent('You may not see this.');
    expect(note).toHaveTextContent('pendingkinds is forbidden');
    expect(note).toHaveTextContent('livesched-viewer permits it, with a ClusterRoleBinding');
    expect(note).toHaveTextContent('choose it above');
    expect(await inaccessible(container)).toEqual([]);
  });

  test('in one namespace names the role', async () => {
    store.dispatch(setNamespaceFilter(['ml']));
    server.answers[of('ml')] = new Failure(403, 'pendingkinds is forbidden');
    await show(<PendingPods />);
    expect(screen.getByRole('alert')).toHaveTextContent('livesched-viewer permits it.');
    expect(screen.getByRole('alert')).not.toHaveTextContent('above');
  });

  test('because the visibility API is not enabled says how to enable it', async () => {
    delete server.answers[all];
    delete server.answers[api];
    await show(<PendingPods />);
    expect(screen.getByRole('alert')).toHaveTextContent('The visibility API is not enabled.');
    expect(screen.getByRole('alert')).toHaveTextContent('visibilityAPI.enabled=true');
  });

  test('for a while is loaded again', async () => {
    server.answers[all] = new Failure(503, 'no replica leads now');
    await show(<PendingPods />);
    expect(screen.getByRole('alert')).toHaveTextContent('It is loaded again by itself.');
    server.answers[all] = kindExamples.one.answer;
    await pass(listEvery);
    expect(screen.getByText('1 pod waits in 1 kind.')).toBeInTheDocument();
  });

  test('in a row leaves the others as they are', async () => {
    server.answers[podPath(items[0].namespace, items[0].pod)] = new Failure(429, 'too many');
    await show(<PendingPods />);
    await pass(1000);
    expect(kinds()[0]).toHaveTextContent('livesched is busy.');
    expect(kinds()[1]).toHaveTextContent(explanationExamples.neverFits.shown.row.headline);
  });
});
