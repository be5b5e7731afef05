package machine

import (
	"context"
	"encoding/hex"
	"fmt"
	"path"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

const (
	managerName = "org.freedesktop.systemd1"
	ofUnits     = managerName + ".Unit"
	ofServices  = managerName + ".Service"
)

// askBound bounds the questions of one ask: a test may have stopped the bus. systemctl(1), as root, needs none.
const askBound = 2 * time.Second

// asked are the properties that tests ask for again and again while they wait, by their interface. For an answer,
// systemctl takes ten times as much of a processor as systemd.
var asked = map[string]string{
	"ActiveEnterTimestampMonotonic": ofUnits,
	"ActiveState":                   ofUnits,
	"ExecMainStatus":                ofServices,
	"InvocationID":                  ofUnits,
	"MainPID":                       ofServices,
	"NRestarts":                     ofServices,
	"Result":                        ofServices,
	"StateChangeTimestampMonotonic": ofUnits,
	"StatusText":                    ofServices,
	"SubState":                      ofUnits,
}

// ask asks systemd for properties of a service. The answer is false if not all of them are among the asked ones, or if
// none comes over the bus.
func (m *Machine) ask(ctx context.Context, unit string, properties []string) (map[string]string, bool) {
	if path.Ext(unit) != ".service" || len(properties) == 0 {
		return nil, false
	}
	for _, p := range properties {
		if asked[p] == "" {
			return nil, false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	conn, err := m.bus(ctx)
	if err != nil {
		return nil, false
	}
	defer conn.Close()
	object := conn.Object(managerName, dbus.ObjectPath("/org/freedesktop/systemd1/unit/"+systemd.PathBusEscape(unit)))
	values := map[string]string{}
	for _, p := range properties {
		var v dbus.Variant
		if object.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, asked[p], p).Store(&v) != nil {
			return nil, false
		}
		values[p] = shown(v.Value())
	}
	return values, true
}

// shown is the text that systemctl shows for a value.
func shown(value any) string {
	if id, is := value.([]byte); is {
		return hex.EncodeToString(id)
	}
	return fmt.Sprint(value)
}
