// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Parts that all pages use.

import { StatusLabel } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Alert, AlertTitle, Box, TableContainer, Typography } from '@mui/material';
import React from 'react';
import { Problem } from './api';
import { Tone } from './words';

/** Says why something cannot be shown, and what to do about it. */
export function ProblemNote({ problem }: { problem: Problem }) {
  return (
    <Alert
      severity={problem.retried ? 'warning' : 'error'}
      sx={{ my: 1, overflowWrap: 'anywhere' }}
    >
      <AlertTitle>{problem.title}</AlertTitle>
      {problem.text && <div>{problem.text}</div>}
      {problem.help && <div>{problem.help}</div>}
      {problem.retried && <div>It is loaded again by itself.</div>}
    </Alert>
  );
}

const statuses = { good: 'success', warn: 'warning', bad: 'error' } as const;

/** A word with the colour of its tone. */
export function Tag({ tone, children }: React.PropsWithChildren<{ tone: Tone }>) {
  return (
    <StatusLabel status={statuses[tone]} component="span" sx={{ whiteSpace: 'normal' }}>
      {children}
    </StatusLabel>
  );
}

/** A heading within a section. */
export function Heading({ children, note }: React.PropsWithChildren<{ note?: string }>) {
  return (
    <Typography variant="h6" component="h3" sx={{ mt: 2 }}>
      {children}
      {note && <Dim> {note}</Dim>}
    </Typography>
  );
}

/** A remark beside something more important. */
export function Dim({ children }: React.PropsWithChildren<{}>) {
  return (
    <Typography variant="body2" component="span" color="text.secondary">
      {children}
    </Typography>
  );
}

/** A list of texts, with links that stand out from the text around them. */
export function List({ children }: React.PropsWithChildren<{}>) {
  return (
    <Box component="ul" sx={{ my: 0.5, '& a': { textDecoration: 'underline' } }}>
      {children}
    </Box>
  );
}

/** A table that is scrolled by itself if it is too wide, also with the keyboard. */
export function Scroll({ label, children }: React.PropsWithChildren<{ label: string }>) {
  return (
    <TableContainer tabIndex={0} role="region" aria-label={label}>
      {children}
    </TableContainer>
  );
}

/** The style of a caption that only screen readers read. */
export const forReaders = {
  position: 'absolute',
  width: 1,
  height: 1,
  overflow: 'hidden',
  clip: 'rect(0 0 0 0)',
  whiteSpace: 'nowrap',
} as const;
