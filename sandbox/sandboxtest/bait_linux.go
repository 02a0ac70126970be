package sandboxtest

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// secretMark is the prefix of every secret in a cell.
const secretMark = "METIER-SECRET-"

// bait is everything in a cell that an attack can harm.
type bait struct {
	c       *cell
	secrets map[string]string // by location
	victim  victim

	mu     sync.Mutex
	hits   []string
	marked *sync.Cond
	marks  int
	udp    []string
	kept   []io.Closer // stdin pipes of the victims, which exit when they close
}

// victim is a host process that is unrelated to any job.
type victim struct {
	pid      int
	addr, fd string // of its secret
	in       io.Writer
	out      *bufio.Reader
}

// guarded are the files of a cell that a program must not read.
var guarded = []string{"/etc/shadow", "/root/.ssh/id_ed25519", "/home/victim/.ssh/id_ed25519", "/home/victim/.aws/credentials",
	"/home/victim/.config/gcloud/application_default_credentials.json", "/home/victim/.claude/skills/other/SKILL.md", "/home/victim/.netrc", "/var/tmp/job-of-another/notes", "/tmp/host-notes", "/dev/shm/host-notes"}

// Sockets in a cell that hosts commonly have.
const (
	abstract = "@/tmp/.X11-unix/X0"
	docker   = "/run/docker.sock"
	dbus     = "/run/user/1000/bus"
	agent    = "/home/victim/.ssh/agent.sock"
)

func layBait(c *cell) *bait {
	b := &bait{c: c, secrets: map[string]string{}}
	b.marked = sync.NewCond(&b.mu)
	for _, p := range guarded {
		b.file(p, b.secret(p)+"\n")
		c.must(os.Chmod(p, 0o600))
	}
	b.file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nvictim:x:1000:1000::/home/victim:/bin/sh\n")
	b.file("/etc/resolv.conf", "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n")
	b.file("/home/victim/.bashrc", "# as it was\n")
	c.must(os.Setenv("VICTIM_TOKEN", b.secret("the environment")))
	b.startVictim()
	for _, l := range [][2]string{{"tcp4", "127.0.0.1:4040"}, {"tcp6", "[::1]:4040"}, {"tcp4", metadata + ":80"}, {"unix", abstract}, {"unix", docker}, {"unix", dbus}, {"unix", agent}} {
		b.listen(l[0], l[1])
	}
	for _, a := range []string{"127.0.0.1:4040", "[::1]:4040", "127.0.0.1:53", "127.0.0.53:53", metadata + ":53"} {
		b.listenUDP(a)
	}
	return b
}

// secret returns a random token that can only be known by reading it at where.
func (b *bait) secret(where string) string {
	var r [8]byte
	_, _ = rand.Read(r[:])
	s := secretMark + hex.EncodeToString(r[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.secrets[where] = s
	return s
}

func (b *bait) file(path, text string) {
	b.c.must(os.MkdirAll(filepath.Dir(path), 0o755))
	b.c.must(os.WriteFile(path, []byte(text), 0o644))
}

func (b *bait) startVictim() {
	b.file("/home/victim/treasure", b.secret("the memory of another process"))
	cmd := exec.Command(attackFile, "victim", "/home/victim/treasure")
	cmd.Env = []string{"VICTIM_TOKEN=" + b.secret("the environment of another process")}
	in, err := cmd.StdinPipe()
	b.c.must(err)
	b.kept = append(b.kept, in)
	out, err := cmd.StdoutPipe()
	b.c.must(err)
	b.c.must(cmd.Start())
	b.victim = victim{pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	_, err = fmt.Fscanln(b.victim.out, &b.victim.addr, &b.victim.fd)
	b.c.must(err)
	b.c.must(os.Remove("/home/victim/treasure"))
}

func (b *bait) pid() string { return strconv.Itoa(b.victim.pid) }

// lives reports whether the victim still answers. A killed process does not
// answer, even before it is reaped.
func (b *bait) lives() bool {
	if _, err := io.WriteString(b.victim.in, "alive\n"); err != nil {
		return false
	}
	_, err := b.victim.out.ReadString('\n')
	return err == nil
}

func (b *bait) hit(format string, a ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hits = append(b.hits, fmt.Sprintf(format, a...))
}

// taken returns and clears what the listeners recorded.
func (b *bait) taken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hits
	b.hits = nil
	return h
}

// listen records each connection and answers it with a secret.
func (b *bait) listen(network, addr string) {
	if network == "unix" && addr[0] == '/' {
		b.c.must(os.MkdirAll(filepath.Dir(addr), 0o755))
	}
	l, err := net.Listen(network, addr)
	b.c.must(err)
	if network == "unix" && addr[0] == '/' {
		b.c.must(os.Chmod(addr, 0o777))
	}
	s := b.secret("the listener at " + addr)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				b.hit("a connection to %s", addr)
				_, _ = bufio.NewReader(conn).ReadString('\n')
				_, _ = io.WriteString(conn, s)
				_ = conn.Close()
			}()
		}
	}()
}

const mark = "mark of the judge"

func (b *bait) listenUDP(addr string) {
	c, err := net.ListenPacket("udp", addr)
	b.c.must(err)
	b.udp = append(b.udp, addr)
	go func() {
		buf := make([]byte, 1500)
		for {
			n, _, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if string(buf[:n]) == mark {
				b.mu.Lock()
				b.marks++
				b.marked.Broadcast()
				b.mu.Unlock()
				continue
			}
			b.hit("a datagram of %d bytes to %s", n, addr)
		}
	}()
}

// settle returns when everything sent so far is recorded. Datagrams to a local
// socket are read in the order they were sent.
func (b *bait) settle() {
	b.mu.Lock()
	want := b.marks + len(b.udp)
	b.mu.Unlock()
	for _, addr := range b.udp {
		c, err := net.Dial("udp", addr)
		b.c.must(err)
		_, err = c.Write([]byte(mark))
		b.c.must(err)
		b.c.must(c.Close())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.marks < want {
		b.marked.Wait()
	}
}

// lend listens at path and sends a descriptor of a secret file to every client.
func (b *bait) lend(path string) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	b.c.must(err)
	b.c.must(os.Chmod(path, 0o777))
	f, err := os.Open(guarded[0])
	b.c.must(err)
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			b.hit("a connection to %s", path)
			_, _, _ = c.WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil)
			_ = c.Close()
		}
	}()
}

// same reports whether the content of a file is text.
func same(path, text string) bool {
	b, err := os.ReadFile(path)
	return err == nil && string(b) == text
}

// tree lists the files of a folder with their contents, for a later comparison.
func tree(dir string) (out []string) {
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return nil
		}
		line := strings.TrimPrefix(p, dir)
		if fi, err := d.Info(); err == nil {
			line += " " + fi.Mode().String()
		}
		if d.Type().IsRegular() {
			b, _ := os.ReadFile(p)
			line += fmt.Sprintf(" %q", short(b))
		}
		out = append(out, line)
		return nil
	})
	slices.Sort(out)
	return out
}
