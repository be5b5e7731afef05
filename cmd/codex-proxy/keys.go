package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/proxy/auth"
)

const defaultKeyFile = "/etc/codex-proxy/api-keys"

const keysUsage = `Usage: codex-proxy keys add NAME | list | revoke NAME   [--file FILE]

Keeps the API keys. Only hashes are stored: add shows the key once, on standard
output. Restart the service to make a change take effect (systemd reads the
file only when the service starts): systemctl restart codex-proxy

  --file FILE     the key file (/etc/codex-proxy/api-keys)
`

// keysCommand is `codex-proxy keys`.
func keysCommand(_ context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("keys", flag.ContinueOnError)
	file := flags.String("file", defaultKeyFile, "")
	words, rest := splitWords(args)
	if status, done := parseFlags(flags, rest, keysUsage, stdout, stderr); done {
		return status
	}
	words = append(words, flags.Args()...)
	var err error
	switch {
	case len(words) == 2 && words[0] == "add":
		err = addKey(*file, words[1], stdout)
	case len(words) == 1 && words[0] == "list":
		err = listKeys(*file, stdout)
	case len(words) == 2 && words[0] == "revoke":
		err = revokeKey(*file, words[1])
	default:
		fmt.Fprint(stderr, keysUsage)
		return exitUsage
	}
	if err != nil {
		return fail(stderr, "keys", err, exitFailure)
	}
	return exitOK
}

// splitWords lets options stand after the words, where people put them.
func splitWords(args []string) (words, rest []string) {
	n := slices.IndexFunc(args, func(a string) bool { return len(a) > 0 && a[0] == '-' })
	if n < 0 {
		return args, nil
	}
	return args[:n], args[n:]
}

func addKey(file, name string, stdout io.Writer) error {
	text, keys, err := readKeyFile(file)
	if err != nil {
		return err
	}
	if slices.Contains(keys.Names(), name) {
		return fmt.Errorf("there is a key %q already; revoke it first, or choose another name", name)
	}
	key, line, err := auth.Generate(name)
	if err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	if err := writeKeyFile(file, append(text, line+"\n"...)); err != nil {
		return err
	}
	fmt.Fprintln(stdout, key)
	return nil
}

func listKeys(file string, stdout io.Writer) error {
	_, keys, err := readKeyFile(file)
	if err != nil {
		return err
	}
	for _, name := range keys.Names() {
		fmt.Fprintln(stdout, name)
	}
	return nil
}

func revokeKey(file, name string) error {
	text, keys, err := readKeyFile(file)
	if err != nil {
		return err
	}
	if !slices.Contains(keys.Names(), name) {
		return fmt.Errorf("there is no key %q; codex-proxy keys list shows what there is", name)
	}
	lines := slices.DeleteFunc(bytes.SplitAfter(text, []byte("\n")), func(line []byte) bool {
		fields := bytes.Fields(line)
		return len(fields) > 0 && string(fields[0]) == name
	})
	return writeKeyFile(file, bytes.Join(lines, nil))
}

func readKeyFile(file string) ([]byte, *auth.Keys, error) {
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, nil, fmt.Errorf("cannot read the API keys: %w", err)
	}
	keys, err := auth.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return text, keys, nil
}

// writeKeyFile replaces the file in one step: a reader sees the old keys or the
// new ones, and a crash loses none.
func writeKeyFile(file string, text []byte) error {
	fresh, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("cannot write the API keys: %w", err)
	}
	_, err = fresh.Write(text)
	if err == nil {
		err = fresh.Sync()
	}
	err = errors.Join(err, fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("cannot write the API keys: %w", errors.Join(err, os.Remove(fresh.Name())))
	}
	return nil
}
