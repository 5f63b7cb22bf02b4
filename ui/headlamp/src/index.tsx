// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Adds to Headlamp why pods wait: a section on the page of a pod, and the pages "Pending pods" and
// "Profiles" in the sidebar.

import {
  DetailsViewSectionProps,
  registerDetailsViewSection,
  registerRoute,
  registerSidebarEntry,
} from '@kinvolk/headlamp-plugin/lib';
import { PendingPods } from './PendingPods';
import { PodScheduling } from './PodScheduling';
import { Profiles } from './Profiles';

registerDetailsViewSection(({ resource }: DetailsViewSectionProps) => {
  if (resource?.kind !== 'Pod') {
    return null;
  }
  const { metadata, spec } = resource.jsonData;
  return (
    <PodScheduling
      pod={{
        cluster: resource.cluster,
        namespace: metadata.namespace,
        name: metadata.name,
        schedulerName: spec?.schedulerName ?? '',
        node: spec?.nodeName ?? '',
      }}
    />
  );
});

registerSidebarEntry({
  parent: null,
  name: 'livesched',
  label: 'Scheduling',
  url: '/livesched/pending-pods',
  icon: 'mdi:timer-sand',
});

const pages = [
  {
    name: 'livesched-pending-pods',
    label: 'Pending pods',
    path: '/livesched/pending-pods',
    component: PendingPods,
  },
  {
    name: 'livesched-profiles',
    label: 'Profiles',
    path: '/livesched/profiles',
    component: Profiles,
  },
];

for (const { name, label, path, component: Page } of pages) {
  registerSidebarEntry({ parent: 'livesched', name, label, url: path });
  registerRoute({ path, name: label, sidebar: name, exact: true, component: () => <Page /> });
}
