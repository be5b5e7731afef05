package artifact

import (
	"bytes"
	"encoding/xml"
	"path"
	"strings"
)

// Kind is the kind of a file by its name and its first bytes.
type Kind string

// The kinds.
const (
	Plain    Kind = "file"
	JUnit    Kind = "junit"    // results of tests, as many programs write them
	Coverage Kind = "coverage" // of Cobertura, JaCoCo, lcov, go test, coverage.py or Istanbul
)

// kindHead is how many bytes decide, at most.
const kindHead = 4 << 10

func kindOf(name string, head []byte) Kind {
	base := strings.ToLower(path.Base(name))
	switch {
	case strings.HasSuffix(base, ".xml"):
		return kindOfXML(head)
	case base == ".coverage" || strings.HasPrefix(base, ".coverage."): // a database of coverage.py
		return Coverage
	case base == "coverage.json" || base == "coverage-final.json":
		return Coverage
	case bytes.HasPrefix(head, []byte("TN:")) || bytes.HasPrefix(head, []byte("SF:")): // geninfo(1)
		return Coverage
	case bytes.HasPrefix(head, []byte("mode: ")) && bytes.IndexByte(head, '\n') > 0: // golang.org/x/tools/cover
		return Coverage
	}
	return Plain
}

// kindOfXML decides by the name of the first element.
func kindOfXML(head []byte) Kind {
	d := xml.NewDecoder(bytes.NewReader(head))
	d.Strict = false
	for {
		token, err := d.RawToken()
		if err != nil {
			return Plain
		}
		if start, ok := token.(xml.StartElement); ok {
			switch start.Name.Local {
			case "testsuite", "testsuites":
				return JUnit
			case "coverage", "report":
				return Coverage
			}
			return Plain
		}
	}
}
