package runner

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/environment/environmenttest"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// project is one of testdata/projects with the command that somebody tries first.
type project struct {
	dir, command, want string
	network            bool // for the index of packages
}

// nativeProjects are built by what both Debians have, and defaultProjects by the newest versions of their tools.
var (
	nativeProjects = []project{
		{"native", "make test", "./check\nsums\n", false},
		{"native", `sh -c "cmake -B build && cmake --build build && ctest --test-dir build"`, "100% tests passed", false},
	}
	defaultProjects = []project{
		{"go", "go run .", "the sum is 5\n", false},
		{"cargo", "cargo test", "test result: ok. 1 passed", false},
		{"npm", "npm test", "pass 1", true},
		{"pnpm", "pnpm test", "pass 2", true},
		{"uv", "uv run pytest -q", "2 passed", true},
		{"venv", "pytest -q", "2 passed", true},
		{"maven", "mvn test", "BUILD SUCCESS", false},
	}
)

// defaultTools are what defaultProjects need beside projectTools. Maven's plugins and their libraries are a repository
// on the disk.
var defaultTools = []string{
	"cargo", "python3-pip", "maven", "default-jdk-headless", "libmaven-compiler-plugin-java",
	"libmaven-resources-plugin-java", "libsurefire-java", "junit4",
}

const (
	indexAddress  = "127.0.0.1:8080"
	mavenSettings = `<settings><mirrors><mirror><id>debian</id><mirrorOf>*</mirrorOf>` +
		`<url>file:///usr/share/maven-repo</url></mirror></mirrors></settings>`
)

// toolchains shows the machine the Go of this host, where https://go.dev/dl has it, and the npm and pnpm of npm.
func toolchains(t *testing.T) []machine.Bind {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	return []machine.Bind{
		{Source: strings.TrimSpace(string(root)), Target: "/usr/local/go", ReadOnly: true},
		{Source: filepath.Join(bed.Made(t, "CODEX_PROXY_TEST_PROJECTS"), "node_modules"),
			Target: "/usr/local/lib/node_modules", ReadOnly: true},
	}
}

// languages installs the tools that are no packages of Debian.
func (b projectsBed) languages() {
	t := b.t
	t.Helper()
	require.NoError(t, b.CopyIn(bed.Made(t, "CODEX_PROXY_TEST_UV"), "/usr/local/bin/uv"))
	pip := "[global]\nindex-url = http://" + indexAddress + "/simple\n"
	require.NoError(t, b.WriteFile("/etc/pip.conf", []byte(pip), 0o644))
	require.NoError(t, b.WriteFile("/etc/maven/settings.xml", []byte(mavenSettings), 0o644))
	b.MustRun(t, "sh", "-ec", `cd /usr/local/bin; chmod 755 uv; ln -s /usr/local/go/bin/go .
ln -s ../lib/node_modules/npm/bin/npm-cli.js npm; ln -s ../lib/node_modules/pnpm/bin/pnpm.cjs pnpm`)
}

// greet is a package of npm.
func greet(t *testing.T) (tarball, integrity string) {
	t.Helper()
	tarball = environmenttest.Tarball(t, map[string]string{
		"package/package.json": `{"name": "greet", "version": "1.0.0"}`, "package/index.js": "module.exports = 'greet 1.0'\n",
	})
	sum := sha512.Sum512([]byte(tarball))
	return tarball, "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// serve has an index of Python's packages (PEP 503), a registry of npm and a server of Git LFS in the machine.
func (b projectsBed) serve() {
	t := b.t
	t.Helper()
	routes := http.NewServeMux()
	tarball, _ := greet(t)
	routes.HandleFunc("GET /greet/-/greet-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(tarball))
	})
	routes.HandleFunc("POST /large.git/info/lfs/objects/batch", largeFile)
	routes.HandleFunc("GET /content", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("content")) })
	wheels := filepath.Join(bed.Made(t, "CODEX_PROXY_TEST_PROJECTS"), "wheels")
	routes.Handle("GET /wheels/", http.StripPrefix("/wheels/", http.FileServer(http.Dir(wheels))))
	routes.HandleFunc("GET /simple/{name}/", func(w http.ResponseWriter, r *http.Request) {
		files, _ := filepath.Glob(filepath.Join(wheels, strings.ReplaceAll(r.PathValue("name"), "-", "_")+"-*"))
		if len(files) == 0 {
			http.NotFound(w, r)
		}
		for _, file := range files {
			name := filepath.Base(file)
			_, _ = w.Write([]byte("<a href=\"/wheels/" + name + "\">" + name + "</a>\n"))
		}
	})
	listener, err := b.Listen("tcp", indexAddress)
	require.NoError(t, err)
	server := &http.Server{Handler: routes, ReadHeaderTimeout: bed.Bound}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// largeFile answers a request for one object (the batch API of git-lfs): it is at /content.
func largeFile(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Objects []map[string]any `json:"objects"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Objects) != 1 {
		http.Error(w, "want one object", http.StatusBadRequest)
		return
	}
	content := map[string]string{"href": "http://" + indexAddress + "/content"}
	request.Objects[0]["actions"] = map[string]any{"download": content}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	_ = json.NewEncoder(w).Encode(request)
}

// commit makes a repository of alice of a project, with the tag v1.2.3. The project uv gets its lock there.
func (b projectsBed) commit(dir string) {
	t := b.t
	t.Helper()
	_, integrity := greet(t)
	files := os.DirFS("testdata/projects/" + dir)
	require.NoError(t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err == nil {
			data = []byte(strings.ReplaceAll(string(data), "INTEGRITY", integrity))
			err = b.WriteFile("/home/alice/"+dir+"/"+name, data, 0o644)
		}
		return err
	}))
	b.MustRun(t, "sh", "-ec", `cd /home/alice/`+dir+`; export HOME=/root
test `+dir+` != uv || SETUPTOOLS_SCM_PRETEND_VERSION=1.2.3 uv lock --quiet
git init -q -b main; git add .; git commit -qm first; git tag -a -m v v1.2.3; chown -R alice:alice .`)
}

// works runs the command of a project in two sessions, with nothing else said.
func (b projectsBed) works(p project) {
	b.t.Run(p.command, func(t *testing.T) {
		network := ""
		if p.network {
			network = "--network "
		}
		for _, session := range []string{"first", "second"} {
			began := time.Now()
			stdout, stderr, err := b.asAlice(t, "codex-runner run "+network+"--repo "+p.dir+" -- "+p.command)
			require.NoError(t, err, "%s\n%s", stdout, stderr)
			assert.Contains(t, stdout+stderr, p.want)
			assert.NotContains(t, stderr, "Compiling", "Cargo goes by the times of the files")
			t.Logf("the %s session took %v", session, time.Since(began).Round(10*time.Millisecond))
		}
	})
}

// asAlice runs a line of a shell as alice, in her home.
func (b projectsBed) asAlice(t *testing.T, line string) (stdout, stderr string, err error) {
	t.Helper()
	return b.Run(t.Context(), "runuser", "-u", "alice", "--", "env", "-C", "/home/alice", "HOME=/home/alice",
		"sh", "-c", line)
}
