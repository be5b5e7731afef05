// Package patch reads patches, refuses those that could change more than the files of a tree, and applies them with
// git.
//
// Parse reads unified diffs as git-apply(1) does, of git or of diff(1), with any text between their parts. Where git
// tolerates something that two readers may understand in two ways, Parse refuses it; Apply also compares the files
// that it found with those that git finds.
package patch

import "strings"

// The bounds of a patch.
const (
	MaxBytes = 16 << 20
	MaxFiles = 10_000
)

// A Patch is a parsed patch that only changes files of the tree it is applied to.
type Patch struct {
	Files []File // in the order of the patch
	text  []byte
}

// A File is the part of a patch that changes one file. Paths are relative to the tree, with slashes.
type File struct {
	Old string // the path before; empty for a new file
	New string // the path after; empty for a file that is removed
	// OldMode and NewMode are 100644, 100755 or 120000 (a symbolic link), as git writes them; empty if the patch has no
	// modes.
	OldMode, NewMode string
	Copied           bool // Old remains
	Binary           bool // it is a binary file, without hunks
	Line             int  // of the patch, where the part begins; the first is 1
	Hunks            []Hunk
}

// Path is the name by which git and people call the file: the path after, or before the removal.
func (f *File) Path() string {
	if f.New != "" {
		return f.New
	}
	return f.Old
}

// A Hunk changes a run of lines.
type Hunk struct {
	Line   int    // of the patch, where the hunk begins
	Header string // the first line: @@ -1,3 +1,4 @@ and perhaps text
	// OldStart is the number of the first line before the change, from 1; 0 in an empty file. OldLines is how many
	// there are. NewStart and NewLines are the same after it.
	OldStart, OldLines, NewStart, NewLines int

	added []string // the lines with +, of a symbolic link
}

const (
	regularMode    = "100644"
	executableMode = "100755"
	symlinkMode    = "120000"
	submoduleMode  = "160000"
)

// Parse reads a patch. The error is an *Error.
func Parse(text []byte) (*Patch, error) {
	if len(text) > MaxBytes {
		return nil, &Error{Reason: TooLarge, Text: sizes("bytes", len(text), MaxBytes),
			Remedy: "split the patch, or commit the change and run that commit"}
	}
	p := &parser{lines: strings.SplitAfter(string(text), "\n")}
	files, err := p.files()
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, &Error{Reason: Empty, Text: "it changes no file", Remedy: "make the patch with `git diff`"}
	}
	return &Patch{Files: files, text: text}, nil
}
