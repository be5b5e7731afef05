// Command intruder is what tests run in a session to prove what it cannot reach. `intruder hold` puts a mark into every
// place that a session has, and waits. `intruder try` then tries from another session to reach the first one, the
// service and the host, and writes a line for each attempt that succeeded.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// victim is what the intruder has found out about another session. Its JSON is the argument after the verb.
type victim struct {
	ID     string // of the session
	Slot   int    // of its workspace
	UID    int    // of its user
	PID    int    // of its command
	Main   int    // of its main process
	Key    string // of its repository, and of its environment
	Mark   string // the text in all its places
	Unit   string // its unit
	Remote string // an address of the host that listens: HOST:PORT
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "euid" {
		fmt.Print(os.Geteuid())
		return nil
	}
	if len(args) < 2 {
		return errors.New("use: intruder hold MARK | intruder try VICTIM [NAME]... | intruder euid")
	}
	if args[0] == "hold" {
		return hold(args[1])
	}
	var v victim
	if err := json.Unmarshal([]byte(args[1]), &v); err != nil {
		return err
	}
	tried := 0
	for _, a := range attempts(v) {
		if len(args) > 2 && !slices.Contains(args[2:], a.name) {
			continue
		}
		tried++
		if err := a.try(); err == nil {
			fmt.Println("REACHED", a.name)
		}
	}
	fmt.Println("tried", tried)
	return nil
}

// attempt returns nil if it reached what it should not.
type attempt struct {
	name string
	try  func() error
}

// attempts are all attempts. None harms the machine if it succeeds.
func attempts(v victim) []attempt {
	return slices.Concat(files(v), writes(v), processes(v), sockets(v), memories(), rights())
}
