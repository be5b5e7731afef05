package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/lazyregexp"
)

var (
	// ErrTooSlow reports a fetch that took longer than its bound.
	ErrTooSlow = errors.New("the repository was not fetched in time: try again, or raise the bound")
	// ErrTooLarge reports a repository that is larger than its bound.
	ErrTooLarge = errors.New("the repository is larger than its bound: raise the bound, or use a smaller repository")
	// ErrURL reports a URL that is not fetched.
	ErrURL = errors.New("this URL cannot be fetched")
)

// Mirror is a copy of a repository with all its refs (git clone --mirror).
type Mirror struct {
	Dir   string        // the bare repository; the directory above it exists
	URL   string        // as CheckURL accepts it
	Time  time.Duration // bound of a fetch
	Bytes int64         // bound of the repository on the disk
	// Credentials begins the paths of the files GitCredentials, SSHKey and SSHKnownHosts, each if it is needed. With ""
	// there are no files. They are used only if Lent, their URL, Covers the URL of the mirror.
	Credentials, Lent string
	// Env has variables of the settings, of which git gets the proxies and the certificates.
	Env map[string]string
}

// transport are the variables of proxies and certificates, for git and libcurl.
var transport = []string{
	"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE",
	"SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
}

var scp = lazyregexp.New(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*@[A-Za-z0-9_][A-Za-z0-9_.-]*:[^:-][^\x00-\x20]*$`)

// CheckURL accepts https, http, ssh, git and file URLs and USER@HOST:PATH, without a password. Its error, an ErrURL,
// names the fault and the remedy.
func CheckURL(address string) error {
	if scp.MatchString(address) {
		return nil
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("%w: it has a fault or characters that no URL has; write https://HOST/PATH or USER@HOST:PATH",
			ErrURL)
	case u.User != nil && hasPassword(u):
		return fmt.Errorf("%w: it has a password, which logs would show; give it as a credential", ErrURL)
	case u.Scheme == "file" && u.Host == "" && u.Path != "":
		return nil
	case !strings.Contains(" https http ssh git ", " "+u.Scheme+" ") || u.Hostname() == "" || u.Path == "":
		return fmt.Errorf("%w: %q is no https, http, ssh, git or file URL; write https://HOST/PATH or USER@HOST:PATH",
			ErrURL, address)
	case strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.String(), "-"):
		return fmt.Errorf("%w: %q has a host or user that ssh would take for an option", ErrURL, address)
	}
	return nil
}

func hasPassword(u *url.URL) bool {
	_, ok := u.User.Password()
	return ok
}

// Fetch makes the mirror, or brings it up to date. It forgets the refs that the origin no longer has, but no objects:
// a session may use them. A first fetch that ends early leaves no mirror. The errors are ErrURL, ErrTooSlow,
// ErrTooLarge, ErrDiskFull or a *GitError with git's reason. One Fetch of a mirror runs at a time.
func (m Mirror) Fetch(ctx context.Context) error {
	if err := CheckURL(m.URL); err != nil {
		return err
	}
	return m.bounded(ctx, func(ctx context.Context) error {
		head, err := m.head(ctx)
		if err != nil {
			return err
		}
		return m.into(ctx, head.format, func(g git) error {
			_, err := g.run(ctx, nil, "fetch", "--quiet", "--prune", "--force", "--no-write-fetch-head",
				"--no-auto-maintenance",
				"--no-recurse-submodules", "--", m.URL, "+refs/*:refs/*")
			if err == nil && head.branch != "" { // a fetch leaves HEAD as it is
				_, err = g.run(ctx, nil, "symbolic-ref", "HEAD", head.branch)
			}
			return err
		})
	})
}

// FetchBundle takes the refs and objects of a bundle, an absolute path, which WriteBundle made from a local repository.
// The commit becomes the branch bundled, and HEAD; its tags become the only ones. It has the same bounds and errors as
// Fetch.
func (m Mirror) FetchBundle(ctx context.Context, bundle string) error {
	format, err := formatOf(bundle)
	if err != nil {
		return err
	}
	return m.bounded(ctx, func(ctx context.Context) error {
		return m.into(ctx, format, func(g git) error {
			err := g.cutOff(ctx, bundle)
			if err == nil {
				_, err = g.run(ctx, nil, "fetch", "--quiet", "--force", "--prune", "--no-write-fetch-head",
					"--no-auto-maintenance", "--no-recurse-submodules", "--", bundle, "+HEAD:refs/heads/"+bundled,
					"+refs/tags/*:refs/tags/*", "+"+moduleRefs+"*:"+moduleRefs+"*")
			}
			if err == nil {
				_, err = g.run(ctx, nil, "symbolic-ref", "HEAD", "refs/heads/"+bundled)
			}
			return err
		})
	})
}

// cutOff has git know where the history of a bundle ends, if it is of a shallow repository.
func (g git) cutOff(ctx context.Context, bundle string) error {
	heads, err := g.run(ctx, nil, "bundle", "list-heads", bundle)
	if err != nil {
		return err
	}
	var shallow strings.Builder
	for line := range strings.Lines(string(heads)) {
		if commit, ref, _ := strings.Cut(strings.TrimSpace(line), " "); ref == boundary+commit {
			shallow.WriteString(commit + "\n")
		}
	}
	if shallow.Len() == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(g.dir, "shallow"), []byte(shallow.String()), 0o644)
}

// remoteHead describes the HEAD of the origin.
type remoteHead struct {
	branch string // "refs/heads/…", or "" for none
	format string // of objects: sha1 or sha256
}

func (m Mirror) head(ctx context.Context) (remoteHead, error) {
	out, err := git{env: m.environment(), config: m.config()}.run(ctx, nil, "ls-remote", "--symref", "--", m.URL,
		"HEAD")
	h := remoteHead{format: "sha1"}
	for line := range strings.Lines(string(out)) {
		value, _, _ := strings.Cut(line, "\t")
		if branch, ok := strings.CutPrefix(value, "ref: "); ok {
			h.branch = branch
		} else if len(value) == 64 {
			h.format = "sha256"
		}
	}
	return h, err
}

// formatOf reads which objects a bundle has (gitformat-bundle(5)).
func formatOf(bundle string) (string, error) {
	file, err := os.Open(bundle)
	if err != nil {
		return "", err
	}
	defer file.Close()
	head := make([]byte, 4<<10)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	if bytes.Contains(head[:n], []byte("\n@object-format=sha256\n")) {
		return "sha256", nil
	}
	return "sha1", nil
}

// bounded runs a fetch under the bound of time, and names the bound that ended it.
func (m Mirror) bounded(ctx context.Context, fetch func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.Time, ErrTooSlow)
	defer cancel()
	return m.reason(ctx, fetch(ctx))
}

// into runs a fetch into the mirror, or into a new one that becomes the mirror if the fetch succeeds.
func (m Mirror) into(ctx context.Context, format string, fetch func(git) error) error {
	dir, err := m.ready(ctx, format)
	if err != nil {
		return err
	}
	size, err := m.within(dir)
	if err != nil {
		return err
	}
	g := git{dir: dir, env: m.environment(), config: m.config(), bytes: m.Bytes - size}
	if err := fetch(g); err != nil {
		return m.cut(g, err)
	}
	if err := tidy(ctx, dir); err != nil {
		return err
	}
	if _, err := m.within(dir); err != nil || dir == m.Dir {
		return err
	}
	return os.Rename(dir, m.Dir)
}

// within returns the size of a mirror, or ErrTooLarge.
func (m Mirror) within(dir string) (int64, error) {
	size, err := Size(dir)
	if err == nil && size >= m.Bytes {
		err = fmt.Errorf("%w (%d of %d bytes)", ErrTooLarge, size, m.Bytes)
	}
	return size, err
}

// ready returns the directory to fetch into: the mirror, or an empty repository next to it.
func (m Mirror) ready(ctx context.Context, format string) (string, error) {
	if _, err := os.Stat(filepath.Join(m.Dir, "HEAD")); err == nil {
		return m.Dir, nil
	}
	fresh := m.Dir + ".new"
	for _, left := range []string{m.Dir, fresh} {
		if err := os.RemoveAll(left); err != nil {
			return "", err
		}
	}
	_, err := git{dir: fresh}.run(ctx, nil, "init", "--quiet", "--bare", "--template=", "--object-format="+format)
	return fresh, err
}

// tidy keeps the number of files small, and the refs in the one file that Checkout reads.
func tidy(ctx context.Context, dir string) error {
	g := git{dir: dir}
	_, err := g.run(ctx, nil, "pack-refs", "--all")
	if err == nil {
		_, err = g.run(ctx, nil, "repack", "-d", "--quiet", "--geometric=2")
	}
	return err
}

// reason names the bound that ended a fetch.
func (m Mirror) reason(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrTooSlow) {
		return fmt.Errorf("%w (%s)", ErrTooSlow, m.Time)
	}
	return err
}

// cut removes the pack of a fetch that failed with err. RLIMIT_FSIZE ends the process that writes it with SIGXFSZ
// (setrlimit(2)), which git does not report: a pack of just the length of the bound is the sign.
func (m Mirror) cut(g git, err error) error {
	packs, _ := filepath.Glob(filepath.Join(g.dir, "objects/pack/tmp_*"))
	for _, pack := range packs {
		if info, statErr := os.Stat(pack); statErr == nil && info.Size() >= g.bytes {
			err = fmt.Errorf("%w (%d bytes)", ErrTooLarge, m.Bytes)
		}
		err = errors.Join(err, ignoreMissing(os.Remove(pack)))
	}
	return err
}

// config has all that one fetch brings become one file, so that a bound of a file is a bound of the fetch.
func (m Mirror) config() []string {
	all := []string{"fetch.unpackLimit=1", "credential.helper="}
	if file := m.credential(GitCredentials); file != "" {
		// The helper knows hosts and no paths: a redirection could choose another repository of the host.
		all = append(all, "credential.helper=store --file="+shellQuote(file), "http.followRedirects=false")
	}
	return all
}

// environment allows the transports of CheckURL and no other: a redirection or a hostile bundle cannot choose ext:: (a
// command).
func (m Mirror) environment() []string {
	ssh := "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes"
	if file := m.credential(SSHKey); file != "" {
		ssh += " -o IdentitiesOnly=yes -i " + shellQuote(file)
	}
	if file := m.credential(SSHKnownHosts); file != "" {
		ssh += " -o " + shellQuote("UserKnownHostsFile="+file)
	}
	env := []string{"GIT_SSH_COMMAND=" + ssh, "GIT_ALLOW_PROTOCOL=https:http:ssh:git:file"}
	for _, name := range transport {
		value, ok := m.Env[name]
		if !ok {
			value, ok = os.LookupEnv(name)
		}
		if ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// credential returns the path of a credential, or "" if the mirror has no such credential.
func (m Mirror) credential(name string) string {
	file := m.Credentials + name
	if _, err := os.Stat(file); m.Credentials == "" || !Covers(m.Lent, m.URL) || err != nil {
		return ""
	}
	return file
}

// shellQuote quotes a word for the shell that git starts with GIT_SSH_COMMAND and credential.helper.
func shellQuote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// boundFiles has no file that the process writes become longer than bytes.
func boundFiles(process *os.Process, bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	err := unix.Prlimit(process.Pid, unix.RLIMIT_FSIZE, &limit, nil)
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return err
}

// Size returns how many bytes the files of a directory have. The directory may be a link, as the state of a dynamic
// user is.
func Size(dir string) (int64, error) {
	var size int64
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !e.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return ignoreMissing(err)
	})
	return size, err
}

// ignoreMissing accepts a file that was removed since its directory was read.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
