package bus

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// systemBusPath is the default socket of the system bus (D-Bus specification,
// "Well-known Message Bus Instances").
const systemBusPath = "/run/dbus/system_bus_socket"

// systemBusSockets returns the sockets of the system bus, in the order to try
// them. It honours DBUS_SYSTEM_BUS_ADDRESS. An abstract one starts with @.
func systemBusSockets() ([]string, error) {
	env := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	if env == "" {
		return []string{systemBusPath}, nil
	}
	var sockets []string
	for address := range strings.SplitSeq(env, ";") {
		socket, err := unixSocket(address)
		if err != nil {
			return nil, fmt.Errorf("cannot use DBUS_SYSTEM_BUS_ADDRESS: %q %w", address, err)
		}
		sockets = append(sockets, socket)
	}
	return sockets, nil
}

// unixSocket returns the socket of one "unix:path=…,guid=…" address.
func unixSocket(address string) (string, error) {
	keys, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return "", errors.New("is not a unix: address")
	}
	for pair := range strings.SplitSeq(keys, ",") {
		key, value, _ := strings.Cut(pair, "=")
		prefix, ok := map[string]string{"path": "", "abstract": "@"}[key]
		if !ok {
			continue
		}
		value, err := url.PathUnescape(value)
		if err != nil {
			return "", errors.New("has a bad escape")
		}
		return prefix + value, nil
	}
	return "", errors.New("has neither path= nor abstract=")
}
