// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"os"
	"reflect"
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

// compareInOrder keeps go-cmp, with which kube-scheduler compares statuses, from taking one of two
// ways to compare lists, by the time at which the process has started.
//
//go:linkname compareInOrder github.com/google/go-cmp/cmp/internal/flags.Deterministic
var compareInOrder bool

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

// startingStackSize is the size of the stack of a new goroutine. Most goroutines of a world handle
// a request, which needs more than the 2 KiB that they begin with otherwise. To copy their stacks
// to larger ones took about a tenth of the time.
//
//go:linkname startingStackSize runtime.startingStackSize
var startingStackSize uint32

// seedRuntime makes the runtime draw the random numbers of a seed.
func seedRuntime(seed uint64) {
	runtime.Gosched()               // os/signal takes the thread, and another one begins
	if os.Getenv("GOGC") == "off" { // as program replay sets it
		moveHeap()
	}
	runtime.MemProfileRate = 0 // samples are drawn
	compareInOrder = true
	seedScheduler(seed)
	fillLineCache()
}

func seedScheduler(seed uint64) {
	globalRand.state[0] = seed
	processors[0].ticks = 0
	startingStackSize = 16 << 10
	thread := currentThread()
	seedThread(*(*unsafe.Pointer)(unsafe.Pointer(&thread)))
}

// collectGarbage does so while all other goroutines wait, so that what is allocated later has the
// same address each time. Random numbers have been drawn then: seedScheduler must follow.
func collectGarbage() {
	runtime.GC()
	for range 100 { // goroutines of the runtime free what they needed
		runtime.Gosched()
	}
}

// fillLineCache replaces the lines of code that the runtime has looked up last. It keeps some of
// them, and draws a number to keep another one.
func fillLineCache() {
	begin := reflect.ValueOf(Simulate).Pointer()
	for pc := begin; pc < begin+4<<10; pc++ {
		if f := runtime.FuncForPC(pc); f != nil {
			f.FileLine(pc)
		}
	}
}

// moveHeap lets the heap begin anew, without what is free in it. What was allocated before depends
// on flags and on the environment, and what is allocated now would get other addresses because of
// it. The hashes of pointers depend on addresses. So nothing of it is freed, either.
func moveHeap() {
	const page, area, largest = 8 << 10, 64 << 20, 32 << 10
	earlier = make([]unsafe.Pointer, 0, mostEarlier)
	begin := (address(make([]byte, largest+1))/area + 1) * area
	for address(make([]byte, page)) < begin {
	}
	// Objects of about the same size, with pointers or without, share pages.
	for size := 8; size < largest; size += max(8, min(128, size/16&^7)) {
		for address(make([]byte, size)) < begin {
		}
		for address(make([]*byte, size/8)) < begin {
		}
	}
	allocated = unsafe.Pointer(new([15]byte)) // the smallest objects share 16 bytes
	const word, areas = 8, 4                  // more than there can be
	for at, last := begin-areas*area, uintptr(0); at < begin; at += word {
		switch object, _, _ := findObject(at, 0, 0); object {
		case last:
		case 0: // pages without objects
			at = at/page*page + page - word
		default:
			earlier, last = append(earlier, *(*unsafe.Pointer)(unsafe.Pointer(&object))), object
		}
	}
}

// allocated is what was allocated last. Without it, the compiler would put that on the stack.
var allocated unsafe.Pointer

func address[T any](slice []T) uintptr {
	allocated = unsafe.Pointer(unsafe.SliceData(slice))
	return uintptr(allocated)
}

// earlier are all objects that moveHeap has found or made.
var earlier []unsafe.Pointer

const mostEarlier = 1 << 20

// findObject returns the begin of the object of which an address is, 0 if there is none.
//
//go:linkname findObject runtime.findObject
func findObject(at, from, offset uintptr) (object, span, number uintptr)
