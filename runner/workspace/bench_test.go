package workspace

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func thousandFiles(b *testing.B) (origin, Source) {
	o := newOrigin(b)
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("d%02d/e%d/f%d", i%40, i%7, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), 400)
	}
	head := o.commit(files)
	return o, Source{o.mirror(), o.url(), head}
}

// BenchmarkReuse resets a checkout of 1 000 files of about 3.5 KB in which a session changed ten and made ten.
func BenchmarkReuse(b *testing.B) {
	_, source := thousandFiles(b)
	s := slot(b, source)
	s.must(b)
	for b.Loop() {
		b.StopTimer()
		for i := range 10 {
			put(b, filepath.Join(s.Tree, fmt.Sprintf("d%02d/e%d/f%d", i, i%7, i)), "changed")
			put(b, filepath.Join(s.Tree, fmt.Sprintf("d%02d/built", i)), "made")
		}
		b.StartTimer()
		if r := s.must(b); r.Kept != 990 || r.Removed != 20 {
			b.Fatal(r)
		}
	}
}

// BenchmarkFresh checks the same repository out into an empty directory.
func BenchmarkFresh(b *testing.B) {
	_, source := thousandFiles(b)
	for b.Loop() {
		b.StopTimer()
		s := slot(b, source)
		b.StartTimer()
		s.must(b)
	}
}
