// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// nodeVolumes holds what NodeVolumeLimits and VolumeBinding read of a node besides its labels.
type nodeVolumes struct {
	// of is the node whose objects these are, "" if they have not been read. csi is nil if the node
	// has no CSINode. attached are its VolumeAttachments, nil if no limit counts them.
	of       string
	csi      *storagev1.CSINode
	attached []*storagev1.VolumeAttachment
	// limit is the lowest limit of a driver, unlimited if there is none.
	limit int32
	// migrated has the bits of the plugins whose volumes the node mounts by a CSI driver.
	migrated uint8
	// room is the number of claims that the node surely has room for. It is at most the limit less
	// the claims of the pods on the node and less what is attached to it otherwise. It is below 0
	// if the pods have other volumes that NodeVolumeLimits may count.
	room int32
}

const unlimited = math.MaxInt32

// migratable are the plugins of in-tree volumes that nodes may mount by a CSI driver, as in
// volumebinding/binder.go.
var migratable = [...]string{csiplugins.AWSEBSInTreePluginName, csiplugins.GCEPDInTreePluginName,
	csiplugins.AzureDiskInTreePluginName, csiplugins.CinderInTreePluginName, csiplugins.PortworxVolumePluginName}

// migratableBit returns the bit of a plugin in nodeVolumes.migrated, 0 if it is not migratable.
func migratableBit(plugin string) uint8 {
	i := slices.Index(migratable[:], plugin)
	if i < 0 {
		return 0
	}
	return 1 << i
}

// manyVolumes is more claims than most pods have. Nodes with room for that many are not sorted.
const manyVolumes = 32

// volumeTable holds the nodeVolumes of all nodes by slot. It is brought up to date when it is
// needed: by the log of the snapshot for pods and nodes, by VolumeChanges for the other objects.
type volumeTable struct {
	stores *volumeStores
	// pos and read are the positions in the two logs.
	pos, read uint64
	nodes     []nodeVolumes
	// tight sorts the nodes with room for fewer than manyVolumes by their room.
	tight buckets
	// mounted is scratch memory for count: the names of volumes.
	mounted []string
}

func (t *volumeTable) sync(stores *volumeStores, snapshot *cache.Snapshot) {
	// The end is read before the objects, so that the next call reads later changes.
	changed, end, known := stores.changes.since(t.read)
	_, follows := snapshot.Log().Since(t.pos)
	if !known || !follows || t.stores.changes != stores.changes {
		*t = volumeTable{tight: newBuckets(manyVolumes - 1)} // all slots are read again
	}
	t.stores = stores
	t.nodes = fitted(t.nodes, snapshot.Slots(), nodeVolumes{room: unlimited})
	t.tight.grow(snapshot.Slots())
	for _, name := range changed {
		if slot, ok := snapshot.SlotOf(name); ok {
			t.nodes[slot].of = ""
			t.readNode(snapshot, slot)
		}
	}
	t.pos, t.read = catchUp(snapshot, t.pos, t.readNode), end
}

// readNode brings a slot up to date with the snapshot, and with the other objects if these have not
// been read.
func (t *volumeTable) readNode(snapshot *cache.Snapshot, slot cache.Slot) {
	n, room := &t.nodes[slot], int32(unlimited)
	if info := snapshot.Info(slot); info != nil {
		if name := info.Node().Name; n.of != name {
			t.readObjects(n, name)
		}
		if n.limit != unlimited {
			room = t.count(n, info.Pods)
		}
	} else {
		*n = nodeVolumes{room: n.room}
	}
	if n.room < manyVolumes {
		t.tight.remove(slot, max(0, int64(n.room)))
	}
	n.room = room
	if n.room < manyVolumes {
		t.tight.add(slot, 0, max(0, int64(n.room)))
	}
}

func (t *volumeTable) readObjects(n *nodeVolumes, name string) {
	*n = nodeVolumes{of: name, csi: get[storagev1.CSINode](t.stores.csiNodes, name), limit: unlimited, room: n.room}
	if n.csi == nil {
		return
	}
	for plugin := range strings.SplitSeq(n.csi.Annotations[corev1.MigratedPluginsAnnotationKey], ",") {
		n.migrated |= migratableBit(plugin)
	}
	for i := range n.csi.Spec.Drivers {
		if a := n.csi.Spec.Drivers[i].Allocatable; a != nil && a.Count != nil {
			n.limit = min(n.limit, *a.Count)
		}
	}
	if n.limit == unlimited {
		return
	}
	objects, _ := t.stores.attachments.ByIndex(attachmentsByNode, name)
	for _, object := range objects {
		if attachment, ok := object.(*storagev1.VolumeAttachment); ok {
			n.attached = append(n.attached, attachment)
		}
	}
}

// count returns the room on a node with a limit. All drivers together count against the lowest
// limit, and a claim that two pods use counts twice.
func (t *volumeTable) count(n *nodeVolumes, pods []fwk.PodInfo) int32 {
	claims, mounted := 0, t.mounted[:0]
	for _, info := range pods {
		pod := info.GetPod()
		for i := range pod.Spec.Volumes {
			switch source := &pod.Spec.Volumes[i].VolumeSource; {
			case source.PersistentVolumeClaim != nil:
				claims++
				if len(n.attached) > 0 {
					mounted = append(mounted, t.volumeOf(pod.Namespace+"/"+source.PersistentVolumeClaim.ClaimName))
				}
			case !podfields.OrdinaryVolume(source):
				return -1
			}
		}
	}
	t.mounted = mounted
	for _, attachment := range n.attached {
		if !t.isMounted(attachment, mounted) {
			claims++
		}
	}
	return max(0, n.limit-int32(min(claims, math.MaxInt32)))
}

// volumeOf returns the name of the volume that a claim is bound to, or "".
func (t *volumeTable) volumeOf(claim string) string {
	if object := get[corev1.PersistentVolumeClaim](t.stores.claims, claim); object != nil {
		return object.Spec.VolumeName
	}
	return ""
}

// isMounted reports whether a VolumeAttachment is that of a volume which the pods on the node use,
// so that it does not count besides. A claim that is bound keeps its volume.
func (t *volumeTable) isMounted(attachment *storagev1.VolumeAttachment, mounted []string) bool {
	name := attachment.Spec.Source.PersistentVolumeName
	if name == nil || *name == "" || !slices.Contains(mounted, *name) {
		return false
	}
	pv := get[corev1.PersistentVolume](t.stores.volumes, *name)
	return pv != nil && pv.Spec.CSI != nil && pv.Spec.CSI.Driver == attachment.Spec.Attacher
}
