// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

// replay runs a Go program so that it draws the same random numbers each time. Go's runtime draws
// the order of cases of a select, of the elements of a map, and the numbers of math/rand from 16
// random bytes that the kernel puts on the stack of a new process (AT_RANDOM). replay overwrites
// them before the program begins, with ptrace. With one processor and without the preemption of
// goroutines by signals, a program without input takes the same steps each time.
//
//	replay SEED PROGRAM [ARGUMENT...]
package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
)

// atRandom is the type of the entry in the auxiliary vector with the address of the random bytes.
const atRandom = 25

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		code = 1
	}
	os.Exit(code)
}

func run() (code int, err error) {
	if len(os.Args) < 3 {
		return 0, fmt.Errorf("usage: replay SEED PROGRAM [ARGUMENT...]")
	}
	seed, err := strconv.ParseUint(os.Args[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the seed %q is not a number", os.Args[1])
	}
	runtime.LockOSThread() // ptrace accepts only the thread that has started the process
	command := exec.Command(os.Args[2], os.Args[3:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	// What the environment has in addition would have an influence on where the runtime places what
	// it allocates. invalidptr=0 lets the world ask for the objects in a part of the heap.
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(),
		"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=8GiB", "GODEBUG=asyncpreemptoff=1,randautoseed=0,invalidptr=0"}
	// Whoever kills replay means the program, too.
	command.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return 0, err
	}
	pid := command.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil { // the process has stopped at its first instruction
		return 0, err
	}
	if err := fixRandom(pid, seed); err != nil {
		_ = command.Process.Kill()
		return 0, err
	}
	if err := patch(pid, os.Args[2]); err != nil {
		_ = command.Process.Kill()
		return 0, err
	}
	if err := syscall.PtraceDetach(pid); err != nil {
		return 0, fmt.Errorf("ptrace: %w", err)
	}
	if err := command.Wait(); command.ProcessState == nil {
		return 0, err
	}
	return command.ProcessState.ExitCode(), nil
}

// patch changes functions of Go's runtime so that what they return does not depend on how fast the
// machine is, or on which thread runs a goroutine.
func patch(pid int, program string) error {
	file, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	all, err := file.Symbols()
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	symbols := map[string]elf.Symbol{}
	for _, symbol := range all {
		symbols[symbol.Name] = symbol
	}
	for _, name := range []string{retake, mutexTime, idleThread, assertion, typeSwitch, random, threadRandom,
		randomState, wakeScavenger} {
		if _, ok := symbols[name]; !ok {
			return fmt.Errorf("%s has no symbol %s", program, name)
		}
	}
	write := func(symbol string, offset uint64, code []byte) error {
		_, err := syscall.PtracePokeData(pid, uintptr(symbols[symbol].Value+offset), code)
		return err
	}
	returnZero := []byte{0x31, 0xC0, 0xC3} // xor eax, eax; ret
	generator := splitMix64(symbols[randomState].Value + 8)
	if symbols[random].Size < uint64(len(generator)) {
		return fmt.Errorf("%s is too short: %d bytes", random, symbols[random].Size)
	}
	call, err := callIn(pid, symbols[threadRandom], symbols[random].Value)
	if err != nil {
		return err
	}
	for _, symbol := range []string{assertion, typeSwitch} {
		offset, err := find(pid, symbols[symbol], drawOfThousand)
		if err != nil {
			return err
		}
		if err := write(symbol, offset+uint64(len(drawOfThousand))-2, []byte{0x90, 0xE9}); err != nil { // nop; jmp
			return err
		}
	}
	return errors.Join(
		write(retake, 0, returnZero), write(mutexTime, 0, returnZero), write(idleThread, 0, returnZero),
		write(wakeScavenger, 0, []byte{0xC3}), // ret
		write(random, 0, generator),
		write(threadRandom, call, []byte{0xB8, 1, 0, 0, 0}), // mov eax, 1
	)
}

const (
	// retake takes the processor from a goroutine that has run for 10 ms, and from a thread that
	// has been in a system call for 20 us. System calls of a simulation are short.
	retake = "runtime.retake"
	// mutexTime is how a mutex sees that a goroutine has waited for a millisecond.
	mutexTime = "internal/sync.runtime_nanotime"
	// idleThread keeps a thread that has nothing to run for later. Whether it is kept by the time
	// another one is needed depends on the kernel, and a thread that is new instead takes memory:
	// then all that is allocated later is elsewhere, and the hashes of pointers are others.
	// So a thread is new each time; there are few.
	idleThread = "runtime.mput"
	// wakeScavenger starts a goroutine, at some time after a garbage collection, that returns
	// memory.
	wakeScavenger = "runtime.(*scavengerState).wake"
	// assertion and typeSwitch keep the answers to some questions that code asks about types: one
	// of a thousand, which they draw. What is drawn later would depend on what is kept before a
	// world begins. So nothing is kept.
	assertion  = "runtime.typeAssert"
	typeSwitch = "runtime.interfaceSwitch"
	// random returns a random number of a thread, and threadRandom seeds a thread from those of the
	// thread that starts it. All threads get random numbers from randomState instead.
	random       = "runtime.rand"
	threadRandom = "runtime.mrandinit"
	randomState  = "runtime.globalRand"
)

// drawOfThousand is the code with which assertion and typeSwitch go on without keeping anything:
// test eax, 1023; jne. The distance follows.
var drawOfThousand = []byte{0xA9, 0xFF, 0x03, 0x00, 0x00, 0x0F, 0x85}

// find returns the offset of code in a function.
func find(pid int, in elf.Symbol, code []byte) (uint64, error) {
	all, err := codeOf(pid, in)
	if err != nil {
		return 0, err
	}
	offset := bytes.Index(all, code)
	if offset < 0 {
		return 0, fmt.Errorf("%s has not the code that is expected", in.Name)
	}
	return uint64(offset), nil
}

func codeOf(pid int, function elf.Symbol) ([]byte, error) {
	code := make([]byte, function.Size)
	_, err := syscall.PtracePeekData(pid, uintptr(function.Value), code)
	return code, err
}

// splitMix64 returns the code of a function that returns the next number of a splitmix64 generator
// whose state is at an address.
func splitMix64(state uint64) []byte {
	load := func(opcode byte, value uint64) []byte { // mov register, value
		return binary.LittleEndian.AppendUint64([]byte{0x48, opcode}, value)
	}
	const rcx, rdx = 0xB9, 0xBA
	mix := func(shift byte) []byte { // rax ^= rax >> shift
		return []byte{0x48, 0x89, 0xC2, 0x48, 0xC1, 0xEA, shift, 0x48, 0x31, 0xD0}
	}
	return slices.Concat(
		load(rcx, state), []byte{0x48, 0x8B, 0x01}, // mov rax, [rcx]
		load(rdx, 0x9E3779B97F4A7C15), []byte{0x48, 0x01, 0xD0, 0x48, 0x89, 0x01}, // add rax, rdx; mov [rcx], rax
		mix(30), load(rdx, 0xBF58476D1CE4E5B9), []byte{0x48, 0x0F, 0xAF, 0xC2}, // imul rax, rdx
		mix(27), load(rdx, 0x94D049BB133111EB), []byte{0x48, 0x0F, 0xAF, 0xC2},
		mix(31), []byte{0xC3}, // ret
	)
}

// callIn returns the offset of the call of a function in another one.
func callIn(pid int, in elf.Symbol, function uint64) (uint64, error) {
	code, err := codeOf(pid, in)
	if err != nil {
		return 0, err
	}
	for i := uint64(0); i+5 <= in.Size; i++ {
		relative := int32(binary.LittleEndian.Uint32(code[i+1:]))
		if code[i] == 0xE8 && in.Value+i+5+uint64(int64(relative)) == function {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s does not call %s", in.Name, random)
}

// fixRandom overwrites the random bytes of a process that has not begun.
func fixRandom(pid int, seed uint64) error {
	var registers syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(pid, &registers); err != nil {
		return fmt.Errorf("ptrace: %w", err)
	}
	address := uintptr(registers.Rsp)
	next := func() (uint64, error) {
		var word [8]byte
		_, err := syscall.PtracePeekData(pid, address, word[:])
		address += 8
		return binary.LittleEndian.Uint64(word[:]), err
	}
	if _, err := next(); err != nil { // the number of arguments
		return err
	}
	for range 2 { // arguments and environment, each with a zero at the end
		for {
			pointer, err := next()
			if err != nil {
				return err
			}
			if pointer == 0 {
				break
			}
		}
	}
	for {
		kind, err1 := next()
		value, err2 := next()
		switch {
		case err1 != nil || err2 != nil || kind == 0:
			return fmt.Errorf("the process has no random bytes")
		case kind == atRandom:
			var random [16]byte
			binary.LittleEndian.PutUint64(random[:], seed)
			binary.LittleEndian.PutUint64(random[8:], ^seed)
			_, err := syscall.PtracePokeData(pid, uintptr(value), random[:])
			return err
		}
	}
}
