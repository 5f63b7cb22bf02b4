// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

import React from 'react';
import { Problem, problemOf } from './api';

/** What was loaded last. Both are undefined until then. */
export type Loaded<T> = { data?: T; problem?: Problem };

/**
 * Loads something, and again every so many milliseconds while the page is visible; 0 stops that.
 * The period may depend on what was loaded. Loads anew at once if the key changes; a late answer for
 * an older key is dropped.
 */
export function usePoll<T>(
  key: string,
  load: () => Promise<T>,
  period: (loaded: Loaded<T>) => number,
  delay = 0
): Loaded<T> {
  const [state, setState] = React.useState<{ key: string; loaded: Loaded<T> }>({
    key,
    loaded: {},
  });
  const latest = React.useRef({ load, period });
  latest.current = { load, period };

  React.useEffect(() => {
    let ended = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let missed = false; // a poll was due while the page was hidden

    const poll = async () => {
      timer = undefined;
      if (document.hidden) {
        missed = true;
        return;
      }
      missed = false;
      let loaded: Loaded<T>;
      try {
        loaded = { data: await latest.current.load() };
      } catch (error) {
        loaded = { problem: problemOf(error, '') };
      }
      if (ended) {
        return;
      }
      setState({ key, loaded });
      const wait = latest.current.period(loaded);
      if (wait > 0) {
        timer = setTimeout(poll, wait);
      }
    };
    const shown = () => {
      if (!document.hidden && missed) {
        poll();
      }
    };

    document.addEventListener('visibilitychange', shown);
    timer = setTimeout(poll, delay);
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', shown);
    };
  }, [key, delay]);

  return state.key === key ? state.loaded : {};
}
