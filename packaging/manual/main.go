// Command manual writes the files that the packages hold in addition to a program: man pages and shell completions, the
// compressed changelog and the licences. Their sources are the program's command tree, the reference files in
// packaging/etc, the units and the documents for operators, so that pages and sources agree. It runs in the
// repository's root. The base name of FILE is the name of the program, and of the directory here with its pages.
//
//	manual -program FILE -out DIR
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	program := flag.String("program", "", "the program, built for this machine")
	out := flag.String("out", "", "directory to write to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := write(ctx, *program, *out); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, program, out string) error {
	if program == "" || out == "" {
		return errors.New("want -program FILE and -out DIR, as make gives")
	}
	files, err := manual(ctx, program)
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manual returns every file by its name below -out.
func manual(ctx context.Context, program string) (map[string][]byte, error) {
	b := book{program: filepath.Base(program)}
	var err error
	if b.date, err = date(); err != nil {
		return nil, err
	}
	if b.commands, err = describe(ctx, program); err != nil {
		return nil, err
	}
	pages, err := b.pages()
	if err != nil {
		return nil, err
	}
	files, err := completions(b.program)
	if err != nil {
		return nil, err
	}
	if pages["doc/licenses"], err = licenses(ctx, b.program); err != nil {
		return nil, err
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	pages["doc/changelog"] = string(changelog)
	for name, text := range pages {
		files[name+".gz"] = compress(text)
	}
	return files, nil
}

// compress is gzip -9 --no-name: the same text gives the same bytes.
func compress(text string) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one that there is
	_, _ = z.Write([]byte(text))                          // into memory
	_ = z.Close()
	return b.Bytes()
}

// date is the date of the packages, SOURCE_DATE_EPOCH (reproducible-builds.org).
func date() (string, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return "", errors.New("SOURCE_DATE_EPOCH must be a time in seconds, as make gives")
	}
	return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
}

// lines splits text without its last newline.
func lines(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }
