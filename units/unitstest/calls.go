package unitstest

import (
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
)

// handle answers one method call, with the lock held.
func (m *Systemd) handle(conn *dbus.Conn, msg *dbus.Message) {
	member := header(msg, dbus.FieldMember)
	m.calls[member]++
	switch member {
	case "Get":
		m.get(conn, msg)
	case "Subscribe":
		sender := header(msg, dbus.FieldSender)
		if m.subscribers[sender] {
			fail(conn, msg, "org.freedesktop.systemd1.AlreadySubscribed")
			return
		}
		m.subscribers[sender] = true
		reply(conn, msg)
	case "GetUnit":
		if m.units[msg.Body[0].(string)] == nil {
			fail(conn, msg, "org.freedesktop.systemd1.NoSuchUnit")
			return
		}
		reply(conn, msg, unitPath(msg.Body[0].(string)))
	case "GetUnitByPID":
		if m.own == "" {
			fail(conn, msg, "org.freedesktop.systemd1.NoUnitForPID")
			return
		}
		reply(conn, msg, unitPath(m.own))
	case "StartUnit", "StopUnit", "RestartUnit":
		if m.refuse(conn, msg) {
			return
		}
		u := m.lookup(msg.Body[0].(string))
		job := m.newJob()
		reply(conn, msg, job.Path)
		u.runJob(member, job)
	case "GetJob":
		m.getJob(conn, msg)
	case "SetUnitProperties":
		if !m.refuse(conn, msg) {
			m.lookup(msg.Body[0].(string)).setControl(msg.Body[2])
			reply(conn, msg)
		}
	case "ListUnitsByPatterns":
		reply(conn, msg, m.list(msg.Body[1].([]string)))
	case "ReloadUnit":
		if m.refuse(conn, msg) {
			return
		}
		u := m.lookup(msg.Body[0].(string))
		job := m.newJob()
		reply(conn, msg, job.Path)
		u.endJob(job, "done")
	case "EnableUnitFiles", "DisableUnitFiles", "Reload":
		if !m.refuse(conn, msg) {
			reply(conn, msg)
		}
	case "ResetFailedUnit":
		m.resetFailed(conn, msg)
	default:
		fail(conn, msg, "org.freedesktop.DBus.Error.UnknownMethod")
	}
}

func (m *Systemd) get(conn *dbus.Conn, msg *dbus.Message) {
	if path(msg) == managerPath {
		m.getVersion(conn, msg)
		return
	}
	if kind, ok := m.queued[path(msg)]; ok {
		reply(conn, msg, dbus.MakeVariant(kind))
		return
	}
	m.lookup(unescape(path(msg))).get(conn, msg)
}

func (m *Systemd) getVersion(conn *dbus.Conn, msg *dbus.Message) {
	if msg.Body[0] != managerIface || msg.Body[1] != "Version" {
		fail(conn, msg, "org.freedesktop.DBus.Error.UnknownProperty")
		return
	}
	reply(conn, msg, dbus.MakeVariant("257.13-1~deb13u1"))
}

// getJob knows the jobs that stay.
func (m *Systemd) getJob(conn *dbus.Conn, msg *dbus.Message) {
	for _, u := range m.units {
		if u.held.ID != 0 && u.held.ID == msg.Body[0].(uint32) {
			reply(conn, msg, u.held.Path)
			return
		}
	}
	fail(conn, msg, "org.freedesktop.systemd1.NoSuchJob")
}

func (m *Systemd) resetFailed(conn *dbus.Conn, msg *dbus.Message) {
	if m.refuse(conn, msg) {
		return
	}
	u := m.units[msg.Body[0].(string)]
	if u == nil {
		fail(conn, msg, "org.freedesktop.systemd1.NoSuchUnit")
		return
	}
	u.resetFailed()
	reply(conn, msg)
}

func (m *Systemd) refuse(conn *dbus.Conn, msg *dbus.Message) bool {
	if m.refusal == "" || len(m.refused) > 0 && !slices.Contains(m.refused, header(msg, dbus.FieldMember)) {
		return false
	}
	fail(conn, msg, m.refusal)
	return true
}

func (u *Unit) get(conn *dbus.Conn, msg *dbus.Message) {
	iface, name := msg.Body[0].(string), msg.Body[1].(string)
	value, ok := u.now[name]
	right := iface == typeIface(u.name)
	if ofUnit[name] {
		right = iface == managerName+".Unit"
	}
	if !ok || !right {
		fail(conn, msg, "org.freedesktop.DBus.Error.UnknownProperty")
		return
	}
	reply(conn, msg, dbus.MakeVariant(value))
}

func reply(conn *dbus.Conn, to *dbus.Message, body ...any) {
	send(conn, to, dbus.TypeMethodReply, "", body)
}

func fail(conn *dbus.Conn, to *dbus.Message, name string) {
	send(conn, to, dbus.TypeError, name, []any{"error of the fake systemd: " + name})
}

func send(conn *dbus.Conn, to *dbus.Message, kind dbus.Type, errorName string, body []any) {
	m := &dbus.Message{Type: kind, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: to.Headers[dbus.FieldSender],
		dbus.FieldReplySerial: dbus.MakeVariant(to.Serial()),
	}}
	if errorName != "" {
		m.Headers[dbus.FieldErrorName] = dbus.MakeVariant(errorName)
	}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	conn.Send(m, nil)
}

func callTo(dest string, path dbus.ObjectPath, iface, member string, body ...any) *dbus.Message {
	return &dbus.Message{Type: dbus.TypeMethodCall, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(dest),
		dbus.FieldPath:        dbus.MakeVariant(path),
		dbus.FieldInterface:   dbus.MakeVariant(iface),
		dbus.FieldMember:      dbus.MakeVariant(member),
		dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(body...)),
	}}
}

func header(msg *dbus.Message, field dbus.HeaderField) string {
	s, _ := msg.Headers[field].Value().(string)
	return s
}

func path(msg *dbus.Message) dbus.ObjectPath {
	p, _ := msg.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	return p
}

// unescape undoes unitPath.
func unescape(path dbus.ObjectPath) string {
	label := string(path[strings.LastIndex(string(path), "/")+1:])
	var name []byte
	for i := 0; i < len(label); i++ {
		if label[i] == '_' && i+2 < len(label) {
			name = append(name, hexDigit(label[i+1])<<4|hexDigit(label[i+2]))
			i += 2
			continue
		}
		name = append(name, label[i])
	}
	return string(name)
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}
