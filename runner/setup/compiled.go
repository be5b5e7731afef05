package setup

import (
	"errors"
	"io/fs"
)

// builders are the files of programs that build C and other languages without packages, with the way of each.
var builders = []struct{ manifest, way string }{
	{"CMakeLists.txt", "cmake"}, {"meson.build", "meson"}, {"configure.ac", "autotools"}, {"configure", "autotools"},
	{"GNUmakefile", "make"}, {"Makefile", "make"}, {"makefile", "make"},
}

// native returns a part without a script for a repository that has no packages to install: its commands build it, and
// a set-up that was asked for does not fail.
func native(repository fs.FS) ([]Part, error) {
	for _, b := range builders {
		info, err := fs.Stat(repository, b.manifest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			return []Part{{Way: b.way, Language: "c", Dir: ".", Manifest: b.manifest}}, nil
		}
	}
	return nil, nil
}

// goModule downloads the modules and compiles the tests into Go's cache. Packages that do not compile are left to the
// command, which names them. No test runs there, nor TestMain, as -exec has true(1) in the place of each: that build
// may have the network of the host, and tests use what they find there, such as a database on its usual port. The tests
// run afterwards, without the network, for the results in Go's cache.
//
// Go sets the time of a file that it uses if that is an hour old, and so each session would get a copy of the cache.
// Times to come keep it from that. Files get them when they were used for this commit, so that Go removes the others
// some day.
func goModule(_ fs.FS, names map[string]bool) (*Part, error) {
	manifest := "go.mod"
	if names["go.work"] {
		manifest = "go.work"
	}
	if !names[manifest] {
		return nil, nil
	}
	const keep = `
find "$(go env GOCACHE)" -type f -newermt '1 day ago' ! -newermt now -exec touch -d '30 days' {} + || :`
	return &Part{
		Manifest: manifest,
		Run: `go mod download
go test -exec true ./... >/dev/null || echo "some tests do not compile"` + keep,
		Test: `left=$((end - $(date +%s)))
[ "$left" -lt 1 ] || timeout --kill-after=10s "$left" go test ./... >/dev/null` + keep,
		Inputs: []string{"go.work", "go.work.sum", "**/go.mod", "**/go.sum"},
		Needs:  []string{"go"}, Tools: []string{"cc"},
	}, nil
}

// cargo fetches the crates and compiles the tests into target.
func cargo(_ fs.FS, names map[string]bool) (*Part, error) {
	if !names["Cargo.toml"] {
		return nil, nil
	}
	return &Part{
		Manifest: "Cargo.toml",
		Run: `cargo fetch
cargo test --no-run || echo "some tests do not compile"`,
		Inputs: []string{"**/Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml", ".cargo/config.toml"},
		Needs:  []string{"cargo"}, Tools: []string{"rustc", "cc"},
	}, nil
}

// maven compiles the tests and runs none of them, which also downloads the plug-in that would. The plug-in downloads
// the rest of its own once it has found a test, before it starts Java: so it finds an empty file, and a Java that does
// nothing.
func maven(_ fs.FS, names map[string]bool) (*Part, error) {
	if !names["pom.xml"] {
		return nil, nil
	}
	program, needs := wrapper(names, "mvnw", "mvn")
	program += " --batch-mode --no-transfer-progress test"
	const none = ` -Dtest=NoSuchTest -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false`
	return &Part{
		Manifest: "pom.xml",
		Run: program + none + `
java=$(mktemp -d)/bin/java
mkdir "${java%/java}"
printf '#!/bin/sh\n' >"$java"
chmod +x "$java"
find . -type d -path '*/target/test-classes' -prune -exec touch {}/NoSuchTest.class \;
` + program + none + ` -fn -Djvm="$java" >/dev/null || :
find . -type f -path '*/target/test-classes/NoSuchTest.class' -delete`,
		// Its script downloads its program into .mvn/wrapper.
		Inputs: []string{"**/pom.xml", ".mvn/*",
			".mvn/wrapper/*.properties"}, Needs: needs, Tools: []string{"mvn"},
	}, nil
}

// gradle compiles the tests and resolves all that running them takes.
func gradle(_ fs.FS, names map[string]bool) (*Part, error) {
	for _, manifest := range []string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"} {
		if names[manifest] {
			program, needs := wrapper(names, "gradlew", "gradle")
			return &Part{
				Manifest: manifest,
				Run:      program + " --no-daemon test --test-dry-run || " + program + " --no-daemon testClasses",
				Inputs:   []string{"**/*.gradle", "**/*.gradle.kts", "**/gradle.properties", "gradle/**"},
				Needs:    needs, Tools: []string{"gradle"},
			}, nil
		}
	}
	return nil, nil
}

// wrapper prefers the script of the repository, which brings the version that it needs. It returns what the host must
// have for it, too.
func wrapper(names map[string]bool, script, program string) (command string, needs []string) {
	if names[script] {
		return "sh ./" + script, []string{"java"}
	}
	return program, []string{"java", program}
}

// composer installs the packages of a PHP project.
func composer(_ fs.FS, names map[string]bool) (*Part, error) {
	if !names["composer.json"] {
		return nil, nil
	}
	return &Part{
		Manifest: "composer.json", Run: "composer install --no-interaction --no-progress",
		Inputs: []string{"composer.json", "composer.lock"}, Path: []string{"vendor/bin"},
		Needs: []string{"php", "composer"},
	}, nil
}

// bundler installs the gems of a Ruby project.
func bundler(_ fs.FS, names map[string]bool) (*Part, error) {
	if !names["Gemfile"] {
		return nil, nil
	}
	return &Part{
		Manifest: "Gemfile", Run: "bundle install --quiet",
		Inputs: []string{"Gemfile", "Gemfile.lock", "*.gemspec"}, Needs: []string{"ruby", "bundle"},
		Env: map[string]string{"BUNDLE_PATH": "vendor/bundle"},
	}, nil
}
