package environment

import (
	"fmt"
	"maps"
	"os"
	"syscall"
)

// Facts has the reports of tools about themselves, by the paths of their programs, with the names of tools that share
// one. To start an interpreter takes longer than all else that Plan does, so the facts are kept between sessions, and
// each counts while its files are the same. Times of files decide here whether a tool is asked again; they are no part
// of a key.
type Facts map[string]Fact

// Fact is the report of one program.
type Fact struct {
	Tools []Tool            `json:"tools"`
	Files map[string]string `json:"files"` // their identities by their paths
}

// recall returns the tools that the program reported earlier, or asks it. ask returns the files besides the program
// that may change the answer if they change. Facts that are not nil store the answer.
func (h Host) recall(key, program string, ask func() (tools []Tool, files []string, err error)) ([]Tool, error) {
	known, ok := h.Facts[key]
	if ok && maps.Equal(known.Files, identities(maps.Keys(known.Files))) {
		return known.Tools, nil
	}
	tools, files, err := ask()
	if err == nil && h.Facts != nil {
		h.Facts[key] = Fact{tools, identities(func(yield func(string) bool) {
			for _, file := range append(files, program) {
				if !yield(file) {
					return
				}
			}
		})}
	}
	return tools, err
}

func identities(files func(yield func(string) bool)) map[string]string {
	all := map[string]string{}
	for file := range files {
		all[file] = identity(file)
	}
	return all
}

// identity differs after a package of the tool was installed: a new file has another inode or another time of change,
// which no program can set. It is empty for a file that does not exist.
func identity(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	stat := info.Sys().(*syscall.Stat_t) // as package os documents it
	return fmt.Sprint(stat.Dev, stat.Ino, stat.Size, stat.Mtim.Nano(), stat.Ctim.Nano())
}
