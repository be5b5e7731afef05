package patch

import (
	"fmt"
	"strings"
)

// binaryParts begin the two parts of a binary change: the content after it, or the way there, and the same backwards,
// which may lack. parse_binary of git's apply.c reads them.
var binaryParts = []string{"literal ", "delta "}

// binaryContent reads the part of a binary file, "GIT binary patch", which may have any bytes. git checks the content
// before the change by the hashes of the header.
func (h *header) binaryContent() error {
	h.at++
	parts := 0
	for ; parts < 2 && h.binaryPart(); parts++ {
		if err := h.base85(); err != nil {
			return err
		}
	}
	if parts == 0 {
		return h.malformed(h.both, "the binary change has no content")
	}
	h.file.Binary = true
	return nil
}

func (h *header) binaryPart() bool {
	for _, kind := range binaryParts {
		if strings.HasPrefix(h.line(), kind) {
			return true
		}
	}
	return false
}

// base85 reads the lines of one part up to the empty one behind it. A line has the number of its bytes, A to z for 1 to
// 52, and five characters for each four of them.
func (h *header) base85() error {
	for h.at++; ; h.at++ {
		line := h.line()
		switch {
		case h.over() || !strings.HasSuffix(h.lines[h.at], "\n"):
			return h.malformed(h.both, "the binary change is cut off")
		case line == "":
			h.at++
			return nil
		case len(line) != 1+binaryWidth(line[0]):
			return h.malformed(h.both, fmt.Sprintf("the binary change has a wrong line, %.20q", line))
		}
	}
}

// binaryWidth is how many characters follow the length of a line; -1 if it is no length.
func binaryWidth(length byte) int {
	var n int
	switch {
	case length >= 'A' && length <= 'Z':
		n = int(length-'A') + 1
	case length >= 'a' && length <= 'z':
		n = int(length-'a') + 27
	default:
		return -1
	}
	return (n + 3) / 4 * 5
}
