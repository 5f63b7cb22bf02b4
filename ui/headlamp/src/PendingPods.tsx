// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// The page of pending pods: those that are alike are one kind, with one row.

import { K8s } from '@kinvolk/headlamp-plugin/lib';
import {
  Link,
  Loader,
  SectionBox,
  SectionFilterHeader,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import {
  Button,
  Table,
  TableBody,
  TableCell,
  TableHead,
  TableRow,
  TableSortLabel,
  Typography,
} from '@mui/material';
import React from 'react';
import { useSelector } from 'react-redux';
import { explain, pendingKinds } from './api';
import { whyView } from './explanation';
import { byAge, joined, kindName, placeWords, requestsWords, verdictWords } from './kinds';
import { Dim, forReaders, ProblemNote, Scroll, Tag } from './parts';
import { PendingKind, PendingKindList } from './types';
import { usePoll } from './usePoll';
import { age, grouped, resultTone, shortReason } from './words';

/** How often the kinds are listed, in ms. livesched counts them every 3 s at most. */
export const listEvery = 5_000;
/** How many kinds are listed, and how many if asked for all. */
const listed = 50;
const most = 500;
/**
 * How many of the largest kinds are explained in their rows, and how often. Explanations may be a
 * little younger, so that livesched explains a kind once in that time, however many people look.
 */
const explained = 10;
export const explainEvery = 60_000;
const explainedFor = '55s';

export function PendingPods() {
  const cluster = K8s.useCluster() ?? '';
  const selected = useSelector((state: { filter: { namespaces: Set<string> } }) => state.filter);
  const namespaces = [...selected.namespaces].sort();
  const [all, setAll] = React.useState(false);
  const limit = all ? most : listed;
  const { data, problem } = usePoll(
    JSON.stringify([cluster, namespaces, limit]),
    () => load(cluster, namespaces, limit),
    () => listEvery
  );
  const [text, oldest] = data ? verdictWords(data, namespaces) : ['', ''];
  const items = data?.items ?? [];
  const left = Math.max((data?.kinds ?? 0) - items.length, 0);
  return (
    <SectionBox title={<SectionFilterHeader title="Pending pods" />}>
      {problem && <ProblemNote problem={problem} />}
      {!data && !problem && <Loader title="Loading pending pods" />}
      {data && (
        <Typography sx={{ mb: 2 }}>
          <strong>{text}</strong> {oldest}
        </Typography>
      )}
      {items.length > 0 && <Kinds items={items} cluster={cluster} />}
      {left > 0 && (
        <Typography sx={{ mt: 2 }} component="div">
          {grouped(left)} more kinds.{' '}
          {!all && <Button onClick={() => setAll(true)}>Show up to 500</Button>}
        </Typography>
      )}
    </SectionBox>
  );
}

/** Lists the kinds of the namespaces, or of all if there are none. */
async function load(
  cluster: string,
  namespaces: string[],
  limit: number
): Promise<PendingKindList> {
  if (namespaces.length === 0) {
    return pendingKinds(cluster, undefined, limit);
  }
  return joined(await Promise.all(namespaces.map(name => pendingKinds(cluster, name, limit))));
}

type Order = 'pods' | 'age';

function Kinds({ items, cluster }: { items: PendingKind[]; cluster: string }) {
  const [order, setOrder] = React.useState<Order>('pods');
  const largest = new Set(items.slice(0, explained));
  const rows = order === 'pods' ? items : [...items].sort(byAge);
  const sortable = (name: Order, label: string) => (
    <TableCell align="right" sortDirection={order === name ? 'desc' : false}>
      <TableSortLabel active={order === name} direction="desc" onClick={() => setOrder(name)}>
        {label}
      </TableSortLabel>
    </TableCell>
  );
  return (
    <Scroll label="Table of pending pods by kind">
      <Table size="small">
        <caption style={forReaders}>
          Pending pods that are alike,{' '}
          {order === 'pods' ? 'with the most pods first' : 'with those that wait longest first'}
        </caption>
        <TableHead>
          <TableRow>
            <TableCell>Waiting</TableCell>
            {sortable('pods', 'Pods')}
            {sortable('age', 'Oldest')}
            <TableCell>In the queue</TableCell>
            <TableCell>Requests of each</TableCell>
            <TableCell>Profile</TableCell>
          </TableRow>
        </TableHead>
        {rows.map((kind, i) => (
          <KindRows
            key={`${kind.namespace}/${kind.id}`}
            kind={kind}
            cluster={cluster}
            explained={largest.has(kind)}
            place={i}
          />
        ))}
      </Table>
    </Scroll>
  );
}

/** The rows of a kind: what waits and, below it, why. */
function KindRows(props: {
  kind: PendingKind;
  cluster: string;
  explained: boolean;
  place: number;
}) {
  const { kind, cluster, place } = props;
  const plain = { borderBottom: 'none', pb: 0, verticalAlign: 'top' };
  return (
    <TableBody>
      <TableRow>
        <TableCell component="th" scope="rowgroup" sx={plain}>
          <Link
            routeName="pod"
            params={{ namespace: kind.namespace, name: kind.pod }}
            activeCluster={cluster}
          >
            {kindName(kind)}
          </Link>
          <div>
            <Dim>
              {kind.namespace}
              {kind.podGroup && ` · group ${kind.podGroup}`}
            </Dim>
          </div>
        </TableCell>
        <TableCell align="right" sx={plain}>
          {grouped(kind.pods)}
        </TableCell>
        <TableCell align="right" sx={{ ...plain, whiteSpace: 'nowrap' }}>
          {age(kind.since)}
        </TableCell>
        <TableCell sx={plain}>{placeWords(kind)}</TableCell>
        <TableCell sx={plain}>{requestsWords(kind.requests)}</TableCell>
        <TableCell sx={plain}>{kind.profile || `none for ${kind.schedulerName}`}</TableCell>
      </TableRow>
      <TableRow>
        <TableCell colSpan={6} sx={{ overflowWrap: 'anywhere' }}>
          {props.explained ? (
            <Why kind={kind} cluster={cluster} place={place} />
          ) : (
            <Latest kind={kind} />
          )}
        </TableCell>
      </TableRow>
    </TableBody>
  );
}

/** What was decided last about a pod of a kind. */
function Latest({ kind }: { kind: PendingKind }) {
  return (
    <>
      <Tag tone={resultTone(kind.result)}>{kind.result || 'Not tried yet'}</Tag>{' '}
      {shortReason(kind.message)}
    </>
  );
}

/**
 * Why the pods of a kind wait, and what would help. Until that is known, what was decided last. The
 * place of the row spreads the first requests of all rows over time.
 */
function Why({ kind, cluster, place }: { kind: PendingKind; cluster: string; place: number }) {
  const [delay] = React.useState(150 * place);
  const { data, problem } = usePoll(
    JSON.stringify([cluster, kind.namespace, kind.pod]),
    () => explain(cluster, kind.namespace, kind.pod, explainedFor),
    () => explainEvery,
    delay
  );
  if (problem) {
    return (
      <>
        <Latest kind={kind} />
        <ProblemNote problem={problem} />
      </>
    );
  }
  if (!data) {
    return <Latest kind={kind} />;
  }
  const v = whyView(data);
  return (
    <>
      <strong>{v.headline}.</strong>{' '}
      {v.why && `${v.nodes ? `${v.nodes}: ` : ''}${v.why}.`.replace(/\.\.$/, '.')}
      {v.help && (
        <div>
          {v.tried ? 'Would help: ' : 'Might help, not tried: '}
          {v.help}
        </div>
      )}
    </>
  );
}
