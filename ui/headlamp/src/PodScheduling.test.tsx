// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

import { screen, within } from '@testing-library/react';
import { explainEvery, Pod, PodScheduling } from './PodScheduling';
import {
  api,
  begin,
  end,
  explanationExamples,
  Failure,
  inaccessible,
  pass,
  podPath,
  profileExamples,
  profilesPath,
  Server,
  show,
  surrounded,
} from './testing';
import { PodExplanation } from './types';
import { refusal } from './words';

let server: Server;

beforeEach(() => {
  server = begin();
  server.answers[profilesPath] = profileExamples.answer;
  server.answers[api] = {};
});
afterEach(end);

const pod: Pod = {
  cluster: 'main',
  namespace: 'ml',
  name: 'llama-train-0',
  schedulerName: 'gpu',
  node: '',
};
const path = podPath('ml', 'llama-train-0');

/** Shows the section of a pod with an explanation. */
function showExplained(explanation: unknown, of: Pod = pod) {
  server.answers[path] = explanation;
  return show(<PodScheduling pod={of} />);
}

describe.each(Object.entries(explanationExamples))('a pod that is %s', (_, { answer, shown }) => {
  test('has what the dashboard shows', async () => {
    const { container } = await showExplained(answer);
    expect(screen.getByRole('heading', { name: 'Scheduling' })).toBeInTheDocument();
    const text = container.textContent ?? '';
    const expected = [
      `${shown.headline}.`,
      answer.message ?? '',
      ...(shown.facts ?? []).flatMap((f: { name: string; text: string }) => [f.name, f.text]),
      ...(shown.tried ?? []),
      ...(shown.untried ?? []),
      ...(shown.shortage ?? []),
      ...(shown.whyNot ?? []),
      ...(shown.refusals ?? []),
      ...(shown.waits ?? []),
      shown.group,
      shown.scores?.equal ?? '',
      ...(shown.scores?.plugins ?? []),
    ];
    for (const words of expected) {
      expect(text).toContain(words);
    }
  });

  test('is accessible', async () => {
    const { container } = await showExplained(answer);
    expect(await inaccessible(container)).toEqual([]);
  });
});

test('groups of nodes have their number, pools, plugins and an example', async () => {
  const { answer } = explanationExamples.fitsWhenFreed;
  await showExplained(answer);
  const rows = within(screen.getByRole('table', { name: /^Nodes that refuse/ })).getAllByRole(
    'row'
  );
  expect(rows).toHaveLength(1 + (answer.pending?.groups ?? []).length);
  const [group] = answer.pending?.groups ?? [];
  const cells = within(rows[1]).getAllByRole('cell');
  expect(cells.map(c => c.textContent)).toEqual([
    '56',
    'a100',
    refusal((group.refusals ?? [])[0]),
    'NodeResourcesFit',
    group.example,
  ]);
  expect(within(cells[4]).getByRole('link')).toHaveAttribute(
    'href',
    `/c/main/nodes/${group.example}`
  );
});

test('an example node that the user may not see is hidden', async () => {
  const answer = structuredClone(explanationExamples.fitsWhenFreed.answer);
  answer.pending?.groups?.forEach(g => delete g.example);
  await showExplained(answer);
  expect(screen.getAllByRole('cell', { name: 'hidden' })).toHaveLength(3);
});

test('tried help stands apart from help that was not tried', async () => {
  await showExplained(explanationExamples.fitsWhenFreed.answer);
  const listBelow = (title: RegExp) =>
    screen.getByRole('heading', { name: title }).nextElementSibling as HTMLElement;
  expect(within(listBelow(/^Would help each tried/)).getAllByRole('listitem')).toHaveLength(2);
  expect(within(listBelow(/^Might help not tried/)).getAllByRole('listitem')).toHaveLength(1);
});

test('preempted pods lead to their pages', async () => {
  const { container } = await showExplained(explanationExamples.waitsForVictims.answer);
  expect(screen.getByRole('link', { name: 'batch/low-0' })).toHaveAttribute(
    'href',
    '/c/main/pods/batch/low-0'
  );
  expect(container.textContent).toContain(
    'of job/low, terminating for 25 s, held by the finalizers example.com/hold'
  );
});

test('a bound pod has the scores of the best nodes, with its own marked', async () => {
  const { answer } = explanationExamples.bound;
  await showExplained(answer);
  const rows = within(screen.getByRole('table', { name: 'Scores of nodes by plugin' }));
  const node = answer.bound?.node ?? '';
  const chosen = rows.getByRole('row', { name: new RegExp('chosen') });
  expect(within(chosen).getByRole('link', { name: node })).toHaveAttribute(
    'href',
    `/c/main/nodes/${node}`
  );
  expect(
    within(chosen)
      .getAllByRole('cell')
      .map(c => c.textContent)
  ).toEqual(['367', '91']);
});

test('a bound pod on a hidden node has no link to it', async () => {
  await showExplained(explanationExamples.boundOnHiddenNode.answer);
  expect(screen.getAllByRole('rowheader', { name: '(hidden)' })).toHaveLength(3);
  expect(screen.queryByRole('link')).toBeNull();
  expect(screen.getByText('Node names are hidden: you may not list nodes.')).toBeInTheDocument();
});

test('a pending pod is explained again, until it is bound', async () => {
  await showExplained(explanationExamples.fitsWhenFreed.answer);
  expect(server.requests).toContain(`${path}?maxAge=10s`);
  expect(server.count(path)).toBe(1);
  await pass(explainEvery - 1);
  expect(server.count(path)).toBe(1);
  server.answers[path] = explanationExamples.bound.answer;
  await pass(1);
  expect(server.count(path)).toBe(2);
  expect(screen.getByText(/^It is on the node ip-10-21-0-7/)).toBeInTheDocument();
  await pass(10 * explainEvery);
  expect(server.count(path)).toBe(2);
});

test('a page that nobody sees asks nothing', async () => {
  await showExplained(explanationExamples.fitsWhenFreed.answer);
  const hidden = vi.spyOn(document, 'hidden', 'get').mockReturnValue(true);
  await pass(10 * explainEvery);
  expect(server.count(path)).toBe(1);
  hidden.mockReturnValue(false);
  document.dispatchEvent(new Event('visibilitychange'));
  await pass(0);
  expect(server.count(path)).toBe(2);
  hidden.mockRestore();
});

test('a pod that gets its node is explained at once', async () => {
  const { rerender } = await showExplained(explanationExamples.fitsWhenFreed.answer);
  server.answers[path] = explanationExamples.bound.answer;
  rerender(surrounded(<PodScheduling pod={{ ...pod, node: 'ip-10-21-0-7' }} />));
  await pass(0);
  expect(server.count(path)).toBe(2);
});

test('a page that is left asks nothing', async () => {
  const { unmount } = await showExplained(explanationExamples.fitsWhenFreed.answer);
  unmount();
  const before = server.requests.length;
  await pass(10 * explainEvery);
  expect(server.requests).toHaveLength(before);
});

describe('a pod of another scheduler', () => {
  test('has no section', async () => {
    const { container } = await showExplained(explanationExamples.bound.answer, {
      ...pod,
      schedulerName: 'kube',
    });
    expect(container).toBeEmptyDOMElement();
    expect(server.count(path)).toBe(0);
  });

  test('has no section where livesched is not installed', async () => {
    delete server.answers[profilesPath];
    const { container } = await showExplained(explanationExamples.bound.answer);
    expect(container).toBeEmptyDOMElement();
  });
});

describe('a user who may not list profiles', () => {
  beforeEach(() => {
    server.answers[profilesPath] = new Failure(403, 'schedulerprofiles is forbidden');
  });

  test('sees the explanation of a pod of livesched', async () => {
    await showExplained(explanationExamples.fitsWhenFreed.answer);
    expect(screen.getByText('No node can take it now (of 400).')).toBeInTheDocument();
  });

  test('sees nothing about the pod of another scheduler', async () => {
    const other: PodExplanation = {
      ...explanationExamples.noProfile.answer,
      verdict: 'OtherScheduler',
    };
    const { container } = await showExplained(other);
    expect(server.count(path)).toBe(1);
    expect(container).toBeEmptyDOMElement();
  });

  test('sees which role permits explanations', async () => {
    await showExplained(new Failure(403, 'podexplanations is forbidden'));
    expect(screen.getByRole('alert')).toHaveTextContent('podexplanations is forbidden');
    expect(screen.getByRole('alert')).toHaveTextContent(
      'The ClusterRole livesched-viewer permits it.'
    );
  });
});

describe('an explanation that fails', () => {
  test.each([
    [
      403,
      'User "eve" cannot get resource "podexplanations"',
      [
        'You may not see this.',
        'User "eve" cannot',
        'The ClusterRole livesched-viewer permits it.',
      ],
    ],
    [404, 'pods "llama-train-0" not found', ['Not found.', 'pods "llama-train-0" not found']],
    [429, 'too many explanations', ['livesched is busy.', 'It is loaded again by itself.']],
    [503, 'no replica leads now', ['livesched cannot answer now.', 'no replica leads now']],
    [500, 'a plugin panicked', ['livesched failed to answer.', 'a plugin panicked']],
    [504, undefined, ['livesched did not answer in time.']],
  ])('with status %s says why', async (status, message, words) => {
    const { container } = await showExplained(new Failure(status, message));
    for (const text of words) {
      expect(screen.getByRole('alert')).toHaveTextContent(text);
    }
    expect(await inaccessible(container)).toEqual([]);
  });

  test('because the visibility API is not enabled says how to enable it', async () => {
    delete server.answers[api];
    await showExplained(undefined);
    const note = screen.getByRole('alert');
    expect(note).toHaveTextContent('The visibility API is not enabled.');
    expect(note).toHaveTextContent('--visibility-api');
    expect(note).toHaveTextContent('visibilityAPI.enabled=true');
  });

  test('because the visibility API is not reachable says how to find out why', async () => {
    server.answers[api] = new Failure(503, undefined);
    await showExplained(new Failure(503, undefined));
    const note = screen.getByRole('alert');
    expect(note).toHaveTextContent('The visibility API does not answer.');
    expect(note).toHaveTextContent('kubectl get apiservice v1alpha1.visibility.livesched.io');
    expect(note).toHaveTextContent('visibilityAPI.enabled=true');
  });

  test('because nothing answers says so', async () => {
    server.answers[path] = explanationExamples.fitsWhenFreed.answer;
    vi.stubGlobal('fetch', async (url: string) => {
      if (url.includes('podexplanations')) {
        throw new TypeError('Failed to fetch');
      }
      return server.fetch(url);
    });
    await show(<PodScheduling pod={pod} />);
    expect(screen.getByRole('alert')).toHaveTextContent('Headlamp does not reach the cluster.');
  });

  test('is loaded again', async () => {
    await showExplained(new Failure(503, 'no replica leads now'));
    server.answers[path] = explanationExamples.fitsWhenFreed.answer;
    await pass(explainEvery);
    expect(screen.queryByRole('alert')).toBeNull();
    expect(screen.getByText('No node can take it now (of 400).')).toBeInTheDocument();
  });
});
