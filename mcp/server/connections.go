package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

const (
	mostStrangers = 256  // connections without an admitted request
	mostAdmitted  = 1000 // connections of one principal
)

// connections closes connections of an HTTP server if there are too many, so that clients who may
// not call it cannot keep others out. It closes the oldest connection of the principal, or of the
// address with the most.
type connections struct {
	mu        sync.Mutex
	open      map[net.Conn]*connection
	groups    map[group]*list.List // of connections, the oldest first
	strangers int                  // connections in groups that are not admitted
}

// group is a principal, or an address whose clients have not been admitted yet.
type group struct {
	admitted bool
	name     string
}

type connection struct {
	net.Conn
	of    *connections
	in    group
	place *list.Element // nil once it is closed
}

type connectionKey struct{}

// LimitConnections limits the connections of a server that has not been started. It uses the hooks
// ConnContext and ConnState.
func LimitConnections(s *http.Server) {
	c := &connections{open: map[net.Conn]*connection{}, groups: map[group]*list.List{}}
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, c.opened(conn))
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			c.mu.Lock()
			defer c.mu.Unlock()
			if one := c.open[conn]; one != nil {
				c.remove(one)
			}
		}
	}
}

func (c *connections) opened(conn net.Conn) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &connection{Conn: conn, of: c}
	c.open[conn] = one
	c.enter(one, group{name: network(conn.RemoteAddr())})
	if c.strangers > mostStrangers {
		worst := one.in
		for g, l := range c.groups {
			if n, most := l.Len(), c.groups[worst].Len(); !g.admitted && (n > most || n == most && g.name < worst.name) {
				worst = g
			}
		}
		c.closeOldest(worst)
	}
	return one
}

// admitted notes that a principal called over the connection of a request.
func admitted(ctx context.Context, principal string) {
	one, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	c, g := one.of, group{true, principal}
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.place == nil || one.in == g {
		return
	}
	c.leave(one)
	c.enter(one, g)
	if c.groups[g].Len() > mostAdmitted {
		c.closeOldest(g)
	}
}

func (c *connections) enter(one *connection, g group) {
	if c.groups[g] == nil {
		c.groups[g] = list.New()
	}
	one.in, one.place = g, c.groups[g].PushBack(one)
	if !g.admitted {
		c.strangers++
	}
}

func (c *connections) leave(one *connection) {
	if !one.in.admitted {
		c.strangers--
	}
	l := c.groups[one.in]
	l.Remove(one.place)
	if one.place = nil; l.Len() == 0 {
		delete(c.groups, one.in)
	}
}

func (c *connections) remove(one *connection) {
	delete(c.open, one.Conn)
	c.leave(one)
}

// closeOldest closes a connection. The client sees its end.
func (c *connections) closeOldest(g group) {
	one := c.groups[g].Front().Value.(*connection)
	c.remove(one)
	_ = one.Close() // the server reports nothing else about a connection that ends
}

// network returns the address of a client without its port. Someone who has one address of IPv6
// usually has all that share its first half.
func network(a net.Addr) string {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	ip := p.Addr().Unmap().WithZone("")
	if ip.Is6() {
		half, _ := ip.Prefix(64) // it has 64 bits
		return half.String()
	}
	return ip.String()
}
