package outboundtest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Names are the addresses of host names in lower case.
type Names map[string][]string

// Lookup returns the addresses of a name, nil if it is unknown.
func (n Names) Lookup(name string) []string { return n[name] }

// Resolver returns a resolver that answers DNS queries by lookup, over pipes. A
// nil answer means that the name is unknown.
func Resolver(lookup func(name string) []string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			for answer(theirs, lookup) == nil {
			}
		}()
		return ours, nil
	}}
}

// answer answers one query, framed as over TCP.
func answer(c net.Conn, lookup func(string) []string) error {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	raw := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, raw); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(raw); err != nil {
		return err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q := m.Questions[0]
	addrs := lookup(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")))
	if addrs == nil {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		ip := netip.MustParseAddr(a)
		head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
		switch {
		case q.Type == dnsmessage.TypeA && ip.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: ip.As4()}})
		case q.Type == dnsmessage.TypeAAAA && ip.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	packed, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
	return err
}
