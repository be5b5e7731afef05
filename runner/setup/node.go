package setup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// fromStore has npm take the packages of a store, if there is one.
const fromStore = `test -z "$CODEX_RUNNER_STORE" || {
  find "$CODEX_RUNNER_STORE" -name '*.tgz' -exec npm cache add {} \;
  export npm_config_offline=true
}
`

// npm installs package-lock.json, or the newest versions of a project without a lock, which gets none: it would be an
// input of the next command.
func npm(dir fs.FS, names map[string]bool) (*Part, error) {
	if !names["package.json"] {
		return nil, nil
	}
	p := &Part{
		Manifest: "package.json", Run: fromStore + "npm install --no-package-lock --no-audit --no-fund",
		Inputs: []string{"**/package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc"},
		Path:   []string{"node_modules/.bin"}, Needs: []string{"node", "npm"},
		Env: map[string]string{"npm_config_update_notifier": "false"},
	}
	for _, lock := range []string{"package-lock.json", "npm-shrinkwrap.json"} {
		if names[lock] {
			p.Manifest, p.Run = lock, fromStore+"npm ci --no-audit --no-fund"
			break
		}
	}
	p.Run += lint(dir)
	return p, nil
}

// pnpm installs pnpm-lock.yaml with the version that package.json names, or one that knows the form of the lock.
func pnpm(dir fs.FS, names map[string]bool) (*Part, error) {
	if !names["pnpm-lock.yaml"] || !names["package.json"] {
		return nil, nil
	}
	lock, err := readHead(dir, "pnpm-lock.yaml")
	if err != nil {
		return nil, err
	}
	version, err := packageManager(dir, "pnpm")
	if err != nil {
		return nil, err
	}
	accepted := version
	if version == "" {
		version, accepted = "10", "[1-9]*"
		for form, knows := range map[string]string{"5": "7", "6": "8"} {
			if strings.HasPrefix(lock, "lockfileVersion: "+form) || strings.HasPrefix(lock, "lockfileVersion: '"+form) {
				version, accepted = knows, knows+".*"
			}
		}
	}
	return &Part{
		Manifest: "pnpm-lock.yaml", Run: fromNPM("pnpm", accepted, "pnpm@"+version) +
			"\npnpm install --frozen-lockfile" + lint(dir),
		Inputs: []string{"**/package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", ".npmrc"},
		Path:   []string{"node_modules/.bin", installed}, Needs: []string{"node", "npm"}, Tools: []string{"pnpm"},
		Env: map[string]string{"CI": "true"},
	}, nil
}

// yarn installs yarn.lock, in the form of version 1 or of the later ones.
func yarn(dir fs.FS, names map[string]bool) (*Part, error) {
	if !names["yarn.lock"] || !names["package.json"] {
		return nil, nil
	}
	lock, err := readHead(dir, "yarn.lock")
	if err != nil {
		return nil, err
	}
	version, err := packageManager(dir, "yarn")
	if err != nil {
		return nil, err
	}
	accepted, program, install := "1.*", "yarn@1", "yarn install --frozen-lockfile --non-interactive"
	if strings.Contains(lock, "\n__metadata:") {
		accepted, program = cmp.Or(version, "[2-9].*"), "@yarnpkg/cli-dist@"+cmp.Or(version, "latest")
		install = "yarn install --immutable"
	}
	return &Part{
		Manifest: "yarn.lock", Run: fromNPM("yarn", accepted, program) + "\n" + install + lint(dir),
		Inputs: []string{"**/package.json", "yarn.lock", ".yarnrc", ".yarnrc.yml", ".npmrc"},
		Path:   []string{"node_modules/.bin", installed}, Needs: []string{"node", "npm"}, Tools: []string{"yarn"},
		Env: map[string]string{"YARN_ENABLE_TELEMETRY": "0"},
	}, nil
}

// fromNPM has a program installed that the host does not have, or in another version: accepted is a pattern of sh. The
// program is asked in a directory without a package.json, where it fetches no other version.
func fromNPM(program, accepted, from string) string {
	return fmt.Sprintf(`case $(cd / && %[1]s --version 2>/dev/null) in
%[2]s) ;;
*) npm install --global --prefix "$HOME/.local" --no-audit --no-fund %[3]s ;;
esac`, program, accepted, from)
}

// packageManager returns the version that package.json names for the program: "pnpm@9.1.0+sha512..." has 9.1.0.
func packageManager(dir fs.FS, program string) (string, error) {
	text, err := readBounded(dir, "package.json")
	var p struct {
		PackageManager string `json:"packageManager"`
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return "", fmt.Errorf("package.json: %w", err)
	}
	name, version, _ := strings.Cut(p.PackageManager, "@")
	version, _, _ = strings.Cut(version, "+")
	if name != program || strings.ContainsFunc(version, notInVersion) {
		return "", nil
	}
	return version, nil
}

// notInVersion keeps a version from being anything else for a shell.
func notInVersion(r rune) bool {
	return !strings.ContainsRune("0123456789.-abcdefghijklmnopqrstuvwxyz", r)
}

// readHead returns the first KiB of a file of any size.
func readHead(dir fs.FS, name string) (string, error) {
	file, err := dir.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was read
	head := make([]byte, 1024)
	n, err := file.Read(head)
	if n == 0 && err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(head[:n]), nil
}
