package brokerunit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/sharing"
	"codex-proxy/workers/shim"
)

// Authorities is the credential of the broker with the certificates of ca_file.
const Authorities = "provider-authorities"

// files are the files of workers.
var files = settingsfile.Kind{Many: "accounts", Valid: units.ValidName}

// LoginVariable is the variable of a broker with the path of the socket of the worker's login.
const LoginVariable = "CODEX_LOGIN"

// Generate writes, for each worker of the directory settings that has a broker, the drop-ins of that, of the unit of
// its login and of the worker's own unit into dir, systemd's directory of generated units. operator are the directories
// with the drop-ins of the operator, the strongest last. A file with a fault has none: worker-prepare reports the
// fault. hosts has the accounts that other workers serve: their own units do not run.
func Generate(settings string, hosts sharing.Hosts, operator []string, dir string) error {
	return files.Generate(settings, func(file string) error {
		w, err := codexhome.Load(file)
		if err != nil || !w.Brokered {
			return nil
		}
		name := strings.TrimSuffix(filepath.Base(file), ".toml")
		own, err := readDropIns(operator, name)
		if err != nil {
			return err
		}
		if w.LoginApart() {
			err = errors.Join(write(dir, units.Login(name), loginDropIn(w, name, own)),
				want(dir, units.LoginSocket(name)))
		}
		if host := hosts[name]; host != "" {
			return errors.Join(err, writeServed(dir, name, host, w))
		}
		served := hosts.Served(name)
		return errors.Join(err,
			write(dir, units.Worker(name), workerDropIn(w, name, own)+servingWorker(served)),
			write(dir, units.Broker(name), brokerDropIn(w, name, own)+servingBroker(name, served)))
	})
}

// dropIn is the name of a drop-in that comes after those of an operator.
const dropIn = "zz-broker.conf"

func write(dir, unit, text string) error {
	dir = filepath.Join(dir, unit+".d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, dropIn), []byte(text), 0o644)
}

// Generated reports whether the directory of generated units has a broker for the worker.
func Generated(dir, worker string) bool {
	_, err := os.Stat(filepath.Join(dir, units.Broker(worker)+".d", dropIn))
	return err == nil
}

// want has codex.target start an instance of a template.
func want(dir, unit string) error {
	dir = filepath.Join(dir, paths.TargetUnit+".wants")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	prefix, rest, _ := strings.Cut(unit, "@")
	err := os.Symlink(filepath.Join(packaged, prefix+"@"+rest[strings.LastIndex(rest, "."):]), filepath.Join(dir, unit))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// packaged is the directory of our units.
const packaged = "/usr/lib/systemd/system"

// MadeOf is the variable of a broker with the settings that its unit was made of.
const MadeOf = "CODEX_BROKER_MADE_OF"

// madeOf are the settings of a worker in its broker's unit.
func madeOf(w *codexhome.Worker) string {
	if w.LoginApart() {
		return "login"
	}
	return w.Provider.Credential + ":" + w.Provider.CAFile
}

// outside are sockets, open to every user, of services that send requests for others to a network.
const outside = "/run/systemd/resolve/io.systemd.Resolve /run/nscd /run/avahi-daemon /run/cups /run/snapd.socket " +
	"/run/snapd-snap.socket"

// workerDropIn takes the network and the key of the provider from codex, and what would lead codex past its broker: a
// proxy, a filter of addresses that stops loopback, too, and another namespace.
func workerDropIn(w *codexhome.Worker, name string, own dropIns) string {
	var b unitfile.Lines
	b.Add("# Made of %s at a daemon-reload: edit that file.", w.File)
	b.Add("[Unit]\nRequires=%[1]s\nWants=%[2]s\nAfter=%[1]s %[2]s", units.BrokerSocket(name), units.Broker(name))
	if w.LoginApart() {
		b.Add("Requires=%[1]s\nAfter=%[1]s", units.LoginSocket(name))
	}
	socket := paths.WorkerRuntimeDirs + "/" + name + "/broker.sock"
	b.Add("[Service]\nPrivateNetwork=yes\nNetworkNamespacePath=\nIPAddressAllow=\nIPAddressDeny=")
	b.Add("InaccessiblePaths=-%s", strings.ReplaceAll(outside, " ", " -"))
	b.Add("UnsetEnvironment=HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy")
	// -: the socket does not exist yet when a stop runs ExecStop= of a unit that has just got this drop-in.
	b.Add("BindReadOnlyPaths=-%s/%s.sock:%s", paths.BrokerSockets, name, socket)
	b.Add("Environment=%s=%s", shim.BrokerVariable, socket)
	if w.LoginApart() || w.Provider.Credential == "" {
		return b.String()
	}
	var reset []string
	for _, line := range own.credentials {
		if !slices.Contains(reset, line.key) {
			reset = append(reset, line.key)
			b.Add("%s=", line.key)
		}
	}
	for _, line := range own.credentials {
		if line.id() != w.Provider.Credential {
			b.Add("%s=%s", line.key, line.value)
		}
	}
	return b.String()
}

// brokerDropIn gives the broker the key, and what the operator has set for the requests of codex.
func brokerDropIn(w *codexhome.Worker, name string, own dropIns) string {
	var b unitfile.Lines
	b.Add("# Made of %s at a daemon-reload: edit that file.", w.File)
	if w.LoginApart() {
		b.Add("[Unit]\nRequires=%[1]s\nAfter=%[1]s", units.LoginSocket(name))
		// A mount of the unit's own: on the host this is an empty file, in a directory that all may read. -: a socket
		// that an earlier build has opened is not there, and the broker has better words for that than systemd.
		socket := paths.BrokerStates + "/" + name + "/login.sock"
		b.Add("[Service]\nBindReadOnlyPaths=-%s:%s", paths.OwnLoginSocket(name), socket)
		b.Add("Environment=%s=%s", LoginVariable, socket)
	}
	b.Add("[Service]\nUser=%s", units.BrokerUser(name))
	if w.Provider != nil {
		for _, line := range keyLines(w.Provider, own) {
			b.Add("%s", line)
		}
	}
	for _, line := range own.network {
		b.Add("%s=%s", line.key, line.value)
	}
	b.Add("Environment=%s", unitfile.Word(MadeOf+"="+madeOf(w)))
	return b.String()
}

// keyLines are the lines with the secret and the authorities of a provider.
func keyLines(p *codexhome.Provider, own dropIns) []string {
	var lines []string
	for _, line := range own.credentials {
		if id := line.id(); id == p.Credential && id != "" {
			lines = append(lines, line.key+"="+line.value)
			if line.key == "LoadCredential" {
				lines = append(lines, "SetCredential="+id+":"+missing) // in place of a file that does not exist
			}
		}
	}
	if p.CAFile != "" {
		lines = append(lines, "LoadCredential="+Authorities+":"+unitfile.Text(p.CAFile),
			"SetCredential="+Authorities+":"+missing)
	}
	return lines
}

// loginDropIn gives the unit of the login the operator's settings for the requests of codex.
func loginDropIn(w *codexhome.Worker, name string, own dropIns) string {
	var b unitfile.Lines
	b.Add("# Made of %s at a daemon-reload: edit that file.", w.File)
	b.Add("[Service]\nUser=%s", units.LoginUser(name))
	for _, line := range own.network {
		b.Add("%s=%s", line.key, line.value)
	}
	return b.String()
}

// missing is the text of a credential without a file: it is neither a key nor a certificate.
const missing = "no file"

// line is a setting of a unit.
type line struct{ key, value string }

// id is the name of a credential.
func (l line) id() string {
	id, _, _ := strings.Cut(l.value, ":")
	return id
}

// dropIns are settings of an operator for the unit of one worker.
type dropIns struct {
	credentials []line
	network     []line // what determines how requests reach the endpoint
}

var (
	credentialKeys = []string{"LoadCredential", "LoadCredentialEncrypted", "SetCredential", "SetCredentialEncrypted"}
	networkKeys    = []string{"Environment", "EnvironmentFile", "PassEnvironment", "UnsetEnvironment", "IPAddressAllow",
		"IPAddressDeny", "NetworkNamespacePath"}
)

// longest bounds a drop-in, in bytes.
const longest = 64 << 10

// readDropIns reads the drop-ins of the worker's unit, in the order of systemd: by the names of the files. One for this
// worker takes the place of one for all workers that has the same name.
func readDropIns(operator []string, name string) (dropIns, error) {
	byName := map[string]string{}
	for _, unit := range []string{units.Worker(""), units.Worker(name)} {
		for _, dir := range operator {
			found, err := filepath.Glob(filepath.Join(dir, unit+".d", "*.conf"))
			if err != nil {
				return dropIns{}, err
			}
			for _, file := range found {
				byName[filepath.Base(file)] = file
			}
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	var d dropIns
	for _, file := range names {
		text, err := os.ReadFile(byName[file])
		if err != nil {
			return d, fmt.Errorf("cannot read the settings of a worker's unit: %w", err)
		}
		d.add(ofUnit(name).Replace(string(text[:min(len(text), longest)])))
	}
	return d, nil
}

// ofUnit replaces the specifiers that mean something else in the broker's unit.
func ofUnit(name string) *strings.Replacer {
	prefix, _, _ := strings.Cut(units.Worker(name), "@")
	return strings.NewReplacer("%%", "%%", "%n", units.Worker(name), "%N", strings.TrimSuffix(units.Worker(name), ".service"),
		"%p", prefix, "%i", name)
}

// comment is a line that systemd leaves out, also within a continued one.
var comment = lazyregexp.New(`(?m)^[ \t]*[#;].*\n?`)

// add adds the settings of one file (systemd.syntax(7)). An empty value takes back the ones before it.
func (d *dropIns) add(text string) {
	section := ""
	for at := range strings.Lines(strings.ReplaceAll(comment.ReplaceAllString(text, ""), "\\\n", " ")) {
		at = strings.TrimSpace(at)
		if strings.HasPrefix(at, "[") {
			section = at
		}
		key, value, ok := strings.Cut(at, "=")
		if key = strings.TrimSpace(key); !ok || section != "[Service]" {
			continue
		}
		l := line{key, strings.TrimSpace(value)}
		if slices.Contains(credentialKeys, key) {
			d.credentials = with(d.credentials, l)
		}
		if slices.Contains(networkKeys, key) {
			d.network = with(d.network, l)
		}
	}
}

func with(lines []line, l line) []line {
	if l.value == "" {
		return slices.DeleteFunc(lines, func(of line) bool { return of.key == l.key })
	}
	return append(lines, l)
}
