// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"runtime"
	"unsafe"
)

// In a bubble, time goes on once all goroutines are durably blocked. A goroutine that waits for a
// mutex is not, since somebody outside of the bubble might hold it. But clients hold mutexes while
// they wait for the API server: controller-runtime does while it learns which kinds exist. Nobody
// could let time go on then. So the world makes such goroutines count as durably blocked, too.
//
// That takes two variables of Go's runtime, and the linker's flag -checklinkname=0.

//go:linkname isIdleInSynctest runtime.isIdleInSynctest
var isIdleInSynctest [waitReasons]bool

//go:linkname waitReasonStrings runtime.waitReasonStrings
var waitReasonStrings [waitReasons]string

// waitReasons is the number of reasons for which goroutines wait, in Go 1.26.
const waitReasons = 47

func init() {
	waits := map[string]bool{"sync.Mutex.Lock": false, "sync.RWMutex.RLock": false, "sync.RWMutex.Lock": false}
	for i, reason := range waitReasonStrings {
		if _, ok := waits[reason]; ok {
			isIdleInSynctest[i], waits[reason] = true, true
		}
	}
	for reason, found := range waits {
		if !found {
			panic(fmt.Sprintf("this version of Go's runtime does not know the reason %q", reason))
		}
	}
}

// The order of the cases of a select, and of the elements of a map, comes from random numbers of
// the runtime. A world begins with those of its seed, if program replay runs it.

//go:linkname globalRand runtime.globalRand
var globalRand struct {
	lock uintptr
	// state is that of the generator which replay puts in place of the runtime's.
	state [4]uint64
}

//go:linkname currentThread runtime.getm
func currentThread() uintptr

//go:linkname seedThread runtime.mrandinit
func seedThread(thread unsafe.Pointer)

// processors are those of the runtime. Their schedulers take a goroutine from the queue that they
// share at each 61st tick.
//
//go:linkname processors runtime.allp
var processors []*struct {
	id, status uint32
	link       uintptr
	ticks      uint32
}

// seedRuntime makes the runtime draw the random numbers of a seed.
func seedRuntime(seed uint64) {
	runtime.MemProfileRate = 0 // samples are drawn
	globalRand.state[0] = seed
	processors[0].ticks = 0
	thread := currentThread()
	seedThread(*(*unsafe.Pointer)(unsafe.Pointer(&thread)))
}
