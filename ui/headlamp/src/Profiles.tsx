// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// The page of SchedulerProfiles. The name of each leads to Headlamp's page of the custom resource.

import { K8s } from '@kinvolk/headlamp-plugin/lib';
import { Link, Loader, SectionBox } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Table, TableBody, TableCell, TableHead, TableRow } from '@mui/material';
import { schedulerProfiles } from './api';
import { forReaders, ProblemNote, Scroll, Tag } from './parts';
import { conditionTone, ProfileRow, profileRow } from './profiles';
import { usePoll } from './usePoll';
import { age } from './words';

/** How often profiles are listed, in ms. */
export const listEvery = 5_000;

export function Profiles() {
  const cluster = K8s.useCluster() ?? '';
  const { data, problem } = usePoll(
    cluster,
    () => schedulerProfiles(cluster),
    () => listEvery
  );
  const rows = (data?.items ?? []).map(profileRow);
  return (
    <SectionBox title="Scheduler profiles" headerProps={{ headerStyle: 'main' }}>
      {problem && <ProblemNote problem={problem} />}
      {!data && !problem && <Loader title="Loading scheduler profiles" />}
      {data && rows.length === 0 && <p>There is no SchedulerProfile.</p>}
      {rows.length > 0 && (
        <Scroll label="Table of profiles">
          <Table size="small">
            <caption style={forReaders}>Profiles, with their active revisions</caption>
            <TableHead>
              <TableRow>
                <TableCell>Profile</TableCell>
                <TableCell>Ready</TableCell>
                <TableCell>Programmed</TableCell>
                <TableCell>Active revision</TableCell>
                <TableCell align="right">Since</TableCell>
                <TableCell>Scheduler name</TableCell>
                <TableCell>Roll-out or shadow</TableCell>
              </TableRow>
            </TableHead>
            <TableBody>
              {rows.map(row => (
                <Row key={row.name} row={row} cluster={cluster} />
              ))}
            </TableBody>
          </Table>
        </Scroll>
      )}
    </SectionBox>
  );
}

const whole = { whiteSpace: 'nowrap' } as const;

function Row({ row, cluster }: { row: ProfileRow; cluster: string }) {
  const params = {
    crd: 'schedulerprofiles.livesched.io',
    namespace: '-',
    crName: row.name,
  };
  return (
    <TableRow sx={{ verticalAlign: 'top' }}>
      <TableCell component="th" scope="row" sx={whole}>
        <Link routeName="customresource" params={params} activeCluster={cluster}>
          {row.name}
        </Link>
      </TableCell>
      <TableCell sx={{ overflowWrap: 'anywhere' }}>
        <Tag tone={conditionTone(row.ready)}>{row.ready}</Tag> {row.problem}
      </TableCell>
      <TableCell>
        <Tag tone={conditionTone(row.programmed)}>{row.programmed}</Tag>
      </TableCell>
      <TableCell>{row.revision || 'none'}</TableCell>
      <TableCell align="right" sx={whole}>
        {row.revision ? age(row.since) : '–'}
      </TableCell>
      <TableCell sx={whole}>{row.schedulerName || '–'}</TableCell>
      <TableCell sx={{ overflowWrap: 'anywhere' }}>
        {row.rollout && <>{row.rolloutBad ? <Tag tone="bad">{row.rollout}</Tag> : row.rollout} </>}
        {row.shadow}
      </TableCell>
    </TableRow>
  );
}
