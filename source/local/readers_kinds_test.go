package local_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"metier"
	"metier/internal/confine"
	"metier/internal/confine/confinetest"
	"metier/internal/testenv"
	"metier/policy"
	"metier/settings"
	"metier/source/sourcetest"
)

const (
	outsideRoot = "resource_outside_root"
	notFile     = "resource_not_file"
)

// planted is an attack by something at references/x that is not a file, or not
// a file of the skill. It is tried with links followed and not followed, and
// each time both as something that the index has seen, and as something that
// replaced a file after it was indexed. rest is the path below it that is read.
func planted(n int, name, rest string, make func(t *testing.T, v *victim, at string), codes ...string) attack {
	return attack{n, name, func(t *testing.T) {
		var longest time.Duration
		for _, links := range []settings.Symlinks{settings.SymlinksIgnore, settings.SymlinksInBounds} {
			for _, late := range []bool{false, true} {
				v := newVictim(t)
				v.opt.Symlinks = links
				at, path := v.at("references/x"), "references/x"+rest
				if late {
					put(t, v.at("."), path, "was a file")
					v.open()
					v.gives(path, "was a file")
					if err := os.RemoveAll(at); err != nil {
						t.Fatal(err)
					}
				}
				make(t, v, at)
				if !late {
					within(t, func() { v.open() })
				}
				begin := time.Now()
				v.refuses(path, codes...)
				longest = max(longest, time.Since(begin))
				v.gives("references/a.md", inside)
			}
		}
		t.Logf("two answers and their record took at most %s", longest)
	}}
}

// leads plants a link. If it leads to a folder or file, a reader who follows it
// finds the canary.
func leads(rest string, target func(v *victim) string) func(*testing.T, *victim, string) {
	return func(t *testing.T, v *victim, at string) {
		link(t, target(v), at)
		if b, err := os.ReadFile(at + filepath.FromSlash(rest)); err != nil || string(b) != canary {
			t.Fatalf("a naive reader is not tricked: %q, %v", b, err)
		}
	}
}

func to(target string) func(*victim) string { return func(*victim) string { return target } }

var onKinds = []attack{
	planted(17, "link out, absolute", "", leads("", (*victim).outside), outsideRoot),
	planted(17, "link out, relative", "", leads("", to("../../../outside/secret")), outsideRoot),
	planted(17, "link to another skill", "", func(t *testing.T, v *victim, at string) {
		put(t, v.dir, "root/other/SKILL.md", sourcetest.Skill("other", "d"))
		put(t, v.dir, "root/other/secret", canary)
		leads("", to("../../other/secret"))(t, v, at)
	}, outsideRoot),
	{17, "link in", func(t *testing.T) {
		for links, code := range map[settings.Symlinks]string{settings.SymlinksIgnore: outsideRoot, settings.SymlinksInBounds: ""} {
			for _, target := range []func(*victim) string{to("a.md"), func(v *victim) string { return v.at("references/a.md") }} {
				v := newVictim(t)
				v.opt.Symlinks = links
				link(t, target(v), v.at("references/x"))
				v.open()
				if o := v.reads("guide", "references/x"); o.Code() != code || code == "" && !strings.Contains(o.Text(), inside) {
					t.Errorf("links %s: code %q: %s", links, o.Code(), o.Text())
				}
			}
		}
	}},
	planted(18, "linked folder", "/secret", leads("/secret", func(v *victim) string { return filepath.Dir(v.outside()) }), outsideRoot),
	planted(18, "linked folder, relative", "/secret", leads("/secret", to("../../../outside")), outsideRoot),
	{18, "linked root", linkedRoot},
	planted(19, "dangling link", "", func(t *testing.T, v *victim, at string) { link(t, "nowhere", at) }, outsideRoot, "resource_not_found"),
	planted(19, "loop", "", func(t *testing.T, v *victim, at string) {
		link(t, "y", at)
		link(t, "x", filepath.Join(filepath.Dir(at), "y"))
	}, outsideRoot, "resource_not_found"),
	planted(19, "chain of 41 links", "", func(t *testing.T, v *victim, at string) {
		next := "x"
		for i := range 41 {
			name := next
			next = fmt.Sprint("chain", i)
			link(t, next, filepath.Join(filepath.Dir(at), name))
		}
		link(t, v.outside(), filepath.Join(filepath.Dir(at), next))
	}, outsideRoot, "resource_not_found"),
	planted(20, "link through a magic link", "", func(t *testing.T, v *victim, at string) {
		if runtime.GOOS != "linux" {
			testenv.Skip(t, "magic links are those of Linux")
		}
		leads("", func(v *victim) string { return "/proc/self/root" + v.outside() })(t, v, at)
	}, outsideRoot),
	{20, "magic links themselves", func(t *testing.T) {
		d := ofProcess(t)
		for _, path := range []string{"root/etc/passwd", "cwd/local_test.go", "exe", "fd/0"} {
			if f, err := d.Open(path); confine.CodeOf(err) != confine.Outside {
				t.Errorf("%s: %v, %v", path, f, err)
			}
		}
	}},
	{21, "hard link to a file outside", hardLinked},
	planted(22, "FIFO", "", func(t *testing.T, v *victim, at string) { fifo(t, at) }, notFile),
	{23, "device", func(t *testing.T) {
		if os.Geteuid() != 0 {
			return // the next one puts a device there in another way
		}
		planted(23, "device", "", func(t *testing.T, v *victim, at string) {
			if err := confinetest.Zero(at); err != nil {
				testenv.Skip(t, "no device can be made here: "+err.Error())
			}
			if f, err := os.Open(at); err == nil { // unless devices do not work on this file system
				defer f.Close()
				if n, err := f.Read(make([]byte, 9)); n != 9 || err != nil {
					t.Fatalf("a naive reader is not tricked: %d bytes, %v", n, err)
				}
			}
		}, notFile, "permission_denied").try(t)
	}},
	mounted(23, "device of the host", func(v *victim) string { return "/dev/zero" }, outsideRoot),
	planted(24, "socket", "", func(t *testing.T, v *victim, at string) {
		short, err := os.MkdirTemp("", "s") // a socket's path must be short, and a test's folder may not be
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(short) })
		l, err := net.Listen("unix", filepath.Join(short, "s"))
		if err != nil {
			testenv.Skip(t, "no sockets in folders here: "+err.Error())
		}
		t.Cleanup(func() { l.Close() })
		if err := os.Rename(filepath.Join(short, "s"), at); err != nil {
			t.Fatal(err)
		}
	}, notFile),
	planted(25, "folder", "", func(t *testing.T, v *victim, at string) { put(t, at, "y", "z") }, notFile),
	mounted(26, "mount of a file", (*victim).outside, outsideRoot),
	{26, "mount of a folder", func(t *testing.T) {
		if !confinetest.Cage(t) {
			return
		}
		v := newVictim(t)
		put(t, v.at("."), "references/x/secret", "was a file")
		confinetest.Bind(t, filepath.Dir(v.outside()), v.at("references/x"))
		v.open().refuses("references/x/secret", outsideRoot)
		v.gives("references/a.md", inside)
	}},
	{27, "mode 000", func(t *testing.T) {
		if !testenv.OrdinaryUser(t) {
			return
		}
		planted(27, "mode 000", "", func(t *testing.T, v *victim, at string) { chmod(t, put(t, filepath.Dir(at), "x", canary), 0) }, "permission_denied").try(t)
		planted(27, "folder of mode 000", "/y", func(t *testing.T, v *victim, at string) {
			put(t, at, "y", canary)
			chmod(t, at, 0)
			t.Cleanup(func() { _ = os.Chmod(at, 0o755) })
		}, "permission_denied").try(t)
	}},
	{28, "1 TiB without a byte", func(t *testing.T) {
		v := newVictim(t)
		sparse := func(path string) {
			if err := os.Truncate(put(t, v.at("."), path, ""), 1<<40); err != nil {
				testenv.Skip(t, "no file without bytes here: "+err.Error())
			}
		}
		put(t, v.at("."), "references/late", "small")
		sparse("references/x")
		within(t, func() { v.open() })
		sparse("references/late")
		for _, path := range []string{"references/x", "references/late"} {
			v.refuses(path, "resource_too_large")
		}
		v.gives("references/a.md", inside)
	}},
	{29, "growing, shrinking and rewritten", rewritten},
	{30, "no size, and data without end", endless},
	mounted(30, "file of the kernel, mounted", func(*victim) string { return "/proc/self/pagemap" }, outsideRoot),
}

// mounted is planted with something mounted over a file, in a cage.
func mounted(n int, name string, from func(*victim) string, code string) attack {
	return attack{n, name, func(t *testing.T) {
		if !confinetest.Cage(t) {
			return
		}
		for _, late := range []bool{false, true} {
			v := newVictim(t)
			put(t, v.at("."), "references/x", "was a file")
			if late {
				v.open()
			}
			confinetest.Bind(t, from(v), v.at("references/x"))
			if f, err := os.Open(v.at("references/x")); err != nil {
				t.Fatal(err)
			} else if n, err := f.Read(make([]byte, 8)); n != 8 || err != nil {
				t.Fatalf("a naive reader is not tricked: %d bytes, %v", n, err)
			} else {
				f.Close()
			}
			if !late {
				within(t, func() { v.open() })
			}
			v.refuses("references/x", code)
			v.gives("references/a.md", inside)
		}
	}}
}

// A root may be a link, which is resolved when the root is named. What replaces
// it later is another root, and is not read.
func linkedRoot(t *testing.T) {
	v := newVictim(t)
	put(t, v.dir, "evil/guide/SKILL.md", sourcetest.Skill("guide", canary))
	put(t, v.dir, "evil/guide/references/a.md", canary)
	link(t, "root", filepath.Join(v.dir, "link"))
	v.src = open(t, filepath.Join(v.dir, "link"), &v.opt)
	v.open().gives("references/a.md", inside)
	swap := func(name string) {
		if err := os.Rename(filepath.Join(v.dir, name), filepath.Join(v.dir, "was-"+name)); err != nil {
			testenv.Skip(t, "an open folder cannot be renamed here: "+err.Error())
		}
		link(t, "evil", filepath.Join(v.dir, name))
	}
	swap("link")
	v.gives("references/a.md", inside)
	swap("root")
	if o := v.reads("guide", "references/a.md"); o.Code() == "" {
		t.Errorf("the new root is read: %s", o.Text())
	}
}

// A hard link is the file itself: nothing shows which name came first. If the
// operator does not trust the author of the root (tier third_party, see the
// mounts of the command line), files with more than one name are left out and
// refused. In roots of users who can read the file anyway, they are accepted.
func hardLinked(t *testing.T) {
	for _, tier := range []policy.Tier{policy.ThirdParty, policy.Project} {
		for _, late := range []bool{false, true} {
			v := newVictim(t)
			v.tier = tier
			v.opt.RefuseHardLinks = tier == policy.ThirdParty
			if late {
				put(t, v.at("."), "references/x", "was a file")
				v.open()
				if err := os.Remove(v.at("references/x")); err != nil {
					t.Fatal(err)
				}
			}
			if tier != policy.ThirdParty { // it may be read, so it is not a canary
				put(t, v.dir, "outside/secret", "a file of the same owner")
			}
			if err := os.Link(v.outside(), v.at("references/x")); err != nil {
				testenv.Skip(t, "no hard links here: "+err.Error())
			}
			if !late {
				v.open()
			}
			if tier == policy.ThirdParty {
				v.refuses("references/x", outsideRoot)
			} else if o := v.reads("guide", "references/x"); o.Code() != "" || !strings.Contains(o.Text(), "of the same owner") {
				t.Errorf("code %q: %s", o.Code(), o.Text())
			}
			v.gives("references/a.md", inside)
		}
	}
}

// A read returns what was hashed, whatever happens to the file. A read of a
// file that grows faster than it is read ends.
func rewritten(t *testing.T) {
	v := newVictim(t)
	v.set.Read.Default, v.set.Read.Max = 1<<20, 1<<20
	texts := []string{strings.Repeat("first\n", 2_000), strings.Repeat("the second\n", 9_000), ""}
	path := put(t, v.at("."), "references/x", texts[0])
	v.open()
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for i := 0; !stop.Load(); i++ { // in place: neither the name nor the inode changes
			text := texts[i%len(texts)]
			_, err := f.WriteAt([]byte(text), 0)
			if err = errors.Join(err, f.Truncate(int64(len(text)))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	seen, snap := map[int]int{}, v.Snapshot()
	for i := 0; i < 300 || i < 5_000 && len(seen) < 3; i++ {
		if i%20 == 0 {
			v.begin(snap) // each read searches the record
		}
		o, err := v.Read(t.Context(), "guide", "references/x", 0)
		if err != nil || o.Code() != "" {
			t.Fatalf("%v: %s", err, o.Text())
		}
		r, e := metier.Reading{}, v.last()
		decode(t, o.Detail(), &r)
		_, text, _ := strings.Cut(o.Text(), ">\n")
		text = strings.TrimSuffix(text[:max(0, strings.LastIndex(text, "<"))], "\n")
		if want := text; r.IsText && !r.Truncated && len(r.Diagnostics) == 0 && digestOf(want) != r.Digest && digestOf(want+"\n") != r.Digest {
			t.Fatalf("read %d: %d bytes of digest %s, said to be %d of %s", i, len(text), digestOf(text), r.Size, r.Digest)
		}
		if *r.Matches != (r.Digest == digestOf(texts[0])) || string(r.Digest) != e.ObservedDigest || *e.Matches != *r.Matches {
			t.Fatalf("read %d: %+v, recorded as %+v", i, r, e)
		}
		seen[int(r.Size)]++
	}
	t.Logf("%d sizes seen", len(seen))
	stop.Store(true)
	wg.Wait()

	grows, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer grows.Close()
	size := int64(0)
	v.grown(func() { // by more than the reader takes
		size += 1 << 20
		if err := grows.Truncate(size); err != nil {
			t.Error(err)
		}
	}).refuses("references/x", "resource_too_large")
}

func digestOf(text string) metier.Digest {
	return metier.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))))
}

// grown is the victim with a source that lets the attacker act before each read
// of a file.
func (v *victim) grown(act func()) *victim {
	v.t.Helper()
	w := *v
	w.src = between{open(v.t, filepath.Join(v.dir, "root"), &v.opt), func(path string, f io.ReadCloser) io.ReadCloser {
		if path != "references/x" {
			return f
		}
		return acting{f, act}
	}}
	snap, err := metier.Build(v.t.Context(), []metier.Mount{{Label: "skills", Tier: v.tier, Source: w.src}}, v.set.Parse, v.set.Names, v.set.Read.IndexRoot, false)
	if err != nil {
		v.t.Fatal(err)
	}
	return w.begin(snap)
}

type acting struct {
	io.ReadCloser
	act func()
}

func (a acting) Read(p []byte) (int, error) {
	a.act()
	return a.ReadCloser.Read(p)
}

// between is a source whose opened files pass through a function.
type between struct {
	metier.Source
	file func(path string, f io.ReadCloser) io.ReadCloser
}

func (s between) Open(ctx context.Context, path string) (metier.Bundle, error) {
	b, err := s.Source.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return betweenBundle{b, s.file}, nil
}

type betweenBundle struct {
	metier.Bundle
	file func(path string, f io.ReadCloser) io.ReadCloser
}

func (b betweenBundle) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	f, err := b.Bundle.Open(ctx, file)
	if err != nil {
		return nil, err
	}
	return b.file(file, f), nil
}

// ofProcess is the kernel's folder about this process, opened as a skill's
// folder is.
func ofProcess(t *testing.T) *confine.Dir {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "/proc is that of Linux")
	}
	d, err := confine.OpenDir(fmt.Sprintf("/proc/%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Kernel files report a size of zero bytes. One with more than a reader may
// take replaces a skill's file.
func endless(t *testing.T) {
	process := ofProcess(t)
	if _, info, err := process.ReadFile("status", 10); confine.CodeOf(err) != confine.TooBig || info.Size != 0 {
		t.Errorf("read whole: %+v, %v", info, err)
	}
	v := newVictim(t)
	put(t, v.at("."), "references/x", "was a file")
	met := 0
	v.src = between{open(t, filepath.Join(v.dir, "root"), nil), func(path string, f io.ReadCloser) io.ReadCloser {
		if path != "references/x" {
			return f
		}
		f.Close()
		kernel, err := process.Open("pagemap")
		if err != nil {
			t.Error(err)
			return f
		}
		met++
		return &pages{File: kernel}
	}}
	v.open().refuses("references/x", "resource_too_large")
	if met == 0 {
		t.Error("the file of the kernel was not opened")
	}
}

// pages reads a kernel file that can only be read in whole words.
type pages struct {
	*confine.File
	page [4096]byte
	rest []byte
}

func (r *pages) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		n, err := r.File.Read(r.page[:])
		if err != nil {
			return 0, err
		}
		r.rest = r.page[:n]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
