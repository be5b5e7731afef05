// Package resident keeps the resident memory of a process that waits to what it uses.
package resident

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Trim gives back memory that only the start of the program has used: the heap's garbage, and the pages of the
// program that nothing writes. The kernel keeps these in its cache, and maps one again when it is used, so nobody
// waits for a disk.
func Trim() error {
	debug.FreeOSMemory()
	segments, err := constant()
	if err != nil {
		return fmt.Errorf("cannot find the segments of the program: %w", err)
	}
	for _, s := range segments {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, s.start, s.length, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("cannot give back a segment of the program: %w", errno)
		}
	}
	return nil
}

// segment is a part of the program in memory.
type segment struct{ start, length uintptr }

// constant returns the segments that are mapped without the right to write. The pages that the start of a
// position-independent program has relocated look like these in /proc/self/maps, and would be lost: only the
// table of the program's file distinguishes them (elf(5)).
func constant() ([]segment, error) {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var header elf.Header64
	if err := binary.Read(file, binary.NativeEndian, &header); err != nil {
		return nil, err
	}
	programs := make([]elf.Prog64, header.Phnum)
	table := io.NewSectionReader(file, int64(header.Phoff), int64(header.Phnum)*int64(header.Phentsize))
	if err := binary.Read(table, binary.NativeEndian, programs); err != nil {
		return nil, err
	}
	loaded, err := loadedTable()
	if err != nil {
		return nil, err
	}
	page := uintptr(os.Getpagesize())
	var base uintptr
	var segments []segment
	for _, p := range programs {
		if elf.ProgType(p.Type) != elf.PT_LOAD {
			continue
		}
		if p.Off == 0 { // it has the table
			base = loaded - uintptr(header.Phoff) - uintptr(p.Vaddr)
		}
		if start := (base + uintptr(p.Vaddr)) &^ (page - 1); elf.ProgFlag(p.Flags)&elf.PF_W == 0 {
			segments = append(segments, segment{start, base + uintptr(p.Vaddr+p.Memsz) - start})
		}
	}
	return segments, nil
}

// loadedTable returns the address of the program's table in memory (getauxval(3)). It needs no file: the files
// of a process that nothing may look into belong to root (PR_SET_DUMPABLE, prctl(2)).
func loadedTable() (uintptr, error) {
	const atPhdr = 3
	vector, err := unix.Auxv()
	if err != nil {
		return 0, err
	}
	for _, entry := range vector {
		if entry[0] == atPhdr {
			return entry[1], nil
		}
	}
	return 0, errors.New("the kernel has passed no table of the program")
}
