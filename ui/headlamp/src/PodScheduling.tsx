// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// The section of a pod's page: why the pod waits, or why it is on its node.

import {
  Link,
  Loader,
  NameValueTable,
  SectionBox,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Table, TableBody, TableCell, TableHead, TableRow, Typography } from '@mui/material';
import { explain, schedulerProfiles } from './api';
import { ExplanationView, explanationView, ScoresView } from './explanation';
import { Dim, forReaders, Heading, List, ProblemNote, Scroll, Tag } from './parts';
import { schedulerNames } from './profiles';
import { NodeGroup, PodExplanation, PodGroupFit, PodReference, Refusal, Suggestion } from './types';
import { Loaded, usePoll } from './usePoll';
import { age, grouped, hiddenNode, refusal, whyNot } from './words';

/** How often a pending pod is explained again, and how often profiles are listed, in ms. */
export const explainEvery = 15_000;
const profilesEvery = 60_000;

/** The part of a pod that the section needs. */
export type Pod = {
  cluster: string;
  namespace: string;
  name: string;
  schedulerName: string;
  node: string;
};

/** The section of a pod that is one of livesched's. For other pods, there is none. */
export function PodScheduling({ pod }: { pod: Pod }) {
  const profiles = usePoll(
    pod.cluster,
    () => schedulerProfiles(pod.cluster),
    () => profilesEvery
  );
  if (!profiles.data && !profiles.problem) {
    return null;
  }
  if (profiles.data) {
    const names = schedulerNames(profiles.data.items ?? []);
    return names.includes(pod.schedulerName) ? <Explanation pod={pod} known /> : null;
  }
  // Users who may view a namespace only may not list profiles. Then the explanation tells whether
  // the pod is one of livesched's. Without the custom resource, no pod is.
  return profiles.problem?.status === 404 ? null : <Explanation pod={pod} known={false} />;
}

/** Explains a pod. If it is not known to be one of livesched's, the explanation decides that. */
function Explanation({ pod, known }: { pod: Pod; known: boolean }) {
  const { cluster, namespace, name } = pod;
  const loaded = usePoll(
    [cluster, namespace, name, pod.node].join('/'),
    () => explain(cluster, namespace, name, '10s'),
    ({ data }) => (data?.bound ? 0 : explainEvery)
  );
  if (!known && (loaded.data ? !loaded.data.profile : !loaded.problem)) {
    return null;
  }
  return (
    <SectionBox title="Scheduling">
      <Content loaded={loaded} cluster={cluster} />
    </SectionBox>
  );
}

function Content({ loaded, cluster }: { loaded: Loaded<PodExplanation>; cluster: string }) {
  if (loaded.problem) {
    return <ProblemNote problem={loaded.problem} />;
  }
  if (!loaded.data) {
    return <Loader title="Loading why the pod waits, or why it is on its node" />;
  }
  const e = loaded.data;
  const v = explanationView(e);
  const p = e.pending;
  return (
    <>
      <Typography component="div" sx={{ mb: 1 }}>
        <Tag tone={v.tone}>{v.headline}.</Tag>
      </Typography>
      {e.message && <Typography sx={{ mb: 1, overflowWrap: 'anywhere' }}>{e.message}</Typography>}
      <Facts view={v} cluster={cluster} />
      <Suggestions
        title="Would help"
        note="each tried in a copy of the cluster"
        suggestions={v.tried}
        cluster={cluster}
      />
      <Suggestions title="Might help" note="not tried" suggestions={v.untried} cluster={cluster} />
      {v.shortage.length > 0 && <Texts title="What is missing" texts={v.shortage} />}
      {p?.podRefusals && <Refusals refusals={p.podRefusals} />}
      {p?.victims && <Victims victims={p.victims} cluster={cluster} />}
      {p?.groups && <Groups groups={p.groups} cluster={cluster} />}
      {p?.podGroup && <Group text={v.group} group={p.podGroup} />}
      {v.waits.length > 0 && <Texts title="Events after which it is tried again" texts={v.waits} />}
      {v.scores && <Scores scores={v.scores} cluster={cluster} />}
    </>
  );
}

function Facts({ view, cluster }: { view: ExplanationView; cluster: string }) {
  return (
    <NameValueTable
      rows={view.facts.map(f => ({
        name: f.name,
        value: f.node ? <NodeLink name={f.node} cluster={cluster} /> : f.text,
      }))}
    />
  );
}

function NodeLink({ name, cluster }: { name: string; cluster: string }) {
  return (
    <Link routeName="node" params={{ name }} activeCluster={cluster}>
      {name}
    </Link>
  );
}

function Texts({ title, texts }: { title: string; texts: string[] }) {
  return (
    <>
      <Heading>{title}</Heading>
      <List>
        {texts.map(text => (
          <li key={text}>{text}</li>
        ))}
      </List>
    </>
  );
}

function Suggestions(props: {
  title: string;
  note: string;
  suggestions: Suggestion[];
  cluster: string;
}) {
  if (props.suggestions.length === 0) {
    return null;
  }
  return (
    <>
      <Heading note={props.note}>{props.title}</Heading>
      <List>
        {props.suggestions.map(s => (
          <li key={s.description}>
            {s.description} {s.node && <NodeLink name={s.node} cluster={props.cluster} />}
          </li>
        ))}
      </List>
    </>
  );
}

function Refusals({ refusals }: { refusals: Refusal[] }) {
  return (
    <>
      <Heading>Refused on every node</Heading>
      <List>
        {refusals.map((r, i) => (
          <li key={i}>
            {refusal(r)}{' '}
            <Dim>
              {r.plugin}, {r.reason}
            </Dim>
          </li>
        ))}
      </List>
    </>
  );
}

function Victims({ victims, cluster }: { victims: PodReference[]; cluster: string }) {
  return (
    <>
      <Heading>Preempted pods that have not ended</Heading>
      <List>
        {victims.map(({ namespace, name, ...v }) => (
          <li key={`${namespace}/${name}`}>
            <Link routeName="pod" params={{ namespace, name }} activeCluster={cluster}>
              {namespace}/{name}
            </Link>
            {v.controller && ` of ${v.controller}`}
            {v.terminatingSince && `, terminating for ${age(v.terminatingSince)}`}
            {v.finalizers && `, held by the finalizers ${v.finalizers.join(', ')}`}
          </li>
        ))}
      </List>
    </>
  );
}

function Groups({ groups, cluster }: { groups: NodeGroup[]; cluster: string }) {
  return (
    <>
      <Heading>Nodes that refuse it</Heading>
      <Scroll label="Table of nodes that refuse the pod">
        <Table size="small">
          <caption style={forReaders}>Nodes that refuse the pod, the closest first</caption>
          <TableHead>
            <TableRow>
              <TableCell align="right">Nodes</TableCell>
              <TableCell>Pools</TableCell>
              <TableCell>Why not</TableCell>
              <TableCell>Plugins</TableCell>
              <TableCell>Example</TableCell>
            </TableRow>
          </TableHead>
          <TableBody>
            {groups.map((g, i) => (
              <TableRow key={i}>
                <TableCell align="right">{grouped(g.nodes)}</TableCell>
                <TableCell>{(g.pools ?? []).join(', ')}</TableCell>
                <TableCell>{whyNot(g)}</TableCell>
                <TableCell>
                  <Dim>{(g.refusals ?? []).map(r => r.plugin).join(', ')}</Dim>
                </TableCell>
                <TableCell>
                  {g.example ? <NodeLink name={g.example} cluster={cluster} /> : <Dim>hidden</Dim>}
                </TableCell>
              </TableRow>
            ))}
          </TableBody>
        </Table>
      </Scroll>
    </>
  );
}

function Group({ text, group }: { text: string; group: PodGroupFit }) {
  const tried = group.tried ?? [];
  return (
    <>
      <Heading>Pod group</Heading>
      <Typography>{text}</Typography>
      {tried.length > 1 && (
        <Scroll label="Table of domains">
          <Table size="small" sx={{ width: 'auto' }}>
            <caption style={{ captionSide: 'top' }}>Domains that were tried</caption>
            <TableHead>
              <TableRow>
                <TableCell>Domain</TableCell>
                <TableCell align="right">Fit</TableCell>
              </TableRow>
            </TableHead>
            <TableBody>
              {tried.map((d, i) => (
                <TableRow key={i}>
                  <TableCell component="th" scope="row">
                    {d.domain || 'the cluster'}
                  </TableCell>
                  <TableCell align="right">{grouped(d.fit)}</TableCell>
                </TableRow>
              ))}
            </TableBody>
          </Table>
        </Scroll>
      )}
    </>
  );
}

function Scores({ scores, cluster }: { scores: ScoresView; cluster: string }) {
  return (
    <>
      <Heading>Nodes with the highest totals</Heading>
      <Scroll label="Table of scores">
        <Table size="small">
          <caption style={forReaders}>Scores of nodes by plugin</caption>
          <TableHead>
            <TableRow>
              <TableCell>Node</TableCell>
              <TableCell align="right">Total</TableCell>
              {scores.plugins.map(plugin => (
                <TableCell key={plugin} align="right">
                  {plugin}
                </TableCell>
              ))}
            </TableRow>
          </TableHead>
          <TableBody>
            {scores.rows.map((row, i) => (
              <TableRow key={i}>
                <TableCell component="th" scope="row">
                  {row.node === hiddenNode ? (
                    row.node
                  ) : (
                    <NodeLink name={row.node} cluster={cluster} />
                  )}
                  {row.chosen && <strong> chosen</strong>}
                </TableCell>
                <TableCell align="right">{grouped(row.total)}</TableCell>
                {row.scores.map((score, j) => (
                  <TableCell key={j} align="right">
                    {grouped(score)}
                  </TableCell>
                ))}
              </TableRow>
            ))}
          </TableBody>
        </Table>
      </Scroll>
      {scores.equal && (
        <div>
          <Dim>Equal on these nodes: {scores.equal}.</Dim>
        </div>
      )}
      {scores.hidden && (
        <div>
          <Dim>Node names are hidden: you may not list nodes.</Dim>
        </div>
      )}
    </>
  );
}
