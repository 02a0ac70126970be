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
// address with the most; of several such addresses, the oldest one of all.
type connections struct {
	mu        sync.Mutex
	open      map[net.Conn]*connection
	groups    map[group]*list.List // of connections, the oldest first
	strangers int                  // connections in groups that are not admitted
	number    int                  // of the connection opened last
}

// group is a principal, or an address whose clients have not been admitted yet.
type group struct {
	admitted bool
	name     string
}

type connection struct {
	net.Conn
	of    *connections
	age   int // its number in the order in which connections were opened
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
	c.number++
	one := &connection{Conn: conn, of: c, age: c.number}
	c.open[conn] = one
	c.enter(one, group{name: network(conn.RemoteAddr())})
	if c.strangers > mostStrangers {
		c.closeOldest(c.largest())
	}
	return one
}

// largest returns the address with the most connections that are not admitted. Of several such
// addresses, it is the one with the oldest connection, so that a new connection is never the one to
// close while there are others.
func (c *connections) largest() group {
	var most group
	size, age := 0, 0
	for g, l := range c.groups {
		oldest := l.Front().Value.(*connection).age
		if !g.admitted && (l.Len() > size || l.Len() == size && oldest < age) {
			most, size, age = g, l.Len(), oldest
		}
	}
	return most
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
